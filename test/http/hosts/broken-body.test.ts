// A body that breaks while a handler reads it: the client gets the response of the handler.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { createServer as createHttp2Server } from 'node:http2'
import { describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { attach, toNode } from '../../../adapters/node/index.js'
import { readBytes } from '../../../src/http/body/body.js'
import { compose, type Handler, type HttpRequest, type Policy } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import { ndjsonUpload } from '../../../src/ndjson/index.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { resumableUpload } from '../../../src/uploads/index.js'
import { router } from '../../../src/resources/router.js'
import { listen } from '../../kit/listen.js'
import { deferred } from '../../kit/wait.js'
import { Frames } from '../kit/frames.js'
import { ask, eventually, Wire } from '../kit/wire.js'

const RECORDS = 1500
const lines = Array.from({ length: RECORDS }, (_, id) => `${JSON.stringify({ id })}\n`).join('')

function head(method: string, path: string, fields: Record<string, string>): string {
  const all = Object.entries({ Host: 'a', ...fields }).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${path} HTTP/1.1\r\n${all.join('')}\r\n`
}

async function serving(
  handler: Handler, use: (port: number) => Promise<void>, server = createServer()
): Promise<void> {
  attach(server, handler)
  const running = await listen(server)
  try {
    await use(running.port)
  } finally {
    await running.close()
  }
}

interface Received {
  readonly status: number
  readonly head: string
  readonly text: string
  readonly body: { code?: string, summary?: { succeeded: number } }
}

function parse(text: string): Received {
  const [head = '', content = ''] = text.split('\r\n\r\n')
  const body = /^\{.*\}$/.test(content) ? JSON.parse(content) as Received['body'] : {}
  return { status: Number(head.split(' ')[1]), head, text, body }
}

/** Half closes the connection once the request is sent, and returns the response. */
async function halfClosed(port: number, request: string): Promise<Received> {
  const wire = new Wire(port)
  wire.socket.end(request)
  return parse(await wire.end())
}

/** Leaves the connection open, as after a broken chunk, and returns all until the server closes it. */
async function untilClosed(port: number, request: string): Promise<Received> {
  return parse(await new Wire(port, request).end())
}

/** A handler that reads nothing, and responds when its signal aborts. */
const untilAborted = (onAbort: () => void): Handler => ({ signal }) => new Promise((resolve) => {
  signal.addEventListener('abort', () => {
    onAbort()
    resolve(json(200, {}))
  })
})

const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
const NDJSON = { 'Content-Type': 'application/x-ndjson' }
const cut = head('POST', '/records', { ...NDJSON, 'Content-Length': '1000000' }) + lines
const broken = head('POST', '/records', { ...NDJSON, 'Transfer-Encoding': 'chunked' }) + chunk(lines) + 'ZZ\r\n'
const smuggled = head('GET', '/smuggled', {})

describe('a body that breaks while it is read', { concurrency: true }, () => {
  const slowly: Policy = async (request, next) => {
    await new Promise((resolve) => setTimeout(resolve, 50))
    return next(request)
  }
  for (const [what, policies] of [['at once', []], ['after a slow policy', [slowly]]] as const) {
    for (const [how, send, request] of [
      ['half closed', halfClosed, cut], ['with a broken chunk', untilClosed, broken],
    ] as const) {
      test(`gets a 400 incomplete_body that counts the written records, in an NDJSON upload ${how}, read ${what}`, async () => {
        let written = 0
        const upload = ndjsonUpload({
          write: (records) => {
            written += records.length
          },
        })
        await serving(compose(...policies, upload), async (port) => {
          const { status, head, body } = await send(port, request)
          assert.deepEqual([status, body.code], [400, 'incomplete_body'])
          assert.equal(body.summary?.succeeded, written)
          assert.ok(written >= RECORDS - 1, String(written))
          assert.match(head, /^connection: close$/im)
        })
      })
    }
  }

  test('ends streamed results with the error, and the connection closes', () =>
    serving(ndjsonUpload({ write: () => {} }), async (port) => {
      const fields = { ...NDJSON, 'Accept': 'application/x-ndjson' }
      for (const [send, request] of [
        [halfClosed, head('POST', '/', { ...fields, 'Content-Length': '1000000' }) + lines],
        [untilClosed, head('POST', '/', { ...fields, 'Transfer-Encoding': 'chunked' }) + chunk(lines) + 'ZZ\r\n'],
      ] as const) {
        const { status, text } = await send(port, request)
        assert.equal(status, 200)
        assert.match(text, /"code":"incomplete_body","summary":\{"total":1500,"succeeded":1500/)
        assert.match(text, /\r\n0\r\n\r\n$/)
      }
    }))

  test('ends the connection, and bytes after a broken chunk are not read as a request', async () => {
    const paths: string[] = []
    const upload = ndjsonUpload({ write: () => {} })
    await serving((request) => {
      paths.push(request.path)
      return upload(request)
    }, async (port) => {
      const wire = new Wire(port, broken + smuggled)
      await wire.until(/incomplete_body/)
      wire.socket.write(smuggled)
      const text = await wire.end()
      assert.equal(text.match(/HTTP\/1\.1 /g)?.length, 1)
      assert.deepEqual(paths, ['/records'])
    })
  })

  test('gets incomplete_body if it is read as a whole', () =>
    serving(
      async (request) => json(200, (await readBytes(request, { maxBodyBytes: 10_000 })).byteLength),
      async (port) => {
        const short = head('POST', '/', { 'Content-Length': '10' }) + 'abc'
        for (const received of [
          await halfClosed(port, short),
          await untilClosed(port, head('POST', '/', { 'Transfer-Encoding': 'chunked' }) + '3\r\nabc\r\nZZ\r\n'),
        ]) {
          assert.deepEqual([received.status, received.body.code], [400, 'incomplete_body'])
          assert.match(received.head, /^connection: close$/im)
        }
      },
    ))

  test('gets a 408 with the report if the upload is too slow for the server', () =>
    serving(ndjsonUpload({ write: () => {} }), async (port) => {
      const { status, body } = await untilClosed(port, cut)
      assert.deepEqual([status, body.code], [408, 'request_timeout'])
      assert.ok((body.summary?.succeeded ?? 0) >= RECORDS - 1)
    }, createServer({ headersTimeout: 100, requestTimeout: 200, connectionsCheckingInterval: 20 })))

  test('creates no task, and its client gets incomplete_body', async () => {
    const engine = memory()
    const task = defineTask({ name: 'report', run: () => 'done' })
    const tasks = createTasks({ ...engine, definitions: [task] })
    const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
    await serving(endpoints.submit(task), async (port) => {
      const fields = { 'Content-Type': 'application/json', 'Prefer': 'respond-async', 'Content-Length': '100' }
      const { status, body } = await halfClosed(port, head('POST', '/', fields) + '{"a":')
      assert.deepEqual([status, body.code], [400, 'incomplete_body'])
    })
    await tasks.close()
  })

  test('adds the bytes that arrived to its resumable upload', async () => {
    const { store, blobs } = memory()
    const films = resumableUpload(() => json(200, {}), { blobs, store, owner: 'anyone', uploadPath: '/uploads/{id}' })
    const api = router({
      'POST|OPTIONS /films': films.create,
      'GET|HEAD|PATCH|DELETE|OPTIONS /uploads/{id}': films.resource,
    })
    await serving(api, async (port) => {
      const created = await ask(port, 'POST', '/films', { headers: { 'upload-complete': '?0' } })
      const path = String(created.headers.location)
      const fields = (offset: number): Record<string, string> => ({
        'Content-Type': 'application/partial-upload', 'Upload-Offset': String(offset), 'Upload-Complete': '?1',
      })
      const first = await halfClosed(port, head('PATCH', path, { ...fields(0), 'Content-Length': '1000' }) + 'abc')
      assert.deepEqual([first.status, first.body.code], [400, 'incomplete_body'])
      const asked = await ask(port, 'HEAD', path)
      assert.equal(asked.headers['upload-offset'], '3')
      const second = await untilClosed(
        port, head('PATCH', path, { ...fields(3), 'Transfer-Encoding': 'chunked' }) + chunk('def') + 'ZZ\r\n'
      )
      assert.deepEqual([second.status, second.body.code], [400, 'incomplete_body'])
      assert.equal((await ask(port, 'HEAD', path)).headers['upload-offset'], '6')
    })
  })

  test('does not replace the response of a handler that stopped reading before', async () => {
    const server = createServer()
    const { promise: begun, resolve: begin } = deferred()
    const { promise: failed, resolve: fail } = deferred()
    await serving(async ({ body }) => {
      for await (const _ of body.stream()) break
      begin()
      await failed
      return json(200, 'done')
    }, async (port) => {
      server.on('clientError', fail)
      const wire = new Wire(port, head('POST', '/', { 'Transfer-Encoding': 'chunked' }) + chunk('abc'))
      await begun
      wire.socket.write('ZZ\r\n')
      const { status, head: received, text } = parse(await wire.end())
      assert.deepEqual([status, text.endsWith('"done"')], [200, true])
      assert.match(received, /^connection: close$/im)
    }, server)
  })

  for (const passesOn of [false, true]) {
    test(`gets a 400, after which no later handler reads anything${passesOn ? ', even if an earlier handler has declined' : ''}`, async () => {
      let written = 0
      const upload = ndjsonUpload({
        write: (records) => {
          written += records.length
        },
      })
      const { promise: responded, resolve: go } = deferred()
      const { promise: outcome, resolve: settle } = deferred<unknown>()
      const waiting: Policy = async (request, next) => {
        await responded
        return next(request)
      }
      const last: Handler = async (request) => {
        const reading = Promise.resolve(upload(request))
        reading.then(settle, settle)
        return reading
      }
      await serving(
        compose(waiting, passesOn ? () => undefined : last),
        async (port) => {
          const wire = new Wire(port, broken)
          wire.socket.allowHalfOpen = true
          await wire.until(/\}$/)
          assert.equal(parse(wire.text).body.code, 'bad_request')
          go()
          assert.equal(((await outcome) as { code?: string }).code, 'incomplete_body')
          assert.equal(written, 0)
        },
        createServer(toNode(last)),
      )
    })
  }

  test('gets a 400 and aborts the signal of a handler that does not read the body', async () => {
    let aborted = false
    await serving(untilAborted(() => { aborted = true }), async (port) => {
      const { status, body } = await halfClosed(port, head('POST', '/', { 'Content-Length': '10' }) + 'abc')
      assert.deepEqual([status, body.code], [400, 'bad_request'])
      await eventually(() => aborted, 'the signal aborts')
    })
  })

  for (const [how, send, request] of [
    ['half closed', halfClosed, cut], ['with a broken chunk', untilClosed, broken],
  ] as const) {
    test(`gets the response of the second handler if the first one has declined an upload ${how}`, async () => {
      const server = createServer(toNode(ndjsonUpload({ write: () => {} })))
      await serving(compose(slowly, () => undefined), async (port) => {
        const { status, body } = await send(port, request)
        assert.deepEqual([status, body.code], [400, 'incomplete_body'])
        assert.ok((body.summary?.succeeded ?? 0) >= RECORDS - 1)
      }, server)
    })
  }
})

describe('bytes after a complete request', () => {
  const { promise: work, resolve: finish } = deferred()
  const handler: Handler = async (request) => {
    const { byteLength } = await readBytes(request, { maxBodyBytes: 100 })
    await work
    return json(200, byteLength)
  }
  const post = (fields: Record<string, string> = {}): string => head('POST', '/', { 'Content-Length': '3', ...fields })

  test('are rejected after the response of its handler, in whatever packets they arrive', () =>
    serving(handler, async (port) => {
      const wires = [new Wire(port, `${post()}abcdef`), new Wire(port, `${post()}abc\0`)]
      const closing = new Wire(port, `${post({ Connection: 'close' })}abcdef`)
      for (let packets = 0; packets < 20; packets++) {
        for (const wire of wires) {
          wire.socket.write('\0')
          await new Promise(setImmediate)
        }
      }
      finish()
      for (const wire of wires) {
        assert.match(await wire.end(), /^HTTP\/1\.1 200 [^]*\r\n\r\n3HTTP\/1\.1 (400|501) [^]*\}$/)
      }
      assert.match(await closing.end(), /^HTTP\/1\.1 200 [^]*\r\n\r\n3$/)
    }))

  test('are rejected after the responses to all pipelined requests', () => {
    let count = 0
    return serving(async () => {
      await new Promise(setImmediate)
      return json(200, count++)
    }, async (port) => {
      const wire = new Wire(port, post() + 'abc' + post() + 'abc' + post() + 'abcdef')
      assert.deepEqual((await wire.end()).match(/\r\n\r\n\d|HTTP\/1\.1 \d+/g), [
        'HTTP/1.1 200', '\r\n\r\n0', 'HTTP/1.1 200', '\r\n\r\n1', 'HTTP/1.1 200', '\r\n\r\n2', 'HTTP/1.1 501',
      ])
    })
  })

  test('end the work if their client disconnects', async () => {
    let aborted = false
    await serving(untilAborted(() => { aborted = true }), async (port) => {
      new Wire(port).socket.end(`${post()}abcdef`)
      await eventually(() => aborted, 'the signal aborts')
    })
  })

  test('are rejected with the report of the upload if Content-Length counts characters in place of bytes', () =>
    serving(
      ndjsonUpload({
        write: () =>
          new Promise((resolve) => {
            setTimeout(resolve, 50)
          }),
      }),
      async (port) => {
        const text = '{"name":"ä"}\n'.repeat(3)
        const fields = { ...NDJSON, 'Content-Length': String(text.length) }
        assert.match(await new Wire(port, head('POST', '/', fields) + text).end(), /"total":3,"succeeded":2,"failed":1/)
      },
    ))
})

describe('a body of HTTP/2 that ends early is not taken for a complete body', () => {
  const ends: readonly (readonly [how: string, length: string | undefined, end: (frames: Frames) => void])[] = [
    ['whose stream is reset', undefined, (frames) => { frames.reset() }],
    ['whose connection is closed', undefined, (frames) => { frames.socket.destroy() }],
    ['that is shorter than its length', '1000', (frames) => { frames.end() }],
    ['that is longer than its length', '3', (frames) => { frames.end() }],
  ]
  for (const [how, length, end] of ends) {
    for (const reads of ['stream', 'bytes'] as const) {
      test(`${how}, read as ${reads}`, async () => {
        const { promise: begun, resolve: begin } = deferred()
        const { promise: outcome, resolve: settle } = deferred<unknown>()
        const read = async ({ body }: HttpRequest): Promise<void> => {
          if (reads === 'stream') for await (const _ of body.stream()) begin()
          else await body.bytes(1000)
        }
        const server = createHttp2Server(toNode((request) => {
          if (reads === 'bytes' || length === '3') begin()
          return read(request).then(() => settle('whole'), settle).then(() => json(200, {}))
        }) as never)
        const running = await listen(server)
        const frames = new Frames(running.port, {
          ':path': '/',
          ...(length !== undefined && { 'content-length': length }),
        })
        frames.send('{"id":1}\n')
        await begun
        end(frames)
        assert.equal((await outcome as { code?: string }).code, 'incomplete_body')
        frames.socket.destroy()
        await running.close()
      })
    }
  }
})
