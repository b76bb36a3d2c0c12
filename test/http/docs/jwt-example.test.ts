import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { exportJWK, exportSPKI, generateKeyPair, SignJWT, UnsecuredJWT } from 'jose'
import { jwt } from '../../../examples/jwt/scheme.js'
import { compose, guard, json, principalOf, type HttpResponse } from '../../../src/index.js'
import { authenticate, authorize } from '../../../src/policies/index.js'
import { request } from '../../unit/kit/request.js'

const issuer = 'https://login.example'
const audience = 'api'
const pair = await generateKeyPair('ES256', { extractable: true })
const stranger = await generateKeyPair('ES256')
const jwks = { keys: [{ ...await exportJWK(pair.publicKey), kid: 'one', alg: 'ES256', use: 'sig' }] }
/** How the provider answers: with its keys, with a failure, or never. */
let provider: 'well' | 'broken' | 'silent' = 'well'
const server = createServer((_, res) => {
  if (provider === 'silent') return
  res.statusCode = provider === 'well' ? 200 : 500
  res.end(JSON.stringify(jwks))
})

interface Claims {
  readonly sub?: string
  readonly aud?: string
  readonly iss?: string
  readonly exp?: string | number
  readonly nbf?: string
  readonly scope?: string
}

function sign(claims: Claims = {}, key = pair.privateKey, kid = 'one'): Promise<string> {
  const { sub = 'ann', aud = audience, iss = issuer, exp = '5m', nbf, scope } = claims
  const token = new SignJWT(scope === undefined ? {} : { scope })
    .setProtectedHeader({ alg: 'ES256', kid })
    .setAudience(aud)
    .setIssuer(iss)
    .setSubject(sub)
    .setExpirationTime(exp)
  return (nbf === undefined ? token : token.setNotBefore(nbf)).sign(key)
}

before(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
})
after(() => {
  server.closeAllConnections()
  server.close()
})

const heard: unknown[] = []
function api(): (authorization: string) => Promise<HttpResponse> {
  const keys = `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks.json`
  const handler = guard(compose(
    authenticate({ schemes: [jwt({ keys, issuer, audience })] }),
    authorize({ allow: ({ subject }) => subject !== 'eve', reason: 'not_eve' }),
    (asked) => json(200, principalOf(asked)),
  ), { onError: (error) => { heard.push(error) } })
  return async (authorization) => await handler(request({ headers: { authorization } })) as HttpResponse
}

describe('JSON Web Tokens', () => {
  test('SPEC 5.2: a valid token gives the user and the roles', async () => {
    const ask = api()
    const { status, body } = await ask(`Bearer ${await sign({ scope: 'read write' })}`)
    assert.deepEqual([status, JSON.parse(body as string)], [200, { subject: 'ann', scopes: ['read', 'write'] }])
    assert.equal((await ask(`bearer ${await sign({ sub: 'eve' })}`)).status, 403)
  })

  test('SPEC 5.2: an invalid token gets a 401', async () => {
    const ask = api()
    heard.length = 0
    const good = await sign()
    const [head = '', payload = '', signature = ''] = good.split('.')
    const coded = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
    // The public key as a shared secret: what a verifier falls for that lets the token choose.
    const confused = await new SignJWT({})
      .setProtectedHeader({ alg: 'HS256', kid: 'one' })
      .setAudience(audience)
      .setIssuer(issuer)
      .setSubject('ann')
      .setExpirationTime('5m')
      .sign(new TextEncoder().encode(await exportSPKI(pair.publicKey)))
    const bad: Record<string, string> = {
      'expired': await sign({ exp: Math.floor(Date.now() / 1000) - 60 }),
      'not yet valid': await sign({ nbf: '1h' }),
      'for somebody else': await sign({ aud: 'another' }),
      'of somebody else': await sign({ iss: 'https://evil.example' }),
      "nobody's": await sign({ sub: '' }),
      'signed by a stranger': await sign({}, stranger.privateKey),
      'of a key that there is not': await sign({}, stranger.privateKey, 'two'),
      'without an end': await new SignJWT({})
        .setProtectedHeader({ alg: 'ES256', kid: 'one' })
        .setAudience(audience)
        .setIssuer(issuer)
        .setSubject('ann')
        .sign(pair.privateKey),
      'unsigned': new UnsecuredJWT({})
        .setAudience(audience)
        .setIssuer(issuer)
        .setSubject('ann')
        .setExpirationTime('5m')
        .encode(),
      'alg none with a signature': `${coded({ alg: 'none' })}.${payload}.${signature}`,
      confused,
      'changed': `${head}.${coded({ ...(JSON.parse(Buffer.from(payload, 'base64url').toString()) as object), sub: 'root' })}.${signature}`,
      'cut': good.slice(0, -4),
      'no token': 'nonsense',
      'five parts': 'a.b.c.d.e',
      'two dots': '..',
      'unknown alg': `${coded({ alg: 'XX99', kid: 'one' })}.${payload}.${signature}`,
      'unknown crit': `${coded({ alg: 'ES256', kid: 'one', crit: ['x'], x: 1 })}.${payload}.${signature}`,
      'no JSON': `${Buffer.from('{').toString('base64url')}.${payload}.${signature}`,
    }
    for (const [what, token] of Object.entries(bad)) {
      const { status, headers } = await ask(`Bearer ${token}`)
      assert.equal(status, 401, what)
      assert.match(String(headers['www-authenticate']), /error="invalid_token"/, what)
    }
    assert.deepEqual(heard, [])
    assert.match((await ask(`Bearer ${bad['expired']}`)).body as string, /The token has expired\./)
    assert.doesNotMatch((await ask('Bearer nonsense')).body as string, /expired/)
    assert.equal((await ask(`Bearer ${good}`)).status, 200)
  })

  test(
    'SPEC 7.502, 7.504: a provider that fails gets a 502 or 504, and only onError receives the reason',
    { timeout: 20_000 },
    async () => {
      for (const [how, status] of [
        ['broken', 502],
        ['silent', 504],
      ] as const) {
        heard.length = 0
        provider = how
        const answer = await api()(`Bearer ${await sign()}`)
        provider = 'well'
        assert.equal(answer.status, status)
        assert.doesNotMatch(answer.body as string, /JWK|JSON Web|login/i)
        assert.equal(heard.length, 1)
      }
    },
  )
})
