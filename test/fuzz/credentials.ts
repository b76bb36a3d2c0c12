import assert from 'node:assert/strict'
import { isIP } from 'node:net'
import fc from 'fast-check'
import { apiKey, basic, bearer, tokens } from '../../src/policies/schemes.js'
import { authenticate } from '../../src/policies/authenticate.js'
import { clientAddress } from '../../src/http/client-address.js'
import { requestId } from '../../src/policies/request-id.js'
import { json } from '../../src/http/respond.js'
import { cors } from '../../src/resources/cors.js'
import { fakeRequest } from '../unit/kit/request.js'
import { linear } from './frame/linear.js'
import { fieldSafe, mutated } from './frame/mutate.js'
import { refusal } from './frame/rule.js'

const TOKEN = 'kW3x9bT1q8Zr5LmN0vYc'
const AUTHORIZATIONS = [
  `Bearer ${TOKEN}`,
  `bearer  ${TOKEN}`,
  'Basic YW5uOnMzY3JldA==',
  'basic YW5uOnMzY3JldA',
  'Bearer',
  'Bearer ',
  'Basic OnBhc3M=',
  'Digest username="a", realm="b"',
  `Bearer ${TOKEN}, Basic x`,
  'Basic 8J+YgDrwn5iA',
  'Negotiate YII=',
  `Bearer ${'x'.repeat(300)}`,
]
const PIECES = ['Bearer ', 'Basic ', '=', '==', ',', ':', 'YW5u', TOKEN, '\t', ' ', '-', '_', '/', '+']
const FORWARDED = [
  '203.0.113.7', '203.0.113.7, 10.0.0.1', '2001:db8::1', '[2001:db8::1]:443', '203.0.113.7:1234',
  '::ffff:10.0.0.1', 'unknown', '_hidden', '10.0.0.1, 10.0.0.2', '', ' , ,', '0x7f.1', '127.1',
  'fe80::1%eth0', '10.0.0.1:80, [::1]',
]
const ADDRESS_PIECES = ['10.0.0.1', '203.0.113.7', ', ', ',', ':', '::', '[', ']', '.', '%', '/8', 'ffff', '0']
const ORIGINS = [
  'https://app.example.com', 'null', 'https://evil.example', 'https://app.example.com.evil.example',
  'https://app.example.com:443', '',
]
const ASKED = ['content-type', 'Authorization, X-Requested-With', 'a b', 'x,y,,z', '', '*']

const who = authenticate({
  schemes: [
    bearer({ verify: tokens({ [TOKEN]: { subject: 'ann' } }) }),
    basic({ verify: (name, password) => (name === 'ann' && password === 's3cret' ? { subject: 'ann' } : undefined) }),
    apiKey({ header: 'x-api-key', verify: (key) => (key === TOKEN ? { subject: 'ann' } : undefined) }),
  ],
})
const network = clientAddress({ trustedProxies: ['10.0.0.0/8', '::1'] })
const named = requestId({ trust: true })
const crossed = cors({ origins: ['https://app.example.com'], credentials: true })

/** The good ones, by the RFCs: a token68 that is known, or base64 of a pair that is. */
function good(field: string): boolean {
  if (/^bearer /i.test(field)) return field.slice(7).trim() === TOKEN
  if (!/^basic /i.test(field)) return false
  const text = field.slice(6).trim()
  return /^[A-Za-z0-9+/]+={0,2}$/.test(text) && Buffer.from(text, 'base64').toString() === 'ann:s3cret'
}

export const rules = {
  'only what is known is let in': fc.asyncProperty(
    mutated(AUTHORIZATIONS, PIECES),
    fc.constantFrom('authorization', 'x-api-key'),
    async (text, name) => {
      const field = fieldSafe(text)
      try {
        const answer = await who(fakeRequest({ headers: { [name]: field } }), () => json(200, {}))
        assert.equal(answer?.status, 200)
        assert.ok(name === 'x-api-key' ? field === TOKEN : good(field), field)
      } catch (error) {
        const { code, headers } = refusal(error)
        assert.equal(code, 'unauthorized')
        assert.match(headers['www-authenticate'] ?? '', /^Bearer /)
        // Half of a padding is none.
        assert.ok(name === 'x-api-key' ? field !== TOKEN : !good(field) || /[^=]=$/.test(field.trim()), field)
      }
    },
  ),
  'a network is that of an address that somebody trusted has seen': fc.property(
    mutated(FORWARDED, ADDRESS_PIECES),
    fc.constantFrom('10.0.0.1', '203.0.113.9', '::1', '::ffff:10.0.0.1'),
    (text, peerAddress) => {
      const found = network({ ...fakeRequest({ headers: { 'x-forwarded-for': text } }), peerAddress })
      assert.ok(found !== undefined)
      const [address = '', bits] = found.split('/')
      assert.ok(isIP(address) !== 0, found)
      assert.equal(bits, isIP(address) === 6 ? '64' : undefined)
      // Nobody untrusted is believed.
      if (peerAddress === '203.0.113.9') assert.equal(found, '203.0.113.9')
    },
  ),
  'an id of a request is harmless': fc.asyncProperty(
    mutated([...FORWARDED, 'req-1', 'x'.repeat(128)], PIECES),
    async (text) => {
      const answer = await named(fakeRequest({ headers: { 'x-request-id': text } }), () => json(200, {}))
      assert.match(answer?.headers['x-request-id'] as string, /^[\w.~+/=:@-]{1,128}$/)
    },
  ),
  'only an origin that is listed may read, and a preflight echoes tokens only': fc.asyncProperty(
    mutated(ORIGINS, PIECES),
    mutated(ASKED, PIECES),
    async (origin, asked) => {
      const headers = { origin, 'access-control-request-method': 'PUT', 'access-control-request-headers': asked }
      const answer = await crossed({ ...fakeRequest({ headers }), method: 'OPTIONS' }, () =>
        json(200, {}, { allow: 'GET, PUT' }),
      )
      const allowed = answer?.headers['access-control-allow-origin']
      assert.equal(allowed, origin === 'https://app.example.com' ? origin : undefined)
      assert.match(
        (answer?.headers['access-control-allow-headers'] ?? '') as string,
        /^(?:[\w!#$%&'*+.^`|~-]+(?:, [\w!#$%&'*+.^`|~-]+)*)?$/,
      )
    },
  ),
  'takes linear time': linear([...PIECES, ...ADDRESS_PIECES, '=', 'a'], async (text) => {
    await Promise.resolve(who(fakeRequest({ headers: { authorization: `Basic ${text}` } }), () => json(200, {}))).catch(
      () => undefined,
    )
    network({ ...fakeRequest({ headers: { 'x-forwarded-for': text } }), peerAddress: '10.0.0.1' })
    await crossed(
      {
        ...fakeRequest({
          headers: { 'origin': text, 'access-control-request-method': 'PUT', 'access-control-request-headers': text },
        }),
        method: 'OPTIONS',
      },
      () => json(200, {}),
    )
  }),
}
