import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { toFetch } from '../../../adapters/fetch/index.js'
import { httpError } from '../../../src/http/errors.js'
import type { Handler, HttpRequest } from '../../../src/http/exchange.js'
import { readJson } from '../../../src/http/body/body.js'
import { json } from '../../../src/http/respond.js'
import { eventually } from '../kit/wire.js'

const place: Handler = ({ method, path, mountPath, params, query, context, peerAddress, headers }) =>
  json(200, { method, path, mountPath, params, query: [...query], context, peerAddress, accept: headers['accept'] })

describe('toFetch: requests', () => {
  test('requests are independent values', async () => {
    const response = await toFetch(place)(new Request('http://h/a%20b/?x=1&x=2#y?z', { headers: { Accept: 'a/b' } }))
    assert.deepEqual(await response.json(), {
      method: 'GET',
      path: '/a%20b/',
      mountPath: '',
      params: {},
      query: [
        ['x', '1'],
        ['x', '2'],
      ],
      context: {},
      accept: 'a/b',
    })
  })

  test('requests have the values that the application passes', async () => {
    const handle = toFetch(place, { mountPath: '/api', context: (request) => ({ url: request.url }) })
    assert.deepEqual(await (await handle(new Request('http://h/x#y'))).json(),
      { method: 'GET', path: '/api/x', mountPath: '/api', params: {}, query: [], context: { url: 'http://h/x#y' } })
    const extra = { mountPath: '/m/', params: { id: '1' }, context: { url: 'u' }, peerAddress: '::1' }
    assert.deepEqual(await (await handle(new Request('http://h/m/x'), extra)).json(), {
      method: 'GET',
      path: '/m/x',
      mountPath: '/m',
      params: { id: '1' },
      query: [],
      context: { url: 'u' },
      peerAddress: '::1',
    })
  })

  test('an invalid mount path is rejected at construction, or masked in a call', async () => {
    assert.throws(() => toFetch(place, { mountPath: 'api' }), /write "\/api"/)
    assert.throws(() => toFetch(undefined as never), /[Pp]ass a handler/)
    const errors: unknown[] = []
    const response = await toFetch(place, { onError: (error) => errors.push(error) })(new Request('http://h/'), {
      mountPath: 'api',
    })
    assert.deepEqual([response.status, errors.length], [500, 1])
  })

  test('the signal is the signal of the request', async () => {
    const controller = new AbortController()
    let aborted = false
    const answer = toFetch((request) => new Promise((resolve) => {
      request.signal.addEventListener('abort', () => { aborted = true; resolve(json(200, {})) })
    }))(new Request('http://h/', { signal: controller.signal }))
    controller.abort()
    await answer
    assert.equal(aborted, true)
  })
})

const size = (body: HttpRequest['body'], limit: number): Promise<number | undefined> =>
  body.bytes(limit).then((bytes) => bytes?.byteLength)

function endless(): { body: ReadableStream<Uint8Array>, pulled: () => number } {
  let pulled = 0
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      pulled++
      controller.enqueue(new Uint8Array(1000))
    },
  })
  return { body, pulled: () => pulled }
}

describe('toFetch: bodies', () => {
  const post = (body: string | ReadableStream<Uint8Array>, headers: Record<string, string> = {}): Request =>
    new Request('http://h/', { method: 'POST', body, headers, duplex: 'half' })

  test('bodies are read whole, up to a limit', async () => {
    const handle = toFetch(async ({ body }) => json(200, await size(body, 10) ?? 'more'))
    for (const headers of [{}, { 'content-length': '10' }] as Record<string, string>[]) {
      assert.equal(await (await handle(post('0123456789', headers))).json(), 10)
    }
    assert.equal(await (await handle(post('0123456789a', { 'content-length': '11' }))).json(), 'more')
    assert.equal(await (await handle(post('0123456789a'))).json(), 'more')
    assert.equal(await (await handle(post('0123456789a', { 'content-length': '3' }))).json(), 'more')
    assert.equal(await (await handle(new Request('http://h/'))).json(), 0)
  })

  test('endless bodies are not read to the end', async () => {
    const { body, pulled } = endless()
    const request = post(body)
    assert.equal(
      await (await toFetch(async ({ body }) => json(200, (await size(body, 5000)) ?? 'more'))(request)).json(),
      'more',
    )
    assert.ok(pulled() < 10)
    assert.equal(request.body?.locked, false)
  })

  test('bodies are streamed on request, and released', async () => {
    const { body, pulled } = endless()
    const request = post(body)
    await toFetch(async (request) => {
      let chunks = 0
      for await (const _ of request.body.stream()) if (++chunks === 3) break
      return json(200, {})
    })(request)
    assert.ok(pulled() < 6)
    assert.equal(request.body?.locked, false)
  })

  test('bodies that break off get a 400', async () => {
    const errors: unknown[] = []
    const broken = new ReadableStream<Uint8Array>({ pull(controller) { controller.error(new Error('reset')) } })
    const response = await toFetch(async ({ body }) => json(200, await size(body, 10)), {
      onError: (error) => errors.push(error),
    })(post(broken))
    assert.deepEqual(
      [response.status, ((await response.json()) as { code: string }).code, errors],
      [400, 'incomplete_body', []],
    )
  })

  test('bodies that were read before come from the application, or get an error that says what to do', async () => {
    const errors: unknown[] = []
    const handle = toFetch(async (request) => json(200, await readJson(request, { maxBodyBytes: 100 })), {
      onError: (error) => errors.push(error),
    })
    const used = async (): Promise<Request> => {
      const request = post('{"a":1}', { 'content-type': 'application/json' })
      await request.text()
      return request
    }
    assert.deepEqual(await (await handle(await used(), { body: { a: 1 } })).json(), { a: 1 })
    assert.deepEqual(await (await handle(await used(), { body: Buffer.from('{"a":2}') })).json(), { a: 2 })
    assert.equal((await handle(await used())).status, 500)
    assert.match(String(errors[0]), /was read before.*\{ body \}/)
    // What the host says of a body that nobody read is a mistake, or a parser's empty default.
    assert.deepEqual(
      await (await handle(post('{"a":3}', { 'content-type': 'application/json' }), { body: {} })).json(),
      { a: 3 },
    )
  })

  test('a body can be read once', async () => {
    const errors: unknown[] = []
    await toFetch(async ({ body }) => json(200, [await size(body, 10), await size(body, 10)]), {
      onError: (error) => errors.push(error),
    })(post('x'))
    assert.match(String(errors[0]), /only once/)
  })
})

describe('toFetch: responses', () => {
  test('undefined passes the request on to the application, and gets a 404 if the application has no response', async () => {
    const handle = toFetch(() => undefined)
    assert.equal(await (await handle(new Request('http://h/'), { next: () => new Response('host') })).text(), 'host')
    for (const extra of [{}, { next: async () => undefined }]) {
      const response = await handle(new Request('http://h/'), extra)
      assert.deepEqual([response.status, (await response.json() as { code: string }).code], [404, 'not_found'])
    }
  })

  test('an error that the application throws after undefined is not masked', async () => {
    await assert.rejects(
      toFetch(() => undefined)(new Request('http://h/'), {
        next: () => {
          throw new Error('host')
        },
      }),
      /^Error: host$/,
    )
  })

  test('text gets its length, and no content type that nobody has set', async () => {
    const response = await toFetch(() => ({ status: 200, headers: {}, body: 'größer' }))(new Request('http://h/'))
    assert.deepEqual(
      [response.headers.get('content-length'), response.headers.get('content-type'), await response.text()],
      ['8', null, 'größer'],
    )
  })

  test('HEAD, 204, 205 and 304 have no body', async () => {
    for (const [method, status] of [['HEAD', 200], ['GET', 204], ['GET', 205], ['GET', 304]] as const) {
      for (const body of ['text', (async function * () { yield 'x' })()]) {
        const response = await toFetch(() => ({ status, headers: {}, body }))(new Request('http://h/', { method }))
        assert.deepEqual([response.status, response.body], [status, null])
      }
    }
  })

  test('errors and statuses that cannot be sent are masked', async () => {
    const errors: unknown[] = []
    for (const handler of [
      () => {
        throw new Error('secret')
      },
      () => ({ status: 99, headers: {} }),
      () => ({ status: 200, headers: { 'x y': 'z' } }),
    ] as Handler[]) {
      const response = await toFetch(handler, { onError: (error) => errors.push(error) })(new Request('http://h/'))
      assert.deepEqual([response.status, (await response.text()).includes('secret')], [500, false])
    }
    assert.equal(errors.length, 3)
    assert.equal((await toFetch(() => { throw httpError('gone') })(new Request('http://h/'))).status, 410)
  })

  test('a stream is read only as fast as its reader reads', async () => {
    let produced = 0
    let closed = false
    const response = await toFetch(() => ({
      status: 200, headers: {}, body: (async function * () {
        try {
          for (;;) { produced++; yield 'x' }
        } finally { closed = true }
      })()
    }))(new Request('http://h/'))
    await new Promise(setImmediate)
    assert.equal(produced, 1)
    const reader = response.body?.getReader()
    await reader?.read()
    await reader?.read()
    await new Promise(setImmediate)
    assert.equal(produced, 2)
    await reader?.cancel()
    await eventually(() => closed, 'closed')
  })

  test('a client that leaves closes a source that nobody reads', async () => {
    const controller = new AbortController()
    let closed = false
    await toFetch(() => ({
      status: 200, headers: {}, body: (async function * () {
        try {
          yield 'x'
        } finally { closed = true }
      })()
    }))(new Request('http://h/', { signal: controller.signal }))
    controller.abort()
    await eventually(() => closed, 'closed')
  })

  test('the message of a source that fails is not sent', async () => {
    const errors: unknown[] = []
    const response = await toFetch(() => ({
      status: 200, headers: {}, body: (async function * () { yield 'x'; throw new Error('secret') })()
    }), { onError: (error) => errors.push(error) })(new Request('http://h/'))
    await assert.rejects(response.text(), (error: Error) => !error.message.includes('secret'))
    assert.match(String(errors[0]), /secret/)
  })
})
