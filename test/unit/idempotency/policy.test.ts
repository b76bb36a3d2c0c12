import assert from 'node:assert/strict'
import { describe, mock, test, type TestContext } from 'node:test'
import { MemoryStore } from '../../../adapters/memory/store.js'
import { toFetch } from '../../../adapters/fetch/index.js'
import { HttpError } from '../../../src/http/errors.js'
import { compose, type Handler, type HttpRequest } from '../../../src/http/exchange.js'
import { json, stream } from '../../../src/http/respond.js'
import { readBytes } from '../../../src/http/body/body.js'
import { idempotent, type IdempotentOptions } from '../../../src/idempotency/policy.js'
import { collection } from '../../../src/resources/collection.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { byQuery, byVendorMediaType } from '../../../src/versions/selectors.js'
import { authenticate } from '../../../src/policies/authenticate.js'
import { bearer, tokens } from '../../../src/policies/schemes.js'
import { versions } from '../../../src/versions/versions.js'
import { deferred, eventually, within } from '../../kit/wait.js'

interface Sent {
  readonly method?: string
  readonly path?: string
  readonly body?: string | Uint8Array<ArrayBuffer>
  readonly headers?: Record<string, string>
  readonly signal?: AbortSignal
}

function site(t: TestContext, handler: Handler, options: Partial<IdempotentOptions> = {}, store = new MemoryStore()) {
  t.after(() => store.close())
  const noise: unknown[] = []
  const handle = toFetch(compose(idempotent({ store, caller: 'anyone', ...options }), handler), {
    onError: (error: unknown) => {
      noise.push(error)
    },
  })
  const send = ({ method = 'POST', path = '/things', body = '{}', headers = {}, signal }: Sent = {}) =>
    handle(
      new Request(`http://x${path}`, {
        method,
        body: method === 'GET' ? null : body,
        headers: { 'content-type': 'application/json', 'idempotency-key': 'k', ...headers },
        ...(signal && { signal }),
      }),
    )
  return { send, store, noise }
}

/** Tells an answer in one line. */
async function told(response: Response): Promise<[number, string | null, unknown]> {
  const text = await response.text()
  return [response.status, response.headers.get('idempotent-replayed'), text === '' ? '' : JSON.parse(text) as unknown]
}

function counter() {
  let runs = 0
  const requests: HttpRequest[] = []
  const handler: Handler = async (request) => {
    requests.push(request)
    const bytes = await readBytes(request, { maxBodyBytes: 10_000 })
    return json(201, { run: ++runs, got: Buffer.from(bytes).toString() })
  }
  return { handler, requests, get runs() { return runs } }
}

describe('idempotent', () => {
  test('gives a retry the same response, and runs each request without a key or with GET', async (t) => {
    const work = counter()
    const { send } = site(t, work.handler)
    assert.deepEqual(await told(await send()), [201, null, { run: 1, got: '{}' }])
    assert.deepEqual(await told(await send()), [201, 'true', { run: 1, got: '{}' }])
    for (const sent of [{ headers: { 'idempotency-key': 'other' } }, { path: '/others' }, { method: 'PUT' }]) {
      assert.deepEqual((await told(await send(sent)))[1], null)
    }
    assert.equal(work.runs, 4)
    assert.ok(work.requests.every(({ headers }) => headers['idempotency-key'] === undefined))
    for (let n = 0; n < 2; n++) await send({ method: 'GET' })
    assert.equal(work.runs, 6)
  })

  test("binds a key to the credentials with caller: 'anyone', so that cookies separate users", async (t) => {
    const work = counter()
    const { send } = site(t, work.handler)
    const credentials = [
      {}, { authorization: 'Bearer a' }, { authorization: 'Bearer b' }, { 'x-api-key': 'a' },
      { cookie: 'session=a' }, { cookie: 'session=b' }, { 'proxy-authorization': 'Basic a' },
    ] as Record<string, string>[]
    for (const headers of credentials) assert.equal((await told(await send({ headers })))[1], null)
    for (const headers of credentials) assert.equal((await told(await send({ headers })))[1], 'true')
    assert.equal(work.runs, credentials.length)
  })

  test("binds a key to the principal with caller: 'principal', and a request with a key needs a principal", async (t) => {
    const work = counter()
    const store = new MemoryStore()
    t.after(() => store.close())
    const schemes = [
      bearer({ verify: tokens({ a: { subject: 'ann' }, b: { subject: 'bob' }, c: { subject: 'ann' } }) }),
    ]
    const handle = toFetch(
      compose(authenticate({ schemes, optional: true }), idempotent({ store, caller: 'principal' }), work.handler),
    )
    const send = async (headers: Record<string, string>) => {
      const response = await handle(
        new Request('http://x/', {
          method: 'POST',
          body: '{}',
          headers: { 'content-type': 'application/json', ...headers },
        }),
      )
      return [response.status, response.headers.get('idempotent-replayed')]
    }
    const as = (token: string) => send({ 'idempotency-key': 'k', authorization: `Bearer ${token}` })
    assert.deepEqual([await as('a'), await as('b'), await as('c')], [[201, null], [201, null], [201, 'true']])
    assert.deepEqual([await send({ 'idempotency-key': 'k' }), await send({})], [[401, null], [201, null]])
  })

  test('throws an error that says what to choose if caller is missing', () => {
    const store = new MemoryStore()
    const message =
      /^idempotent: the option caller is missing\. Say to whom an Idempotency-Key belongs\..*'principal'.*'anyone'/
    assert.throws(() => idempotent({ store } as never), { name: 'TypeError', message })
  })

  test('binds a key to the caller that the framework names', async (t) => {
    const work = counter()
    const store = new MemoryStore()
    const named = site(
      t,
      work.handler,
      { caller: ({ headers }) => /user=(\w+)/.exec(String(headers['cookie']))?.[1] },
      store,
    )
    for (const cookie of ['user=ann', 'user=bob'])
      assert.equal((await told(await named.send({ headers: { cookie } })))[1], null)
    assert.equal(
      (await told(await named.send({ headers: { cookie: 'user=ann; n=1', authorization: 'Bearer new' } })))[1],
      'true',
    )
  })

  test('compares JSON by its values, the query, the media type, and other bodies by their bytes', async (t) => {
    const work = counter()
    const { send } = site(t, work.handler)
    const sent = (more: Sent) =>
      send({ ...more, headers: { 'idempotency-key': 'k', ...more.headers } }).then(({ status }) => status)
    assert.equal(await sent({ body: '{"a":1,"b":[{"c":1,"d":2}]}' }), 201)
    assert.equal(
      await sent({
        body: ' { "b" : [{"d":2,"c":1}], "a":1.0 }',
        headers: { 'content-type': 'application/json; charset=utf-8' },
      }),
      201,
    )
    assert.equal(work.runs, 1)
    assert.equal(await sent({ body: '{"a":1,"b":[{"c":1,"d":3}]}' }), 422)
    assert.equal(await sent({ body: '{"a":1,"b":[{"c":1,"d":2}]}', path: '/things?dry=1' }), 422)
    assert.equal(await sent({ body: '{"a":1,"b":[{"c":1,"d":2}]}', headers: { 'content-type': 'text/plain' } }), 422)
    const bytes = { path: '/bytes', headers: { 'content-type': 'application/octet-stream' } }
    assert.deepEqual(
      [await sent({ ...bytes, body: new Uint8Array([1, 2]) }), await sent({ ...bytes, body: new Uint8Array([1, 2]) })],
      [201, 201],
    )
    assert.equal(await sent({ ...bytes, body: new Uint8Array([1, 3]) }), 422)
    assert.equal(work.runs, 2)
    assert.equal(
      await sent({ path: '/deep', body: '['.repeat(300_000) + ']'.repeat(300_000) }),
      413,
      'the handler has its say',
    )
  })

  test('continues a run after its client disconnects, and retries wait for its end', async (t) => {
    const gate = deferred()
    const signals: AbortSignal[] = []
    const { send, store } = site(t, async ({ signal }) => {
      signals.push(signal)
      await gate.promise
      return json(200, { run: signals.length })
    })
    const client = new AbortController()
    const first = send({ signal: client.signal })
    await eventually(() => signals.length === 1)
    const retries = [send(), send()]
    await eventually(() => store.usage().watches === 2)
    client.abort()
    gate.resolve()
    await first
    for (const retry of retries) assert.deepEqual(await told(await retry), [200, 'true', { run: 1 }])
    assert.deepEqual(signals.map(({ aborted }) => aborted), [false])
  })

  test('responds with 409 to a retry that has waited long enough', async (t) => {
    const gate = deferred()
    const { send } = site(t, async () => { await gate.promise; return json(200, {}) }, { waitMs: 30 })
    const first = send()
    const early = await send()
    assert.deepEqual([early.status, early.headers.get('retry-after')], [409, '1'])
    gate.resolve()
    assert.equal((await first).status, 200)
  })

  test('keeps the outcome, even an error, and only a rejected request may be retried', async (t) => {
    for (const [status, headers, again] of [
      [200, {}, false],
      [409, {}, false],
      [422, {}, false],
      [500, {}, false],
      [503, {}, false],
      [410, {}, false],
      [504, {}, false],
      [400, {}, true],
      [401, {}, true],
      [403, {}, true],
      [404, {}, true],
      [413, {}, true],
      [429, {}, true],
      [503, { 'retry-after': '1' }, true],
      [501, {}, true],
    ] as const) {
      for (const thrown of status < 400 ? [false] : [false, true]) {
        let runs = 0
        const { send, store } = site(t, () => {
          runs++
          if (thrown) throw new HttpError(status, 'mine', { headers, details: [{ pointer: '/a', message: 'm' }] })
          return json(status, { mine: true }, headers)
        })
        const [first, second] = [await send(), await send()]
        const name = `${String(status)} ${JSON.stringify(headers)} ${thrown ? 'thrown' : 'answered'}`
        assert.deepEqual([first.status, second.status, runs], [status, status, again ? 2 : 1], name)
        assert.equal(await second.text(), await first.text(), name)
        assert.equal(second.headers.get('idempotent-replayed'), again ? null : 'true', name)
        assert.equal(store.usage().entries, again ? 0 : 1, name)
      }
    }
  })

  test('masks an unknown error, keeps it, and reports it once', async (t) => {
    const { send, noise } = site(t, () => { throw new Error('secret') })
    for (const replayed of [null, 'true']) {
      assert.deepEqual(await told(await send()), [
        500,
        replayed,
        { error: 'Something went wrong.', code: 'internal_error' },
      ])
    }
    assert.equal(noise.length, 1)
  })

  test('repeats a streamed response up to maxResponseBytes, and the status of a longer one', async (t) => {
    let runs = 0
    async function* pieces(count: number) {
      for (let n = 0; n < count; n++) yield n % 2 ? 'x' : Buffer.from('y')
    }
    const handler: Handler = ({ path }) => {
      runs++
      return stream(201, pieces(Number(path.slice(1))), { 'content-type': 'text/plain', 'etag': '"a"', 'x-own': 'b' })
    }
    const { send } = site(t, handler, { maxResponseBytes: 100 })
    const [short, again] = [await send({ path: '/100' }), await send({ path: '/100' })]
    assert.deepEqual(
      [await short.text(), await again.text(), again.headers.get('etag')],
      ['yx'.repeat(50), 'yx'.repeat(50), '"a"'],
    )
    const [long, cut] = [await send({ path: '/101' }), await send({ path: '/101' })]
    assert.equal(await long.text(), `${'yx'.repeat(50)}y`)
    assert.deepEqual(
      [cut.status, cut.headers.get('x-own'), cut.headers.get('etag'), cut.headers.get('content-type')],
      [201, 'b', null, 'application/json'],
    )
    assert.match(await cut.text(), /carried out/)
    assert.equal(runs, 2)
  })

  test('repeats bytes as bytes', async (t) => {
    const { send } = site(t, () => ({ status: 200, headers: {}, body: new Uint8Array([0, 255, 1]) }))
    for (let n = 0; n < 2; n++) assert.deepEqual([...new Uint8Array(await (await send()).arrayBuffer())], [0, 255, 1])
  })

  test('does not end a claim by the clock of this process while its work continues', async (t) => {
    const gate = deferred()
    let runs = 0
    const { send, store } = site(t, async () => { runs++; await gate.promise; return json(200, {}) }, { waitMs: 20 })
    const first = send()
    await eventually(() => runs === 1)
    const now = Date.now()
    mock.method(Date, 'now', () => now + 41_000)
    t.after(() => { mock.restoreAll() })
    assert.equal((await send()).status, 409)
    gate.resolve()
    assert.equal((await first).status, 200)
    assert.deepEqual([(await send()).status, runs, store.usage().entries], [200, 1, 1])
  })

  test('renews a claim while its work continues, and the claim ends with its process', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] })
    let time = 0
    const store = new MemoryStore({ now: () => time })
    const gate = deferred()
    let runs = 0
    const { send } = site(
      t,
      async () => {
        runs++
        await gate.promise
        return json(200, { run: runs })
      },
      { waitMs: 0 },
      store,
    )
    const first = send()
    await eventually(() => runs === 1)
    for (let n = 0; n < 20; n++) {
      time += 10_000
      t.mock.timers.tick(10_000)
      await new Promise(setImmediate)
      assert.equal((await send()).status, 409, String(time))
    }
    // The process is gone, so nobody renews the claim.
    time += 30_000
    const second = send()
    await eventually(() => runs === 2)
    gate.resolve()
    assert.deepEqual([(await first).status, (await second).status], [200, 200])
  })

  test('stores a response later if the store rejects it at first', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] })
    const store = new MemoryStore()
    const replace = store.replace.bind(store)
    let away = true
    t.mock.method(store, 'replace', (...args: Parameters<typeof replace>) =>
      away ? Promise.reject(new Error('away')) : replace(...args),
    )
    let runs = 0
    const { send } = site(t, () => json(200, { run: ++runs }), { waitMs: 0 }, store)
    assert.equal((await within(send())).status, 200)
    assert.equal((await send()).status, 409)
    away = false
    t.mock.timers.tick(10_000)
    await eventually(async () => (await send()).status === 200)
    assert.deepEqual(await told(await send()), [200, 'true', { run: 1 }])
  })

  test('responds with 400 to a malformed key and with 413 to a body that is too large, and runs nothing', async (t) => {
    const work = counter()
    const { send } = site(t, work.handler, { maxBodyBytes: 10 })
    assert.equal((await send({ headers: { 'idempotency-key': 'a b' } })).status, 400)
    assert.equal((await send({ body: '{"a":"xxxxxxxx"}' })).status, 413)
    assert.equal(work.runs, 0)
  })

  test('makes POST of a collection safe to retry', async (t) => {
    const things: object[] = []
    const repository = {
      create: async (thing: object) => {
        things.push(thing)
        return { id: String(things.length), ...thing }
      },
    }
    const handler = collection<{ id: string }, object>({
      repository,
      schema: jsonSchema({ type: 'object' }),
      path: '/things',
    })
    const { send } = site(t, handler)
    const [first, again] = [await send({ body: '{"a":1}' }), await send({ body: '{"a":1}' })]
    assert.deepEqual(
      [first.status, again.status, again.headers.get('location'), again.headers.get('idempotent-replayed')],
      [201, 201, '/things/1', 'true'],
    )
    assert.equal(things.length, 1)
  })

  test('rejects invalid options', () => {
    const store = new MemoryStore()
    const good = { store, caller: 'anyone' }
    const wrong = [
      {},
      { caller: 'anyone' },
      { ...good, caller: 'x' },
      { ...good, methods: [] },
      { ...good, retentionMs: 1 },
      { ...good, waitMs: -1 },
      { ...good, maxBodyBytes: NaN },
    ]
    for (const options of wrong) {
      assert.throws(() => idempotent(options as never), TypeError, JSON.stringify(options))
    }
  })
})

describe('an Idempotency-Key with versions', () => {
  const store = new MemoryStore()
  const each = (name: string): Handler =>
    compose(idempotent({ store, caller: 'anyone' }), () => json(200, { version: name }))
  const select = [byQuery(), byVendorMediaType({ vendor: 'acme' })]
  const handle = toFetch(versions({ 1: each('1'), 2: each('2') }, { select }))
  const send = async (path: string, accept?: string) => {
    const response = await handle(
      new Request(`http://x${path}`, {
        method: 'POST',
        body: '{}',
        headers: {
          'content-type': 'application/json',
          'idempotency-key': 'k',
          ...(accept !== undefined && { accept }),
        },
      }),
    )
    return [response.headers.get('idempotent-replayed'), (await response.json() as { version: string }).version]
  }

  test('belongs to the chosen version, in whichever way it is chosen', async () => {
    assert.deepEqual(await send('/a?version=1'), [null, '1'])
    assert.deepEqual(await send('/a?version=2'), [null, '2'])
    assert.deepEqual(await send('/a?version=1'), ['true', '1'])
    assert.deepEqual(await send('/b', 'application/vnd.acme.v1+json'), [null, '1'])
    assert.deepEqual(await send('/b', 'application/vnd.acme.v2+json'), [null, '2'])
    assert.deepEqual(await send('/b', 'application/vnd.acme.v2+json'), ['true', '2'])
  })

  test('is rejected if idempotent is around versions, because the version is not known there', () => {
    assert.throws(() => compose(idempotent({ store, caller: 'anyone' }), versions({ 1: each('1') }, { select })), {
      name: 'TypeError',
      message: /version/,
    })
  })
})
