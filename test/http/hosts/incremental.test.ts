// Streams as a proxy sees them on the wire: each message that streams has its own `Incremental: ?1` (RFC 10036).
import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { describe, test, type TestContext } from 'node:test'
import { parseItem } from 'structured-headers'
import { createClient } from 'longhaul/client'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { ndjsonDownload, ndjsonUpload } from 'longhaul/ndjson'
import { attach, toNode } from 'longhaul/node'
import { partialResults } from 'longhaul/partial'
import { listen } from '../../kit/listen.js'
import { deferred } from '../../kit/wait.js'
import { site } from '../kit/uploads.js'
import { ask, Wire } from '../kit/wire.js'

const PEOPLE = [{ id: 1 }, { id: 2 }]

/** A server whose task emits one word and waits for `gate`. Keeps the requests. */
async function start(t: TestContext, wrap?: (handle: RequestListener) => RequestListener) {
  const gate = deferred()
  const { engine, store, blobs } = memory()
  const words = partialResults<string>({ store })
  const say = defineTask({
    name: 'say', external: words.external,
    run: words.run(async (_, { emit }) => {
      await emit('hello')
      await gate.promise
      return 1
    }),
  })
  const tasks = createTasks({ engine, store, blobs, definitions: [say] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/status/{id}', owner: () => 'ann' })
  const handler = router({
    'GET|DELETE /status/{id}': endpoints.status,
    'GET|HEAD /status/{id}/partial-results': words.endpoint(endpoints),
    'GET /users': ndjsonDownload({ records: () => PEOPLE }),
    'GET /broken': ndjsonDownload({ records: async function* () { throw new Error('no database') } }),
    'POST /users': ndjsonUpload({ write: () => undefined, batchSize: 1 }),
  })
  const quiet = { onError: () => undefined }
  const server = wrap ? createServer(wrap(toNode(handler, quiet))) : createServer()
  if (!wrap) attach(server, handler, quiet)
  const seen: IncomingMessage[] = []
  server.on('request', (req) => { seen.push(req) })
  const { port, close } = await listen(server)
  t.after(async () => {
    gate.resolve()
    await tasks.close()
    await close()
  })
  const { taskId } = await tasks.ownedBy('ann').submit(say, undefined)
  return { port, gate, seen, status: `/status/${taskId}` }
}

const request = (path: string, ...lines: string[]): string =>
  [`GET ${path} HTTP/1.1`, 'Host: a', ...lines, '', ''].join('\r\n')

/** Returns the values of a header in a response on the wire. */
function valuesOf(text: string, name: string): string[] {
  const head = text.slice(0, text.indexOf('\r\n\r\n'))
  return [...head.matchAll(new RegExp(`^${name}: (.*)$`, 'gim'))].map(([, value = '']) => value.trim())
}

function assertIncremental(text: string): void {
  const values = valuesOf(text, 'incremental')
  assert.equal(values.length, 1, text)
  assert.deepEqual(parseItem(values[0] as string), [true, new Map()])
  assert.deepEqual(valuesOf(text, 'x-accel-buffering'), ['no'])
}

describe('a stream tells proxies to forward it as it arrives', () => {
  const streams = {
    'an event stream': { below: '', accept: 'text/event-stream', ends: /"completed"/ },
    'partial results as events': { below: '/partial-results', accept: 'text/event-stream', ends: /event: end/ },
    'partial results as lines': { below: '/partial-results', accept: 'application/jsonl', ends: /"end":/ },
  }
  for (const [name, { below, accept, ends }] of Object.entries(streams)) {
    test(`${name} has Incremental, and ends when the client closes the connection`, async (t) => {
      const { port, gate, status } = await start(t)
      const wire = new Wire(port, request(status + below, `Accept: ${accept}`, 'Connection: close'))
      await wire.until(below === '' ? /data:/ : /hello/)
      gate.resolve()
      const text = await wire.end()
      assertIncremental(text)
      assert.deepEqual([valuesOf(text, 'connection'), valuesOf(text, 'transfer-encoding')], [['close'], ['chunked']])
      assert.match(text, ends)
      assert.match(text, /\r\n0\r\n\r\n$/)
    })
  }
  for (const accept of ['*/*', 'application/json']) {
    test(`a download of ${accept} has Incremental, and ends when the client closes the connection`, async (t) => {
      const { port } = await start(t)
      const text = await new Wire(port, request('/users', `Accept: ${accept}`, 'Connection: close')).end()
      assertIncremental(text)
      assert.deepEqual(valuesOf(text, 'connection'), ['close'])
      assert.match(text, /\r\n0\r\n\r\n$/)
    })
  }
  test('results of an upload arrive while the body is sent, and trailers of the request are read', async (t) => {
    const { port, seen } = await start(t)
    const wire = new Wire(port, [
      'POST /users HTTP/1.1', 'Host: a', 'Content-Type: text/x-ndjson', 'Accept: application/ndjson', 'Incremental: ?1',
      'Transfer-Encoding: chunked', 'Trailer: X-Checksum', 'Connection: close', '', '9', '{"id":1}\n', '',
    ].join('\r\n'))
    await wire.until(/"line":1/)
    wire.socket.write('9\r\n{"id":2}\n\r\n0\r\nX-Checksum: 7\r\n\r\n')
    const text = await wire.end()
    assertIncremental(text)
    assert.deepEqual(
      [valuesOf(text, 'content-type'), valuesOf(text, 'connection')],
      [['application/ndjson'], ['close']],
    )
    assert.match(text, /"succeeded":2/)
    assert.equal(seen[0]?.trailers['x-checksum'], '7')
  })
  test('sends trailers of the server after a stream', async (t) => {
    const { port } = await start(t, (handle) => (req: IncomingMessage, res: ServerResponse) => {
      res.setHeader('Trailer', 'Server-Timing')
      const end = res.end.bind(res) as (...args: unknown[]) => ServerResponse
      res.end = ((...args: unknown[]) => {
        res.addTrailers({ 'Server-Timing': 'db;dur=5' })
        return end(...args)
      }) as typeof res.end
      handle(req, res)
    })
    const text = await new Wire(port, request('/users', 'TE: trailers', 'Connection: close, TE')).end()
    assertIncremental(text)
    assert.deepEqual(valuesOf(text, 'trailer'), ['Server-Timing'])
    assert.match(text, /\r\n0\r\nServer-Timing: db;dur=5\r\n\r\n$/)
  })
  test('sends an error in place of a stream without Incremental', async (t) => {
    const { port } = await start(t)
    const text = await new Wire(port, request('/broken', 'Connection: close')).end()
    assert.match(text, /^HTTP\/1.1 500 /)
    assert.deepEqual([valuesOf(text, 'incremental'), valuesOf(text, 'x-accel-buffering')], [[], []])
  })
})

describe('Incremental in requests of the client', () => {
  test('is in a streamed upload, and not in an upload of a Blob', async (t) => {
    const { port, seen } = await start(t)
    const api = createClient({ baseUrl: `http://127.0.0.1:${String(port)}` })
    await api.upload('/users', (async function* () { yield* PEOPLE })())
    await api.upload('/users', new Blob(['{"id":1}\n']))
    assert.deepEqual(seen.map(({ headers }) => headers['incremental']), ['?1', undefined])
  })
  test('is in each part of a resumable upload, and does not reach the handler', async (t) => {
    const { listener, seen: handled } = site()
    const sent: IncomingMessage[] = []
    const { port, close } = await listen(createServer((req, res) => {
      sent.push(req)
      listener(req, res)
    }))
    t.after(close)
    const api = createClient({ baseUrl: `http://127.0.0.1:${String(port)}/api` })
    await api.uploadFile('/files', Buffer.from('abc')).result()
    assert.deepEqual(
      sent.map(({ method, headers }) => [method, headers['incremental']]),
      [
        ['POST', undefined],
        ['PATCH', '?1'],
      ],
    )
    assert.deepEqual(handled.map(({ headers }) => headers['incremental']), [undefined])
  })
  test('does not reach the handler in the request that creates a resumable upload', async (t) => {
    const { listener, seen: handled } = site()
    const { port, close } = await listen(createServer((req, res) => { listener(req, res) }))
    t.after(close)
    const headers = { 'incremental': '?1', 'upload-complete': '?1', 'content-type': 'text/plain' }
    const { status } = await ask(port, 'POST', '/api/files', { headers, body: 'abc' })
    assert.equal(status, 200)
    assert.deepEqual(handled.map(({ headers }) => headers['incremental']), [undefined])
  })
  test('is not sent by a browser, because another origin would have to allow it', async (t) => {
    const { port, seen } = await start(t)
    Object.assign(globalThis, { document: {} })
    t.after(() => { Reflect.deleteProperty(globalThis, 'document') })
    const api = createClient({ baseUrl: `http://127.0.0.1:${String(port)}`, streamUploads: true })
    await api.upload('/users', PEOPLE)
    assert.deepEqual(
      seen.map(({ headers }) => [headers['transfer-encoding'], headers['incremental']]),
      [['chunked', undefined]],
    )
  })
})
