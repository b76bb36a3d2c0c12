import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { memory } from '../../../adapters/memory/index.js'
import { describe, test } from 'node:test'
import { httpError } from '../../../src/http/errors.js'
import { compose, type Handler, type HttpRequest, type RequestHeaders } from '../../../src/http/exchange.js'
import { principalOf, type Principal } from '../../../src/http/principal.js'
import { json } from '../../../src/http/respond.js'
import { authenticate, type AuthenticateOptions } from '../../../src/policies/authenticate.js'
import { authorize } from '../../../src/policies/authenticate.js'
import { rateLimit } from '../../../src/policies/rate-limit.js'
import { apiKey, basic, bearer, hostUser, tokens } from '../../../src/policies/schemes.js'
import { sameSecret, secretDigest } from '../../../src/policies/schemes.js'
import { cors } from '../../../src/resources/cors.js'
import { ask } from '../kit/request.js'

const PEOPLE = { 'tok-ann': { subject: 'ann' }, 'AbC._~+/-123==': { subject: 'bob' } }
const b64 = (text: string): string => Buffer.from(text).toString('base64')
const verifyPassword = (name: string, password: string): Principal | undefined =>
  (name === 'ann' && sameSecret(password, 'pässword:1')) ||
  (name === 'bob' && password === '') ||
  (name === '' && password === 'anonymous')
    ? { subject: `basic-${name}` }
    : undefined

const whoAmI = (request: Parameters<typeof principalOf>[0]) =>
  json(200, { subject: principalOf(request)?.subject ?? null })
const only = (...schemes: AuthenticateOptions<Principal>['schemes']) => compose(authenticate({ schemes }), whoAmI)

const handlers = {
  bearer: only(bearer({ verify: tokens(PEOPLE) })),
  slow: only(bearer({ verify: async (token) => tokens(PEOPLE)(token) })),
  basic: only(basic({ verify: verifyPassword })),
  header: only(apiKey({ header: 'X-API-Key', verify: tokens({ 'key-1': { subject: 'key' } }) })),
  query: only(apiKey({ query: 'api_key', verify: tokens({ 'key-1': { subject: 'key' } }) })),
  all: only(
    bearer({ verify: async (token) => tokens(PEOPLE)(token) }),
    basic({ verify: verifyPassword }),
    apiKey({ header: 'x-api-key', verify: tokens({ 'key-1': { subject: 'key' } }) }),
  ),
}

const BEARER = 'Bearer realm="longhaul"'
const INVALID = `${BEARER}, error="invalid_token"`
const BASIC = 'Basic realm="longhaul", charset="UTF-8"'
const HEADER = 'ApiKey realm="longhaul", in="header", name="x-api-key"'
const QUERY = 'ApiKey realm="longhaul", in="query", name="api_key"'
const auth = (authorization: string | string[]): RequestHeaders => ({ authorization })
const key = (value: string | string[]): RequestHeaders => ({ 'x-api-key': value })
const LONG = 'a'.repeat(8193)

/** Handler, headers, and the subject, or the challenge of the 401; then, where it matters, the path. */
type Row = readonly [
  name: string,
  handler: keyof typeof handlers,
  headers: RequestHeaders,
  expected: { readonly is: string } | string,
  path?: string,
]

const bearerRows = (handler: 'bearer' | 'slow'): Row[] => [
  ['missing', handler, {}, BEARER],
  ['valid', handler, auth('Bearer tok-ann'), { is: 'ann' }],
  ['every character of token68', handler, auth('Bearer AbC._~+/-123=='), { is: 'bob' }],
  ['scheme in lower case', handler, auth('bearer tok-ann'), { is: 'ann' }],
  ['scheme in upper case', handler, auth('BEARER tok-ann'), { is: 'ann' }],
  ['scheme in mixed case', handler, auth('bEaReR tok-ann'), { is: 'ann' }],
  ['two spaces', handler, auth('Bearer  tok-ann'), { is: 'ann' }],
  ['space at the end', handler, auth('Bearer tok-ann '), { is: 'ann' }],
  ['unknown', handler, auth('Bearer nope'), INVALID],
  ['token in another case', handler, auth('Bearer TOK-ANN'), INVALID],
  ['a prefix of a token', handler, auth('Bearer tok-an'), INVALID],
  ['a token with more behind', handler, auth('Bearer tok-ann1'), INVALID],
  ['padding that is not its own', handler, auth('Bearer tok-ann='), INVALID],
  ['scheme alone', handler, auth('Bearer'), INVALID],
  ['scheme and spaces', handler, auth('Bearer    '), INVALID],
  ['two tokens', handler, auth('Bearer tok-ann tok-ann'), INVALID],
  ['joined lines', handler, auth('Bearer tok-ann, Bearer tok-ann'), INVALID],
  ['two lines', handler, auth(['Bearer tok-ann', 'Bearer tok-ann']), INVALID],
  ['one line as a list', handler, auth(['Bearer tok-ann']), { is: 'ann' }],
  ['no line as a list', handler, auth([]), BEARER],
  ['quoted', handler, auth('Bearer "tok-ann"'), INVALID],
  ['with a colon', handler, auth('Bearer: tok-ann'), BEARER],
  ['parameters', handler, auth('Bearer token=tok-ann'), INVALID],
  ['a tab', handler, auth('Bearer\ttok-ann'), BEARER],
  ['token alone', handler, auth('tok-ann'), BEARER],
  ['space in front', handler, auth(' Bearer tok-ann'), BEARER],
  ['empty', handler, auth(''), BEARER],
  ['another scheme', handler, auth('Basic dG9rLWFubjo='), BEARER],
  ['a scheme that begins alike', handler, auth('BearerX tok-ann'), BEARER],
  ['Digest', handler, auth('Digest username="ann"'), BEARER],
  ['very long', handler, auth(`Bearer ${LONG}`), INVALID],
  ['not ASCII', handler, auth('Bearer tök'), INVALID],
  ['a control', handler, auth('Bearer tok\u0001ann'), INVALID],
  ['__proto__', handler, auth('Bearer __proto__'), INVALID],
  ['constructor', handler, auth('Bearer constructor'), INVALID],
]

const ROWS: readonly Row[] = [
  ...bearerRows('bearer'),
  ...bearerRows('slow'),
  ['missing', 'basic', {}, BASIC],
  ['valid, UTF-8, colon in the password', 'basic', auth(`Basic ${b64('ann:pässword:1')}`), { is: 'basic-ann' }],
  ['scheme in upper case', 'basic', auth(`BASIC ${b64('ann:pässword:1')}`), { is: 'basic-ann' }],
  ['empty password', 'basic', auth(`Basic ${b64('bob:')}`), { is: 'basic-bob' }],
  ['empty name', 'basic', auth(`Basic ${b64(':anonymous')}`), { is: 'basic-' }],
  ['without padding', 'basic', auth(`Basic ${b64('bob:').replaceAll('=', '')}`), { is: 'basic-bob' }],
  ['wrong password', 'basic', auth(`Basic ${b64('ann:pässword:2')}`), BASIC],
  ['password in Latin-1', 'basic', auth(`Basic ${Buffer.from('ann:pässword:1', 'latin1').toString('base64')}`), BASIC],
  ['name in another case', 'basic', auth(`Basic ${b64('Ann:pässword:1')}`), BASIC],
  ['unknown name', 'basic', auth(`Basic ${b64('eve:x')}`), BASIC],
  ['no colon', 'basic', auth(`Basic ${b64('ann')}`), BASIC],
  ['only a colon', 'basic', auth(`Basic ${b64(':')}`), BASIC],
  ['not base64', 'basic', auth('Basic !!!!'), BASIC],
  ['base64url', 'basic', auth('Basic _-__'), BASIC],
  ['base64 of bad length', 'basic', auth('Basic YW5uO'), BASIC],
  ['bare text', 'basic', auth('Basic ann:pässword:1'), BASIC],
  ['a NUL', 'basic', auth(`Basic ${b64('bob:\0')}`), BASIC],
  ['a line break', 'basic', auth(`Basic ${b64('bob:\n')}`), BASIC],
  ['scheme alone', 'basic', auth('Basic'), BASIC],
  ['scheme and space', 'basic', auth('Basic '), BASIC],
  ['two values', 'basic', auth(`Basic ${b64('bob:')} ${b64('bob:')}`), BASIC],
  ['very long', 'basic', auth(`Basic ${b64(`bob:${LONG}`)}`), BASIC],
  ['another scheme', 'basic', auth('Bearer tok-ann'), BASIC],
  ['joined lines', 'basic', auth(`Basic ${b64('bob:')}, Basic ${b64('bob:')}`), BASIC],
  ['missing', 'header', {}, HEADER],
  ['valid', 'header', key('key-1'), { is: 'key' }],
  ['unknown', 'header', key('key-2'), HEADER],
  ['in another case', 'header', key('KEY-1'), HEADER],
  ['empty', 'header', key(''), HEADER],
  ['two lines', 'header', key(['key-1', 'key-1']), HEADER],
  ['joined lines', 'header', key('key-1, key-1'), HEADER],
  ['very long', 'header', key(LONG), HEADER],
  ['a control', 'header', key('key-1\u0000'), HEADER],
  ['in the query', 'header', {}, HEADER, '/?api_key=key-1'],
  ['in Authorization', 'header', auth('key-1'), HEADER],
  ['ApiKey in Authorization', 'header', auth('ApiKey key-1'), HEADER],
  ['missing', 'query', {}, QUERY],
  ['valid', 'query', {}, { is: 'key' }, '/?api_key=key-1'],
  ['percent-encoded', 'query', {}, { is: 'key' }, '/?api_key=key%2D1'],
  ['beside others', 'query', {}, { is: 'key' }, '/?a=b&api_key=key-1&c'],
  ['unknown', 'query', {}, QUERY, '/?api_key=key-2'],
  ['empty', 'query', {}, QUERY, '/?api_key='],
  ['without value', 'query', {}, QUERY, '/?api_key'],
  ['twice', 'query', {}, QUERY, '/?api_key=key-1&api_key=key-1'],
  ['name in another case', 'query', {}, QUERY, '/?API_KEY=key-1'],
  ['in a header', 'query', key('key-1'), QUERY],
  ['very long', 'query', {}, QUERY, `/?api_key=${LONG}`],
  ['none', 'all', {}, `${BEARER}, ${BASIC}, ${HEADER}`],
  ['the first', 'all', auth('Bearer tok-ann'), { is: 'ann' }],
  ['the second', 'all', auth(`Basic ${b64('bob:')}`), { is: 'basic-bob' }],
  ['the third', 'all', key('key-1'), { is: 'key' }],
  ['the third, beside a bad first', 'all', { authorization: 'Bearer nope', 'x-api-key': 'key-1' }, { is: 'key' }],
  ['the third, beside a malformed second', 'all', { authorization: 'Basic !', 'x-api-key': 'key-1' }, { is: 'key' }],
  ['two good ones: the first named', 'all', { authorization: 'Bearer tok-ann', 'x-api-key': 'key-1' }, { is: 'ann' }],
  ['a bad first', 'all', auth('Bearer nope'), `${INVALID}, ${BASIC}, ${HEADER}`],
  ['a bad second', 'all', auth(`Basic ${b64('ann:x')}`), `${BEARER}, ${BASIC}, ${HEADER}`],
  ['a bad third', 'all', key('nope'), `${BEARER}, ${BASIC}, ${HEADER}`],
  ['all bad', 'all', { authorization: 'Bearer nope', 'x-api-key': 'nope' }, `${INVALID}, ${BASIC}, ${HEADER}`],
  ['a scheme that nobody knows', 'all', auth('Negotiate YII='), `${BEARER}, ${BASIC}, ${HEADER}`],
]

describe(`SPEC 5.2: ${ROWS.length} requests, with and without credentials`, () => {
  test('are enough requests', () => assert.ok(ROWS.length >= 100, `${ROWS.length} rows`))
  for (const [name, handler, headers, expected, path = '/'] of ROWS) {
    test(`get the expected response: ${handler}: ${name}`, async () => {
      const answer = await ask(handlers[handler], { headers, path, method: 'POST' })
      if (typeof expected === 'object') {
        assert.deepEqual([answer.status, answer.json], [200, { subject: expected.is }], 'who it is')
        return
      }
      assert.equal(answer.status, 401, 'refused')
      assert.equal(answer.headers['www-authenticate'], expected, 'the challenge')
      assert.deepEqual(answer.json, { error: 'Valid credentials are required.', code: 'unauthorized' }, 'the body')
      assert.deepEqual(answer.heard, [], 'nothing for the host to look at')
    })
  }
})

describe('authenticate', () => {
  test('keeps the user of the application and the earlier properties of its context', async () => {
    const handler = compose(
      authenticate({ schemes: [hostUser((request) => (request.context as { user?: Principal }).user)] }),
      (request) => json(200, { ...request.context as object }),
    )
    const user = { subject: 'sue', plan: 'gold' }
    assert.deepEqual(
      (await ask(handler, { context: { user, tenant: 't' } })).json,
      { user, tenant: 't', principal: user },
      'context',
    )
    const nobody = await ask(handler, { context: {} })
    assert.equal(nobody.status, 401, 'nobody')
    assert.equal(nobody.headers['www-authenticate'], 'Session realm="longhaul"', 'challenge')
  })

  test('responds with 500 if verify fails, and reports the failure', async () => {
    for (const verify of [
      () => {
        throw new Error('key server away')
      },
      () => Promise.reject(new Error('key server away')),
    ]) {
      const answer = await ask(only(bearer({ verify })), { headers: auth('Bearer x') })
      assert.equal(answer.status, 500, 'status')
      assert.equal(answer.headers['www-authenticate'], undefined, 'no challenge')
      assert.match(String(answer.heard[0]), /key server away/, 'heard')
    }
  })

  test('passes no malformed or overlong credentials to verify', async () => {
    const anybody = compose(
      authenticate({
        schemes: [
          bearer({ verify: () => ({ subject: 'anybody' }) }),
          basic({ verify: () => ({ subject: 'anybody' }) }),
        ],
      }),
      whoAmI,
    )
    for (const authorization of ['Bearer', 'Bearer a b', `Bearer ${LONG}`, 'Basic !', `Basic ${b64(`a:${LONG}`)}`]) {
      assert.equal((await ask(anybody, { headers: { authorization } })).status, 401, authorization.slice(0, 12))
    }
    assert.equal((await ask(anybody, { headers: { authorization: 'Bearer a' } })).status, 200)
  })

  test('treats a principal without a subject as an error of the application', async () => {
    for (const broken of [{}, { subject: '' }, { subject: 7 }]) {
      const answer = await ask(only(bearer({ verify: () => broken as Principal })), { headers: auth('Bearer x') })
      assert.equal(answer.status, 500, JSON.stringify(broken))
    }
  })

  test('caches successes for ttlMs, and verifies concurrent requests once', async () => {
    let calls = 0
    const verify = async (token: string): Promise<Principal | undefined> => {
      calls++
      await new Promise((resolve) => { setImmediate(resolve) })
      return token.startsWith('good') ? { subject: token } : undefined
    }
    const handler = compose(
      authenticate({ schemes: [bearer({ verify })], cache: { maxEntries: 2, ttlMs: 60_000 } }),
      whoAmI,
    )
    const as = (token: string) => ask(handler, { headers: auth(`Bearer ${token}`) })
    const all = await Promise.all(Array.from({ length: 20 }, () => as('good-1')))
    assert.deepEqual(
      [calls, ...new Set(all.map(({ json }) => json['subject']))],
      [1, 'good-1'],
      'twenty at once, one call',
    )
    await as('good-1')
    assert.equal(calls, 1, 'remembered')
    assert.deepEqual([(await as('bad')).status, (await as('bad')).status, calls], [401, 401, 3], 'failures are not')
    await as('good-2')
    await as('good-3')
    await as('good-1')
    assert.equal(calls, 6, 'the oldest of three had to go')

    const short = compose(authenticate({ schemes: [bearer({ verify })], cache: { maxEntries: 2, ttlMs: 1 } }), whoAmI)
    calls = 0
    await ask(short, { headers: auth('Bearer good') })
    const later = performance.now() + 5
    while (performance.now() < later) await new Promise((resolve) => { setImmediate(resolve) })
    await ask(short, { headers: auth('Bearer good') })
    assert.equal(calls, 2, 'forgotten after its time')
  })

  test('separates the same text under two schemes in the cache', async () => {
    const handler = compose(authenticate({
      schemes: [
        bearer({ verify: (token) => (token === 'same' ? { subject: 'bearer' } : undefined) }),
        apiKey({ header: 'x-api-key', verify: (token) => (token === 'same' ? { subject: 'key' } : undefined) }),
      ],
      cache: { maxEntries: 10, ttlMs: 60_000 },
    }), whoAmI)
    assert.equal((await ask(handler, { headers: auth('Bearer same') })).json['subject'], 'bearer', 'first')
    assert.equal((await ask(handler, { headers: key('same') })).json['subject'], 'key', 'second')
  })

  test('separates two schemes of one kind in the cache', async () => {
    const scheme = (header: string, subject: string) =>
      apiKey({ header, verify: (given: string) => (given === 'same' ? { subject } : undefined) })
    const cache = { maxEntries: 10, ttlMs: 60_000 }
    const handler = compose(
      authenticate({ schemes: [scheme('x-user-key', 'user'), scheme('x-admin-key', 'admin')], cache }),
      whoAmI,
    )
    for (const _ of [1, 2]) {
      assert.equal((await ask(handler, { headers: { 'x-user-key': 'same' } })).json['subject'], 'user')
      assert.equal((await ask(handler, { headers: { 'x-admin-key': 'same' } })).json['subject'], 'admin')
    }
    const refuses = apiKey({ header: 'x-admin-key', verify: () => undefined })
    const strict = compose(authenticate({ schemes: [scheme('x-user-key', 'user'), refuses], cache }), whoAmI)
    assert.equal((await ask(strict, { headers: { 'x-user-key': 'same' } })).status, 200)
    assert.equal((await ask(strict, { headers: { 'x-admin-key': 'same' } })).status, 401)
  })

  describe('with a cache and a verify that reads the request', () => {
    /** A token that is good at one address only. */
    const bound = (token: string, request: HttpRequest) =>
      token === 'tok' && request.peerAddress === '192.0.2.1' ? { subject: 'ann' } : undefined
    const cache = { maxEntries: 10, ttlMs: 60_000 }
    const at = (handler: Handler, peerAddress: string) => ask(handler, { headers: auth('Bearer tok'), peerAddress })

    test('rejects the token of one address at another address, because the function key returns the address that verify reads', async () => {
      let calls = 0
      const verify = (token: string, request: HttpRequest) => { calls++; return bound(token, request) }
      const handler = compose(
        authenticate({
          schemes: [bearer({ verify })],
          cache: { ...cache, key: ({ peerAddress }) => peerAddress ?? '' },
        }),
        whoAmI,
      )
      const statuses: number[] = []
      for (const address of ['192.0.2.1', '192.0.2.9', '192.0.2.1']) statuses.push((await at(handler, address)).status)
      assert.deepEqual([statuses, calls], [[200, 401, 200], 2])
    })

    test('fails without the function key and says what to do', async () => {
      const password = (name: string, secret: string, request: HttpRequest) => bound(name + secret, request)
      const basicAuth = auth(`Basic ${Buffer.from('to:k').toString('base64')}`)
      for (const [scheme, headers] of [
        [bearer({ verify: bound }), auth('Bearer tok')],
        [basic({ verify: password }), basicAuth],
      ] as const) {
        const { status, heard } = await ask(compose(authenticate({ schemes: [scheme], cache }), whoAmI), {
          headers,
          peerAddress: '192.0.2.1',
        })
        assert.equal(status, 500)
        assert.match(
          String(heard[0]),
          /verify reads peerAddress of the request, but the cache remembers by the credentials; return what verify reads/,
        )
      }
    })

    test('responds with 500 if key returns no string', async () => {
      assert.throws(
        () => authenticate({ schemes: [bearer({ verify: bound })], cache: { ...cache, key: 'x' as never } }),
        /key must be a function/,
      )
      const handler = compose(
        authenticate({ schemes: [bearer({ verify: bound })], cache: { ...cache, key: () => undefined as never } }),
        whoAmI,
      )
      assert.equal((await at(handler, '192.0.2.1')).status, 500)
    })
  })

  test('limits guesses of tokens by address before anything is verified, as the guide shows', async () => {
    let verified = 0
    const verify = (token: string) => { verified++; return token === 'right' ? { subject: 'ann' } : undefined }
    const handler = compose<unknown>(
      rateLimit({
        store: memory().store,
        policies: [{ name: 'address', limit: 5, windowSeconds: 60, by: 'address' }],
        onStoreError: 'deny',
      }),
      authenticate({ schemes: [bearer({ verify })] }),
      whoAmI,
    )
    const guess = async (token: string, peerAddress: string) =>
      (await ask(handler, { headers: auth(`Bearer ${token}`), peerAddress })).status
    const statuses: number[] = []
    for (let at = 0; at < 7; at++) statuses.push(await guess(`guess-${at}`, '2001:db8::1'))
    assert.deepEqual([statuses, verified], [[401, 401, 401, 401, 401, 429, 429], 5])
    assert.equal(await guess('right', '2001:db8::2'), 429, 'the whole /64 counts as one')
    assert.equal(await guess('right', '192.0.2.1'), 200)
  })

  test('lets an anonymous request continue if it is optional, and a later authorize requests credentials', async () => {
    const schemes = [bearer({ verify: tokens(PEOPLE) })]
    const open = compose(authenticate({ schemes, optional: true }), whoAmI)
    assert.deepEqual((await ask(open)).json, { subject: null }, 'nobody')
    assert.deepEqual((await ask(open, { headers: auth('Bearer nope') })).json, { subject: null }, 'not valid: nobody')
    assert.deepEqual((await ask(open, { headers: auth('Bearer tok-ann') })).json, { subject: 'ann' }, 'ann')
    assert.deepEqual(
      (await ask(open, { context: { principal: { subject: 'spoofed' } } })).json,
      { subject: null },
      'what the context said before is no proof',
    )
    const closed = compose(
      authenticate({ schemes, optional: true }),
      authorize({ allow: () => true, reason: 'none' }),
      whoAmI,
    )
    assert.equal((await ask(closed)).headers['www-authenticate'], BEARER, 'none sent')
    assert.equal(
      (await ask(closed, { headers: auth('Bearer nope') })).headers['www-authenticate'],
      INVALID,
      'a bad one sent',
    )
    const own = compose(authenticate({ schemes, optional: true }), () => json(401, {}))
    assert.equal((await ask(own)).headers['www-authenticate'], BEARER, 'an answer with 401')
    assert.equal((await ask(open)).headers['www-authenticate'], undefined, 'no challenge without a 401')
  })

  test('requests credentials after an asynchronous response of 401, if it is optional', async () => {
    const optional = authenticate({ schemes: [bearer({ verify: tokens(PEOPLE) })], optional: true })
    const challengeOf = async (handler: Handler): Promise<unknown[]> => {
      const { status, headers, body } = await ask(compose(optional, handler))
      return [status, headers['www-authenticate'], body]
    }
    assert.deepEqual(await challengeOf(async () => json(401, {})), [401, BEARER, '{}'], 'an answer with 401')
    assert.deepEqual(await challengeOf(async () => json(200, {})), [200, undefined, '{}'], 'another')
    assert.deepEqual(
      await challengeOf(async () => {
        throw httpError('forbidden')
      }).then((told) => told.slice(0, 2)),
      [403, undefined],
      'another failure',
    )
    assert.deepEqual(
      await challengeOf(async () => {
        throw httpError('unauthorized')
      }).then((told) => told.slice(0, 2)),
      [401, BEARER],
      'a failure with 401',
    )
    for (const declines of [async () => undefined, () => undefined])
      assert.deepEqual(await challengeOf(declines), [0, undefined, undefined], 'not mine')
  })

  test('can cache results of basic and of apiKey', async () => {
    let asked = 0
    const verify = () => { asked++; return { subject: 'ann' } }
    const cache = { maxEntries: 10, ttlMs: 60_000 }
    const rows = [
      [basic({ verify }), auth(`Basic ${Buffer.from('ann:pw').toString('base64')}`)],
      [apiKey({ header: 'x-key', verify }), { 'x-key': 'k1' }],
    ] as const
    for (const [scheme, headers] of rows) {
      asked = 0
      const handler = compose(authenticate({ schemes: [scheme], cache }), whoAmI)
      for (const _ of [1, 2]) assert.deepEqual((await ask(handler, { headers })).json, { subject: 'ann' }, scheme.name)
      assert.equal(asked, 1, scheme.name)
    }
  })

  test('reads an API key that occurs once, and treats none or two as invalid', async () => {
    const handler = compose(
      authenticate({
        schemes: [apiKey({ header: 'x-key', verify: (key) => (key === 'k1' ? { subject: 'ann' } : undefined) })],
      }),
      whoAmI,
    )
    const statuses: number[] = []
    for (const lines of [[], ['k1'], ['k1', 'k1']])
      statuses.push((await ask(handler, { headers: { 'x-key': lines } })).status)
    assert.deepEqual(statuses, [401, 200, 401])
  })

  test('reads credentials of 8,192 characters, and no longer ones', async () => {
    const long = 'a'.repeat(8192)
    const handler = compose(
      authenticate({ schemes: [bearer({ verify: (token) => ({ subject: String(token.length) }) })] }),
      whoAmI,
    )
    const answers = [
      await ask(handler, { headers: auth(`Bearer ${long.slice(1)}`) }),
      await ask(handler, { headers: auth(`Bearer ${long}a`) }),
    ]
    assert.deepEqual(answers.map(({ status }) => status), [200, 401])
  })

  test('tries asynchronous schemes in turn, until one succeeds', async () => {
    const asked: string[] = []
    const late = (name: string, known: boolean) =>
      apiKey({
        header: name,
        verify: async () => {
          asked.push(name)
          return known ? { subject: name } : undefined
        },
      })
    const handler = compose(
      authenticate({ schemes: [late('x-a', false), late('x-b', true), late('x-c', true)] }),
      whoAmI,
    )
    assert.deepEqual((await ask(handler, { headers: { 'x-a': '1', 'x-b': '1', 'x-c': '1' } })).json, { subject: 'x-b' })
    assert.deepEqual(asked, ['x-a', 'x-b'])
  })

  test('invalid options throw at construction', () => {
    const scheme = bearer({ verify: tokens(PEOPLE) })
    const wrong: [() => unknown, RegExp][] = [
      [() => authenticate({ schemes: [] }), /one or more schemes/],
      [() => authenticate({ schemes: [scheme], realm: 'a"b' }), /realm/],
      [() => authenticate({ schemes: [scheme], cache: { maxEntries: 0, ttlMs: 1 } }), /cache/],
      [() => authenticate({ schemes: [scheme], cache: { maxEntries: 1, ttlMs: Number.NaN } }), /cache/],
      [() => bearer({} as never), /bearer/],
      [() => basic({} as never), /basic/],
      [() => hostUser(undefined as never), /hostUser/],
      [() => apiKey({ header: 'x key', verify: () => undefined }), /apiKey/],
      [() => apiKey({ verify: () => undefined } as never), /apiKey/],
      [() => tokens({ '': { subject: 'x' } }), /empty/],
      [() => tokens({ x: {} as never }), /principal/],
    ]
    for (const [make, what] of wrong)
      assert.throws(make, (error) => error instanceof TypeError && what.test(error.message), String(what))
  })

  test('compares secrets with sameSecret', () => {
    assert.ok(sameSecret('', ''), 'empty')
    assert.ok(sameSecret('päss', 'päss'), 'same')
    for (const other of ['', 'pas', 'passw', 'Pass', 'päss']) assert.ok(!sameSecret('pass', other), other)
  })
})

describe('authorize', () => {
  const as = (subject: string) => ({ context: { principal: { subject, role: subject } } })
  const handler = compose(
    authorize<Principal & { role: string }>({
      allow: async ({ role }, { method }) => role === 'writer' || method === 'GET',
      reason: 'needs_writer',
      message: 'This needs the role writer.',
    }),
    whoAmI,
  )

  test('SPEC 5.3: gives a request without permission a 403 with a reason, as often as it is sent', async () => {
    for (let time = 0; time < 2; time++) {
      const refused = await ask(handler, { method: 'POST', ...as('reader') })
      assert.equal(refused.status, 403, 'status')
      assert.deepEqual(
        refused.json,
        { error: 'This needs the role writer.', code: 'forbidden', reason: 'needs_writer' },
        'body',
      )
    }
    assert.equal((await ask(handler, { method: 'POST', ...as('writer') })).status, 200, 'a writer may')
    assert.equal((await ask(handler, as('reader'))).status, 200, 'a reader may read')
  })

  test('gives an unknown caller a 401', async () => {
    for (const context of [undefined, null, {}])
      assert.equal((await ask(handler, { context })).status, 401, JSON.stringify(context))
  })

  test('permits a request only if allow returns true', async () => {
    for (const answer of [undefined, 1, 'yes', {}]) {
      const careless = compose(authorize({ allow: () => answer as never, reason: 'no' }), whoAmI)
      assert.equal((await ask(careless, as('x'))).status, 403, JSON.stringify(answer))
    }
  })

  test('responds with an HttpError of verify, with its message and headers', async () => {
    const challenge = 'Bearer error="invalid_token"'
    const expired = httpError('unauthorized', {
      message: 'The token has expired.',
      headers: { 'www-authenticate': challenge },
    })
    const verify = (): Principal => { throw expired }
    for (const optional of [false, true]) {
      const handler = compose(authenticate({ schemes: [bearer({ verify })], optional }), whoAmI)
      const { status, headers, body } = await ask(handler, { headers: auth('Bearer old') })
      assert.deepEqual([status, headers['www-authenticate']], [401, challenge])
      assert.match(body as string, /The token has expired\./)
    }
  })

  test('treats an allow that throws as a missing permission', async () => {
    const broken = compose(authorize({ allow: () => Promise.reject(new Error('away')), reason: 'no' }), whoAmI)
    assert.equal((await ask(broken, as('x'))).status, 500, 'masked')
  })

  test('calls hostUser for each request, even with a cache, because these requests have no credentials', async () => {
    const session = hostUser(({ headers }) =>
      headers['x-session'] === undefined ? undefined : { subject: String(headers['x-session']) },
    )
    const handler = compose(authenticate({ schemes: [session], cache: { maxEntries: 10, ttlMs: 60_000 } }), whoAmI)
    for (const name of ['ann', 'bob', 'ann'])
      assert.equal((await ask(handler, { headers: { 'x-session': name } })).json['subject'], name)
    assert.equal((await ask(handler)).status, 401)
  })

  test('passes no malformed key to verify', async () => {
    const asked: string[] = []
    const handler = only(
      apiKey({
        header: 'x-api-key',
        verify: (key) => {
          asked.push(key)
          return { subject: 'any' }
        },
      }),
    )
    for (const [key, status] of [
      ['fine', 200],
      ['x'.repeat(8192), 200],
      ['x'.repeat(8193), 401],
      ['a\tb', 401],
      ['a\u007f', 401],
      ['', 401],
    ] as const) {
      assert.equal((await ask(handler, { headers: { 'x-api-key': key } })).status, status, key.slice(0, 20))
    }
    assert.equal(asked.length, 2)
  })

  test('finds a token among few or many, and never by a part, a longer text or another case', () => {
    for (const count of [1, 16, 17, 200]) {
      const whom = tokens(
        Object.fromEntries(Array.from({ length: count }, (_, at) => [`töken-${at}`, { subject: `s${at}` }])),
      )
      for (const at of [0, count - 1]) assert.equal(whom(`töken-${at}`)?.subject, `s${at}`, `${at} of ${count}`)
      for (const other of ['', 'töken-', 'töken-0 ', 'Töken-0', 't\u00c3\u00b6ken-0', `töken-${count}`])
        assert.equal(whom(other), undefined, `${other} of ${count}`)
    }
  })

  test('uses digests of secrets that differ in each process', () => {
    assert.notEqual(secretDigest('tok-ann'), createHash('sha256').update('tok-ann').digest('base64url'))
    assert.equal(secretDigest('tok-ann'), secretDigest('tok-ann'))
    assert.match(secretDigest(''), /^[\w-]{43}$/)
  })

  test('throws when it is composed in the wrong order, even through a composed handler', () => {
    const who = authenticate({ schemes: [bearer({ verify: tokens(PEOPLE) })] })
    const may = authorize({ allow: () => true, reason: 'no' })
    assert.doesNotThrow(() => compose(who, may, whoAmI), 'the right order')
    assert.throws(
      () => compose(may, who, whoAmI),
      /authorize stands before authenticate.*put authenticate first/,
      'flat',
    )
    assert.throws(() => compose(may, compose(who, whoAmI)), TypeError, 'nested')
    assert.throws(
      () => compose(who, cors({ origins: '*' }), whoAmI),
      /authenticate stands before cors/,
      'a preflight has no credentials',
    )
    const perhaps = authenticate({ schemes: [bearer({ verify: tokens(PEOPLE) })], optional: true })
    assert.doesNotThrow(() => compose(perhaps, cors({ origins: '*' }), whoAmI), 'it gets through as nobody\'s')
    assert.throws(() => compose(may, undefined as never), TypeError, 'no handler')
    assert.throws(() => authorize({ allow: () => true, reason: '' }), TypeError, 'no reason')
    assert.throws(() => authorize({ reason: 'x' } as never), TypeError, 'no check')
  })
})
