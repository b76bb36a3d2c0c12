import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { compose, type Handler, type Policy, describe as described } from '../../../src/http/exchange.js'
import { httpError } from '../../../src/http/errors.js'
import { body, operation } from '../../../src/openapi/operation.js'
import { authenticate } from '../../../src/policies/authenticate.js'
import { authorize } from '../../../src/policies/authenticate.js'
import { bearer } from '../../../src/policies/schemes.js'
import { requestId } from '../../../src/policies/request-id.js'
import { cors, type CorsOptions } from '../../../src/resources/cors.js'
import { list } from '../../../src/resources/list.js'
import { resource } from '../../../src/resources/methods.js'
import { router } from '../../../src/resources/router.js'
import { ask, type Asked } from './ask.js'

const say = (text: string): Handler => () => ({ status: 200, headers: { 'content-type': 'text/plain' }, body: text })
const patch = described(say('patched'), [
  operation('PATCH', {
    summary: 'x',
    responses: {},
    requestBody: body({}, { mediaTypes: ['application/merge-patch+json'] }),
  }),
])
const page = list({ repository: { list: () => ({ items: [] }) } })

describe('resource', () => {
  const thing = resource({ GET: page, PATCH: patch, PURGE: say('purged') })
  test('passes each method to its handler, and HEAD to that of GET', async () => {
    assert.equal((await ask(thing, 'PATCH', '/any')).text, 'patched')
    assert.equal((await ask(thing, 'HEAD', '/any')).status, 200)
    assert.equal((await ask(thing, 'PURGE', '/any')).text, 'purged')
  })
  test('SPEC 4.1.OPTIONS: lists the methods, the patch formats and the range units in OPTIONS', async () => {
    const { status, headers, text } = await ask(thing, 'OPTIONS', '/any')
    assert.deepEqual(
      [status, text, headers],
      [
        200,
        '',
        {
          'allow': 'GET, HEAD, PATCH, OPTIONS, PURGE',
          'accept-patch': 'application/merge-patch+json',
          'accept-ranges': 'items',
        },
      ],
    )
    assert.equal((await ask(resource({ GET: page, OPTIONS: say('own') }), 'OPTIONS', '/')).text, 'own')
  })
  test('lists the same methods in OPTIONS of a router for its path', async () => {
    const { headers } = await ask(router({ 'GET /x': page, 'PATCH /x': patch, '/y': thing }), 'OPTIONS', '/x')
    assert.deepEqual(headers, {
      'allow': 'GET, HEAD, PATCH, OPTIONS',
      'accept-patch': 'application/merge-patch+json',
      'accept-ranges': 'items',
    })
    assert.equal(
      (await ask(router({ '/y': thing }), 'OPTIONS', '/y')).headers['allow'],
      'GET, HEAD, PATCH, OPTIONS, PURGE',
    )
  })
  test('SPEC 7.405, 7.501: gets a 405 with Allow for another method, and a 501 for an unknown one', async () => {
    const { status, headers, json } = await ask(thing, 'DELETE', '/any')
    assert.deepEqual(
      [status, headers['allow'], json.code],
      [405, 'GET, HEAD, PATCH, OPTIONS, PURGE', 'method_not_allowed'],
    )
    assert.equal((await ask(thing, 'TRACE', '/any')).status, 405)
    assert.deepEqual([(await ask(thing, 'BREW', '/any')).json.code], ['not_implemented'])
  })
  test('rejects invalid methods at construction', () => {
    for (const methods of [{}, { get: page }, { GET: 'x' }]) assert.throws(() => resource(methods as never), TypeError)
  })
  test('has an operation for each of its methods', () => {
    assert.deepEqual(thing.operations?.map(({ method }) => method), ['GET', 'HEAD', 'PATCH'])
  })
})

describe('cors', () => {
  const app = 'https://app.example.com'
  const from = (origin: string, headers: Record<string, string> = {}): Asked => ({ headers: { origin, ...headers } })
  const preflight = (origin = app, headers: Record<string, string> = {}) =>
    from(origin, { 'access-control-request-method': 'PATCH', ...headers })
  const thing = resource({ GET: page, PATCH: patch, TRACE: () => ({ status: 200, headers: {} }) })
  const behind = (options: CorsOptions, handler: Handler = thing) => compose(cors(options), handler)
  const allow = ({ headers }: { headers: Record<string, unknown> }) => headers['access-control-allow-origin']

  test('SPEC 4.1.OPTIONS: responds to a preflight with 200 and the methods that the resource allows', async () => {
    const { status, headers, text } = await ask(
      behind({ origins: [app], maxAgeSeconds: 60 }),
      'OPTIONS',
      '/',
      preflight(app, { 'access-control-request-headers': 'authorization, x-a' }),
    )
    assert.deepEqual(
      [status, text, headers],
      [
        200,
        '',
        {
          'allow': 'GET, HEAD, PATCH, OPTIONS, TRACE',
          'accept-patch': 'application/merge-patch+json',
          'accept-ranges': 'items',
          'vary': 'Access-Control-Request-Method, Access-Control-Request-Headers, Origin',
          'access-control-allow-origin': app,
          'access-control-allow-methods': 'GET, HEAD, PATCH, OPTIONS',
          'access-control-allow-headers': 'authorization, x-a',
          'access-control-max-age': '60',
        },
      ],
    )
  })
  test('allows only the methods and headers of its options', async () => {
    const { headers } = await ask(
      behind({ origins: [app], methods: ['GET'], headers: ['x-b'] }),
      'OPTIONS',
      '/',
      preflight(app, { 'access-control-request-headers': 'x-a' }),
    )
    assert.deepEqual([headers['access-control-allow-methods'], headers['access-control-allow-headers']], ['GET', 'x-b'])
  })
  test('does not repeat a malformed list of names', async () => {
    for (const asked of ['a b', 'x\r\ny', 'x,'.repeat(2000)]) {
      const { headers } = await ask(
        behind({ origins: '*' }),
        'OPTIONS',
        '/',
        preflight(app, { 'access-control-request-headers': asked }),
      )
      assert.equal(headers['access-control-allow-headers'], undefined, asked)
    }
  })
  test('names the origin that may read a response, and the headers that it may read', async () => {
    const { headers } = await ask(behind({ origins: [app], credentials: true }), 'GET', '/', from(app))
    assert.deepEqual(
      [headers['access-control-allow-origin'], headers['access-control-allow-credentials'], headers['vary']],
      [app, 'true', 'Accept, Origin'],
    )
    assert.match(
      String(headers['access-control-expose-headers']),
      /Api-Deprecated-Versions, Api-Supported-Versions.*ETag.*Location.*Retry-After/,
    )
    const any = await ask(behind({ origins: '*', exposeHeaders: ['X-A'] }), 'GET', '/', from(app))
    assert.deepEqual(
      [allow(any), any.headers['vary'], any.headers['access-control-expose-headers']],
      ['*', 'Accept', 'X-A'],
    )
  })
  test('adds only Vary for other origins', async () => {
    const strict = behind({ origins: [app] })
    for (const origin of [
      'https://evil.example.com',
      'http://app.example.com',
      'https://app.example.com.evil.com',
      'null',
      `${app}:444`,
    ]) {
      const got = await ask(strict, 'GET', '/', from(origin))
      assert.deepEqual(
        [got.status, allow(got), got.headers['access-control-expose-headers'], got.headers['vary']],
        [200, undefined, undefined, 'Accept, Origin'],
      )
      const asked = await ask(strict, 'OPTIONS', '/', preflight(origin))
      assert.deepEqual(
        [asked.status, allow(asked), asked.headers['access-control-allow-methods']],
        [200, undefined, undefined],
      )
    }
    assert.equal((await ask(strict, 'GET', '/')).headers['vary'], 'Accept, Origin')
  })
  test('can decide by a function', async () => {
    const decided = behind({ origins: (origin, { path }) => origin.endsWith('.example.com') && path === '/a' })
    assert.deepEqual(
      [allow(await ask(decided, 'GET', '/a', from(app))), allow(await ask(decided, 'GET', '/b', from(app)))],
      [app, undefined],
    )
  })
  test('rejects an overlong origin, which no response repeats', async () => {
    const any = behind({ origins: () => true })
    assert.equal(allow(await ask(any, 'GET', '/', from(`https://${'a'.repeat(500)}.example`))), undefined)
    assert.equal(
      allow(await ask(any, 'GET', '/', from(`https://${'a'.repeat(253)}:65535`))),
      `https://${'a'.repeat(253)}:65535`,
    )
  })
  test('adds its headers to errors', async () => {
    for (const handler of [() => { throw httpError('conflict') }, async () => { throw httpError('conflict') }]) {
      const { status, headers } = await ask(behind({ origins: [app] }, handler), 'POST', '/', from(app))
      assert.deepEqual([status, headers['access-control-allow-origin']], [409, app])
    }
    const missing = await ask(behind({ origins: '*' }, router({ 'GET /x': page })), 'OPTIONS', '/y', preflight())
    assert.equal(missing.status, 0)
  })
  test('requires no credentials for a preflight, and rate limits apply to it', async () => {
    const people = authenticate({ schemes: [bearer({ verify: () => undefined })] })
    const open = compose<unknown>(
      cors({ origins: [app] }),
      people,
      authorize({ allow: () => false, reason: 'never' }),
      thing,
    )
    const asked = await ask(open, 'OPTIONS', '/', preflight())
    assert.deepEqual(
      [asked.status, allow(asked), asked.headers['access-control-allow-methods']],
      [200, app, 'GET, HEAD, POST, PUT, PATCH, DELETE'],
    )
    assert.deepEqual(
      [(await ask(open, 'OPTIONS', '/', from(app))).status, allow(await ask(open, 'GET', '/', from(app)))],
      [401, app],
    )
    const limited: Policy = async () => { throw httpError('too_many_requests') }
    const late = await ask(compose(cors({ origins: [app] }), limited, thing), 'OPTIONS', '/', preflight())
    assert.deepEqual([late.status, allow(late)], [429, app])
  })
  test('passes on OPTIONS that is not a preflight', async () => {
    const { headers } = await ask(behind({ origins: [app] }), 'OPTIONS', '/', from(app))
    assert.deepEqual(
      [headers['allow'], headers['access-control-allow-methods'], allow({ headers })],
      ['GET, HEAD, PATCH, OPTIONS, TRACE', undefined, app],
    )
  })
  test('rejects options at construction that browsers would reject', () => {
    for (const options of [
      {},
      { origins: [] },
      { origins: '*', credentials: true },
      { origins: ['*'] },
      { origins: [`${app}/`] },
      { origins: ['app.example.com'] },
      { origins: 'https://a.b' },
      { origins: ['https://A.b'] },
      { origins: '*', methods: ['GE T'] },
      { origins: '*', headers: [''] },
      { origins: '*', exposeHeaders: ['a:b'] },
      { origins: [app], credentials: true, headers: ['*'] },
      { origins: '*', maxAgeSeconds: -1 },
      { origins: '*', maxAgeSeconds: 1.5 },
      { origins: '*', maxAgeSeconds: 100_000 },
    ])
      assert.throws(() => cors(options as never), TypeError, JSON.stringify(options))
    assert.throws(() => compose(cors({ origins: '*' }), requestId(), thing), TypeError)
  })
})
