import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { BaseRequest } from '../../../src/http/request.js'
import { isHttpError } from '../../../src/http/errors.js'
import {
  describe as described, type BodySource, type Handler, type HttpRequest, type RequestHeaders,
} from '../../../src/http/exchange.js'
import { router } from '../../../src/resources/router.js'

/** A request as bindings make them: a class with private fields and getters, so a copy or a proxy of it breaks. */
class FakeRequest extends BaseRequest implements HttpRequest<string> {
  readonly #at: { method: string; path: string; mountPath: string }
  readonly params: Record<string, string>
  readonly headers: RequestHeaders = { accept: '*/*' }
  readonly body: BodySource = {
    parsed: { value: 'body' },
    bytes: async () => undefined,
    stream: () => {
      throw new Error('not read')
    },
  }
  readonly peerAddress = '192.0.2.1'
  readonly raw = this
  queries = 0
  constructor(method: string, path: string, mountPath = '', params: Record<string, string> = {}) {
    super()
    this.#at = { method, path, mountPath }
    this.params = params
  }
  get method() {
    return this.#at.method
  }
  get path() {
    return this.#at.path
  }
  get mountPath() {
    return this.#at.mountPath
  }
  get query() {
    this.queries++
    return new URLSearchParams('a=1')
  }
  get signal() {
    return AbortSignal.abort(this.#at.path)
  }
  get context() {
    return `context of ${this.#at.path}`
  }
}

/** Answers with its name and what it was given. */
function named(name: string): Handler<string> {
  return (request) => ({ status: 200, headers: {}, body: JSON.stringify([name, { ...request.params }]) })
}

function ask(
  handler: Handler<string>,
  method: string,
  path: string,
  mountPath?: string,
  params?: Record<string, string>,
) {
  const response = handler(new FakeRequest(method, path, mountPath, params))
  assert.ok(!(response instanceof Promise))
  return typeof response?.body === 'string' && response.body !== ''
    ? (JSON.parse(response.body) as [string, Record<string, string>])
    : response
}

function refused(handler: Handler<string>, method: string, path: string) {
  try {
    ask(handler, method, path)
  } catch (error) {
    if (isHttpError(error)) return { status: error.status, code: error.code, headers: error.headers }
    throw error
  }
  return assert.fail(`${method} ${path} was not refused`)
}

const api = router<string>({
  'POST /start-job': named('start'),
  'GET|DELETE /job-status/{id}': named('job'),
  'GET /job-status/latest': named('latest'),
  'GET /': named('root'),
  '/any/{id}': named('any'),
  'PUT /any/{id}': named('put any'),
  '* /star': named('star'),
  'GET /users/{id}/posts/{post}': named('post'),
  'GET /users/me/settings': named('settings'),
  'QUERY /search': named('query'),
  'GET /__proto__/constructor': named('proto'),
  'GET /v1.0/a:b+(c)/caf%C3%A9': named('literal'),
})

describe('a router matches', () => {
  for (const [method, path, expected] of [
    ['POST', '/start-job', ['start', {}]],
    ['POST', '/start-job/', ['start', {}]],
    ['GET', '/', ['root', {}]],
    ['GET', '/job-status/42', ['job', { id: '42' }]],
    ['DELETE', '/job-status/42/', ['job', { id: '42' }]],
    ['GET', '/job-status/latest', ['latest', {}]],
    ['GET', '/users/me/posts/1', ['post', { id: 'me', post: '1' }]],
    ['GET', '/users/me/settings', ['settings', {}]],
    ['GET', '/any/1', ['any', { id: '1' }]],
    ['PURGE', '/any/1', ['any', { id: '1' }]],
    ['OPTIONS', '/any/1', ['any', { id: '1' }]],
    ['PUT', '/any/1', ['put any', { id: '1' }]],
    ['PATCH', '/star', ['star', {}]],
    ['QUERY', '/search', ['query', {}]],
    ['GET', '/__proto__/constructor', ['proto', {}]],
    ['GET', '/v1.0/a:b+(c)/caf%C3%A9', ['literal', {}]],
    ['GET', '/job-status/a%2Fb', ['job', { id: 'a/b' }]],
    ['GET', '/job-status/%E2%82%AC%20+', ['job', { id: '€ +' }]],
    ['GET', '/job-status/__proto__', ['job', { id: '__proto__' }]],
    ['GET', '/job-status/...', ['job', { id: '...' }]],
  ] as const) {
    test(`${method} ${path}`, () => assert.deepEqual(ask(api, method, path), expected))
  }

  for (const path of [
    '/nothing', '/START-JOB', '/start-job//', '//start-job', '/start%2Djob', '/start-job/x',
    '/job-status', '/job-status/', '/job-status//', '/job-status/a/b', '/users//posts/1',
    '/users/1/posts/', '//', '', '*', 'start-job', '/a/../start-job', '/./start-job',
    '/constructor', '/__proto__', '/job-status%2F1', '/{id}', '/any/:id/x',
    '/v1x0/a:b+(c)/caf%C3%A9',
  ]) {
    test(`no method for ${JSON.stringify(path)}, which is declined`, () => {
      for (const method of ['GET', 'POST', 'BREW', ...(path === '*' ? [] : ['OPTIONS'])])
        assert.equal(ask(api, method, path), undefined)
    })
  }

  test('the path below the mount path', () => {
    assert.deepEqual(ask(api, 'POST', '/api/start-job', '/api'), ['start', {}])
    assert.deepEqual(ask(api, 'GET', '/api', '/api'), ['root', {}])
    assert.deepEqual(ask(api, 'GET', '/api/', '/api'), ['root', {}])
    assert.equal(ask(api, 'POST', '/apistart-job', '/api'), undefined)
    assert.equal(ask(api, 'POST', '/api2/start-job', '/api'), undefined)
    assert.equal(ask(api, 'POST', '/start-job', '/api'), undefined)
  })

  test('its own parameters before those of the application, which are kept', () => {
    const host = { tenant: 'acme', id: 'outer' }
    assert.deepEqual(ask(api, 'GET', '/t/job-status/1', '/t', host), ['job', { id: '1', tenant: 'acme' }])
    assert.deepEqual(ask(api, 'GET', '/t/job-status/latest', '/t', host), ['latest', host])
    assert.deepEqual(host, { tenant: 'acme', id: 'outer' })
  })

  test('the parameters of each request separately', () => {
    const seen: object[] = []
    const keep = router<string>({ 'GET /x/{id}': (request) => { seen.push(request.params); return undefined } })
    ask(keep, 'GET', '/x/1')
    ask(keep, 'GET', '/x/2')
    assert.deepEqual(seen.map((params) => ({ ...params })), [{ id: '1' }, { id: '2' }])
    assert.equal((seen[0] as Record<string, unknown>)['toString'], undefined)
  })

  test('a parameter of any name', () => {
    const seen: Record<string, string>[] = []
    const handler = router<string>({
      'GET /{__proto__}/{constructor}/{_0}': (request) => {
        seen.push(request.params)
        return undefined
      },
    })
    ask(handler, 'GET', '/a/b/c')
    assert.deepEqual(
      seen.map((params) => Object.entries(params)),
      [
        [
          ['__proto__', 'a'],
          ['constructor', 'b'],
          ['_0', 'c'],
        ],
      ],
    )
  })

  test('requests whose handler gets all their properties when it reads them', () => {
    let got: HttpRequest<string> | undefined
    const handler = router<string>({ 'GET /x/{id}': (request) => { got = request; return undefined } })
    const request = new FakeRequest('GET', '/m/x/1', '/m')
    void handler(request)
    assert.ok(got)
    assert.equal(request.queries, 0)
    assert.equal(got.query.get('a'), '1')
    assert.equal(got.signal.reason, '/m/x/1')
    for (const key of ['method', 'path', 'mountPath', 'headers', 'body', 'context', 'peerAddress', 'raw'] as const)
      assert.equal(got[key], request[key])
  })

  test('a handler that may be asynchronous, decline, or throw', async () => {
    const handler = router<string>({
      'GET /later': async () => ({ status: 204, headers: {} }),
      'GET /not': () => undefined,
      'GET /throws/{x}': () => { throw new RangeError('mine') },
    })
    assert.deepEqual(await handler(new FakeRequest('GET', '/later')), { status: 204, headers: {} })
    assert.equal(ask(handler, 'GET', '/not'), undefined)
    assert.throws(() => ask(handler, 'GET', '/throws/1'), RangeError)
  })
})

describe('a router with methods', () => {
  test('SPEC 4.1.HEAD: passes HEAD to the handler of GET, unless it has its own', () => {
    assert.deepEqual(ask(api, 'HEAD', '/job-status/1'), ['job', { id: '1' }])
    const both = router<string>({ 'GET /x': named('get'), 'HEAD /x': named('head'), '/x': named('any') })
    assert.deepEqual(ask(both, 'HEAD', '/x'), ['head', {}])
    assert.deepEqual(ask(router<string>({ '/x': named('any'), 'GET /x': named('get') }), 'HEAD', '/x'), ['get', {}])
  })

  test('responds to OPTIONS on a known path with 200, Allow and no content', () => {
    assert.deepEqual(ask(api, 'OPTIONS', '/job-status/1'), {
      status: 200,
      headers: { allow: 'GET, HEAD, DELETE, OPTIONS' },
      body: '',
    })
    assert.deepEqual(ask(api, 'OPTIONS', '/start-job'), { status: 200, headers: { allow: 'POST, OPTIONS' }, body: '' })
    assert.deepEqual(ask(api, 'OPTIONS', '/search'), { status: 200, headers: { allow: 'OPTIONS, QUERY' }, body: '' })
    assert.deepEqual(ask(router<string>({ 'OPTIONS /x': named('own') }), 'OPTIONS', '/x'), ['own', {}])
    assert.equal(ask(api, 'OPTIONS', '/nothing'), undefined)
  })

  test('responds to OPTIONS * for the server', () => {
    assert.deepEqual(ask(api, 'OPTIONS', '*'), {
      status: 200,
      headers: { allow: 'GET, HEAD, POST, PUT, DELETE, OPTIONS, QUERY' },
      body: '',
    })
  })

  test('SPEC 7.405: responds to another method on a known path with 405 and Allow', () => {
    const expected = { status: 405, code: 'method_not_allowed', headers: { allow: 'GET, HEAD, DELETE, OPTIONS' } }
    for (const method of ['POST', 'PUT', 'PATCH', 'TRACE', 'CONNECT', 'QUERY'])
      assert.deepEqual(refused(api, method, '/job-status/1'), expected)
    assert.deepEqual(refused(api, 'HEAD', '/start-job').headers, { allow: 'POST, OPTIONS' })
  })

  test('has only the methods of a literal path, even if a path with a parameter also matches', () => {
    assert.deepEqual(refused(api, 'DELETE', '/job-status/latest'), {
      status: 405,
      code: 'method_not_allowed',
      headers: { allow: 'GET, HEAD, OPTIONS' },
    })
  })

  test('SPEC 7.501: responds with 501 to a method that neither a route nor a standard knows', () => {
    for (const method of ['BREW', 'get', '__proto__', 'constructor']) {
      assert.deepEqual(refused(api, method, '/start-job'), { status: 501, code: 'not_implemented', headers: {} })
    }
  })

  test('responds with 400 to a bad parameter', () => {
    for (const id of ['%', '%zz', '%E2%82', '%C0%AF', '.', '..', '%2e', '%2E.', '.%2e', '%00', 'a%00b']) {
      assert.deepEqual(refused(api, 'GET', `/job-status/${id}`), { status: 400, code: 'invalid_path', headers: {} }, id)
    }
  })
})

describe('the construction of a router', () => {
  for (const [keys, message] of [
    [[], /there are no routes/],
    [['GET'], /write a method and a path/],
    [['GET jobs'], /write a method and a path/],
    [['GET/jobs'], /write a method and a path/],
    [[''], /write a method and a path/],
    [['get /jobs'], /"get" is no method; write methods in upper case/],
    [['GET||POST /jobs'], /"" is no method/],
    [['GET,POST /jobs'], /"GET,POST" is no method/],
    [['GET /jobs/'], /leave out empty segments and the slash at the end/],
    [['GET /a//b'], /leave out empty segments/],
    [['GET /a/../b'], /cannot be segments/],
    [['GET /jobs/:id'], /write \{id\} instead of :id/],
    [['GET /files/*'], /there are no wildcards/],
    [['GET /jobs/{id}.json'], /a parameter fills a whole segment/],
    [['GET /jobs/{}'], /a parameter fills a whole segment/],
    [['GET /jobs/{a-b}'], /named like a variable/],
    [['GET /jobs/{id?}'], /named like a variable/],
    [['GET /{a}/{a}'], /\{a\} is there twice/],
    [['GET /café'], /percent-encode it/],
    [['GET /a b'], /percent-encode it/],
    [['GET /a?b=1'], /percent-encode it/],
    [['GET /50%'], /percent-encode it/],
    [['GET /a\\b'], /percent-encode it/],
    [['GET /a', 'POST|GET /a'], /"POST\|GET \/a": GET already has a handler there/],
    [['GET|GET /a'], /GET already has a handler/],
    [['/a', '* /a'], /any method already has a handler/],
    [
      ['GET /{a}/x', 'POST /{b}/x'],
      /"GET \/\{a\}\/x" and "POST \/\{b\}\/x" are the same path; name its parameters the same/,
    ],
  ] as const) {
    test(`throws a TypeError for ${JSON.stringify(keys)} that says what to do`, () => {
      const routes = Object.fromEntries(keys.map((key) => [key, named('x')]))
      assert.throws(
        () => router(routes),
        (error: unknown) => error instanceof TypeError && message.test(error.message),
      )
    })
  }

  test('throws for an invalid handler', () => {
    assert.throws(
      () => router({ 'GET /x': undefined as unknown as Handler }),
      /TypeError: router: the route "GET \/x" needs a handler/,
    )
  })
})

describe('the operations of a router', () => {
  const operation = (method: string, openapi: object = {}) => ({ method, openapi: openapi as Record<string, unknown> })

  test('are described at their paths, with every path parameter', () => {
    const status = described(named('status'), [
      operation('GET', { summary: 's', parameters: [{ name: 'q', in: 'query' }] }),
      operation('DELETE'),
      operation('POST'),
    ])
    const id = { name: 'id', in: 'path', required: true, schema: { type: 'string' } }
    assert.deepEqual(router<string>({ 'GET|DELETE /jobs/{id}': status, 'GET /plain': named('plain') }).operations, [
      { method: 'GET', path: '/jobs/{id}', openapi: { summary: 's', parameters: [id, { name: 'q', in: 'query' }] } },
      { method: 'DELETE', path: '/jobs/{id}', openapi: { parameters: [id] } },
    ])
    const own = operation('GET', {
      parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'integer' } }],
    })
    assert.deepEqual(router<string>({ 'GET /jobs/{id}': described(named('x'), [own]) }).operations, [
      { ...own, path: '/jobs/{id}' },
    ])
    assert.deepEqual(
      router<string>({ 'GET /tasks/{task}': described(named('x'), [{ ...own, path: '/jobs/{id}' }]) }).operations,
      [{ method: 'GET', path: '/tasks/{task}', openapi: { parameters: [{ ...id, name: 'task' }] } }],
    )
  })

  test('leave out methods that have their own handler, for a handler of any method', () => {
    const any = described(named('any'), [operation('GET'), operation('PUT')])
    const own = described(named('own'), [operation('GET', { summary: 'own' })])
    const both = router<string>({ '/x': any, 'GET /x': own })
    assert.deepEqual(both.operations, [
      { method: 'PUT', path: '/x', openapi: {} },
      { method: 'GET', path: '/x', openapi: { summary: 'own' } },
    ])
    assert.deepEqual(ask(router<string>({ '/x': any }), 'OPTIONS', '*'), {
      status: 200,
      headers: { allow: 'GET, HEAD, PUT, OPTIONS' },
      body: '',
    })
  })
})

test('a router agrees with a simple implementation of the rules, for random routes and paths', () => {
  const literal = fc.oneof(
    fc.constantFrom('a', 'b', 'a:b', 'a+', '(a)', '$', "!'(),;=@", '~', '-', 'a.b', '%2F', 'constructor'),
    fc
      .string({ unit: fc.constantFrom(..."ab:+()$&.-_~!@,;='"), minLength: 1, maxLength: 4 })
      .filter((text) => !/^:|^\.\.?$/.test(text)),
  )
  const template = fc.array(fc.oneof({ weight: 2, arbitrary: literal }, { weight: 1, arbitrary: fc.constant('{}') }), {
    maxLength: 4,
  })
  fc.assert(
    fc.property(
      fc.array(template, { minLength: 1, maxLength: 8 }),
      fc.array(template, { maxLength: 6 }),
      (templates, extra) => {
        const keys = new Set(
          templates.map((parts) => `/${parts.map((part, index) => (part === '{}' ? `{p${index}}` : part)).join('/')}`),
        )
        const handler = router<string>(Object.fromEntries([...keys].map((key) => [`GET ${key}`, named(key)])))
        for (const parts of [...templates, ...extra]) {
          const segments = parts.map((part) => (part === '{}' ? 'zz' : part))
          // The winner: at the first segment where two candidates differ, the literal one.
          const rank = (key: string) =>
            key
              .split('/')
              .map((part) => (part.startsWith('{') ? '1' : '0'))
              .join('')
          const candidates = [...keys]
            .filter((key) => {
              const wanted = key === '/' ? [] : key.slice(1).split('/')
              return (
                wanted.length === segments.length &&
                wanted.every((part, index) => part.startsWith('{') || part === segments[index])
              )
            })
            .sort((a, b) => (rank(a) < rank(b) ? -1 : 1))
          const answer = ask(handler, 'GET', `/${segments.join('/')}`)
          assert.equal(Array.isArray(answer) ? answer[0] : undefined, candidates[0])
        }
      },
    ),
    { numRuns: 500 },
  )
})
