import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { connect } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { createGunzip, createGzip, gzipSync } from 'node:zlib'
import fastify, { type FastifyInstance } from 'fastify'
import { fastifyLonghaul, toFastify } from '../../../adapters/fastify/index.js'
import { readJson } from '../../../src/http/body/body.js'
import type { Handler } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import { router } from '../../../src/resources/router.js'

async function* lines(count: number): AsyncGenerator<string> {
  for (let n = 0; n < count; n++) {
    if (n % 100 === 0) await pause(0)
    yield `{"n":${n}}\n`
  }
}

function ndjson(body: AsyncIterable<string>): Handler {
  return () => ({ status: 200, headers: { 'content-type': 'application/x-ndjson' }, body })
}

const api = router({
  'GET|HEAD /task': () => json(200, { a: 'ä' }, { 'vary': 'Prefer', 'set-cookie': ['a=1', 'b=2'], 'etag': '"1"' }),
  'GET /empty': () => ({ status: 204, headers: { 'content-type': 'text/plain', 'content-length': '3' } }),
  'GET /bytes': () => ({ status: 200, headers: { 'content-type': 'text/csv' }, body: new TextEncoder().encode('a,b') }),
  'GET|HEAD /lines': () => ndjson(lines(500))({} as never),
  'GET /bad-header': () => ({ status: 200, headers: { 'x-name': 'a\nb', 'vary': 'Accept' } }),
  'POST /echo': async (call) => json(200, await readJson(call, { maxBodyBytes: 100 })),
})

/** Makes an app whose hooks note what they see, in the way that plugins for compression do. */
function appWithHooks(): { readonly app: FastifyInstance, readonly seen: unknown[] } {
  const app = fastify()
  const seen: unknown[] = []
  app.addHook('onRequest', async (_request, reply) => {
    reply.headers({ 'x-request-id': '7', 'vary': 'Origin', 'set-cookie': 'own=1' })
  })
  app.addHook('onSend', async (call, reply, payload) => {
    const { statusCode } = reply
    seen.push([call.url, statusCode, payload instanceof Readable ? 'stream' : payload])
    if (call.headers['accept-encoding'] !== 'gzip' || payload === undefined) return payload
    reply.header('content-encoding', 'gzip').removeHeader('content-length')
    return payload instanceof Readable ? payload.pipe(createGzip()) : gzipSync(payload as string)
  })
  return { app, seen }
}

/** Listens on a free port, and returns a function that requests a path. */
async function listening(
  app: FastifyInstance,
): Promise<(path: string, headers?: Record<string, string>) => Promise<IncomingMessage>> {
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  return async (path, headers = {}) => {
    const sent = request({ port, host: '127.0.0.1', path, headers }).end()
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    return response
  }
}

describe('the hooks of Fastify', () => {
  test('see each response of a plugin in onSend: its status, its headers and its body', async () => {
    const { app, seen } = appWithHooks()
    await app.register(fastifyLonghaul, { prefix: '/api', handler: api })
    const { statusCode, headers, body } = await app.inject('/api/task')
    assert.deepEqual(seen, [['/api/task', 200, '{"a":"ä"}']])
    assert.deepEqual(
      [statusCode, body, headers['content-type'], headers['content-length'], headers['etag']],
      [200, '{"a":"ä"}', 'application/json', '10', '"1"'],
    )
    assert.deepEqual(
      [headers['vary'], headers['x-request-id'], headers['set-cookie']],
      ['Origin, Prefer', '7', ['own=1', 'a=1', 'b=2']],
    )
    const head = await app.inject({ method: 'HEAD', url: '/api/task' })
    assert.deepEqual([head.headers['content-length'], head.body], ['10', ''])
    const empty = await app.inject('/api/empty')
    assert.deepEqual([empty.statusCode, empty.headers['content-length'], empty.body], [204, undefined, ''])
    const csv = await app.inject('/api/bytes')
    assert.deepEqual([csv.headers['content-type'], csv.headers['content-length'], csv.body], ['text/csv', '3', 'a,b'])
    assert.equal((await app.inject('/api/lines')).body.split('\n').length, 501)
    assert.deepEqual(seen.at(-1), ['/api/lines', 200, 'stream'])
    assert.equal((await app.inject({ method: 'HEAD', url: '/api/lines' })).body, '')
    await app.close()
  })

  test('may compress whole and streamed responses', async () => {
    const { app } = appWithHooks()
    await app.register(fastifyLonghaul, { handler: api })
    const get = await listening(app)
    for (const [path, length] of [['/task', 1], ['/lines', 501]] as const) {
      const response = await get(path, { 'accept-encoding': 'gzip' })
      assert.equal(response.headers['content-encoding'], 'gzip')
      const text = (await response.pipe(createGunzip()).setEncoding('utf8').toArray()).join('')
      assert.equal(text.split('\n').length, length, path)
    }
    await app.close()
  })

  test('see the response of a single route in onSend, and its error', async () => {
    const { app, seen } = appWithHooks()
    app.post('/echo', toFastify(async (call) => json(200, await readJson(call, { maxBodyBytes: 100 }))))
    app.get('/bad-header', toFastify(() => ({ status: 200, headers: { 'x-name': 'a\nb', 'vary': 'Accept' } })))
    assert.deepEqual((await app.inject({ method: 'POST', url: '/echo', payload: { b: 2 } })).json(), { b: 2 })
    assert.deepEqual(seen, [['/echo', 200, '{"b":2}']])
    const masked = await app.inject('/bad-header')
    assert.deepEqual(
      [masked.statusCode, masked.json()['code'], masked.headers['vary']],
      [500, 'internal_error', 'Origin, Accept'],
    )
    assert.equal((seen.at(-1) as unknown[])[1], 500)
    await app.close()
  })

  test('send a rejection to the client while a large body is sent, and close the connection', async () => {
    const { app, seen } = appWithHooks()
    await app.register(fastifyLonghaul, { handler: api })
    await app.listen({ port: 0, host: '127.0.0.1' })
    const { port } = app.server.address() as AddressInfo
    const sent = request({
      port,
      host: '127.0.0.1',
      path: '/echo',
      method: 'POST',
      headers: { 'content-type': 'application/json' },
    })
    sent.on('error', () => undefined)
    const body = Readable.from((async function* () { for (let n = 0; n < 400; n++) yield Buffer.alloc(1024, 32) })())
    body.pipe(sent)
    const [response] = await once(sent, 'response') as [IncomingMessage]
    response.resume()
    assert.deepEqual(
      [response.statusCode, response.headers['connection'], response.headers['x-request-id']],
      [413, 'close', '7'],
    )
    assert.deepEqual(seen, [], 'this response is written to the connection directly')
    await app.close()
  })
})

describe('a response that cannot be sent in Fastify', () => {
  test('is replaced by an error response that has none of its headers', async () => {
    const bad: Record<string, string | string[]>[] = [{ 'x-name': 'a\nb' }, { 'bad name': 'a' }]
    const headers = { 'etag': '"1"', 'content-encoding': 'gzip', 'set-cookie': 'a=1' }
    const app = fastify()
    bad.forEach((last, at) => {
      app.get(`/${at}`, toFastify(() => ({ status: 200, headers: { ...headers, ...last }, body: 'x' })))
    })
    for (const [at] of bad.entries()) {
      const { statusCode, headers: sent, json: read } = await app.inject(`/${at}`)
      assert.deepEqual(
        [statusCode, read()['code'], sent['etag'], sent['content-encoding'], sent['set-cookie']],
        [500, 'internal_error', undefined, undefined, 'a=1'],
      )
    }
    await app.close()
  })

  test('is replaced by an error response if its stream contradicts its Content-Length at once', async () => {
    const app = fastify()
    for (const length of ['1', '10000']) {
      const body = length === '1' ? lines(1) : lines(0)
      app.get(`/${length}`, toFastify(() => ({ status: 200, headers: { 'content-length': length }, body })))
    }
    for (const length of ['1', '10000']) assert.equal((await app.inject(`/${length}`)).statusCode, 500)
    await app.close()
  })

  test('is sent without its body if it is a 304', async () => {
    const app = fastify()
    app.get('/', toFastify(() => ({ status: 304, headers: { etag: '"1"' }, body: 'abc' })))
    const { statusCode, headers } = await app.inject('/')
    assert.deepEqual(
      [statusCode, headers['content-length'], headers['content-type'], headers['etag']],
      [304, undefined, undefined, '"1"'],
    )
    await app.close()
  })

  test('stays as a hook has begun to send it', async () => {
    const app = fastify()
    app.addHook('onRequest', async (_request, { raw }) => {
      raw.writeHead(202).write('by ')
      setTimeout(() => { raw.end('hook') }, 20)
    })
    await app.register(fastifyLonghaul, { handler: api })
    const get = await listening(app)
    const response = await get('/task')
    assert.deepEqual([response.statusCode, (await response.setEncoding('utf8').toArray()).join('')], [202, 'by hook'])
    await app.close()
  })

  test('may be an object that an error handler returns after a hook has failed', async () => {
    const app = fastify()
    app.setErrorHandler((error, _request, reply) => {
      reply.code(418)
      return { caught: (error as Error).message }
    })
    let calls = 0
    app.addHook('onSend', async (_request, _reply, payload) => {
      if (++calls === 1) throw new Error('hook')
      return payload
    })
    await app.register(fastifyLonghaul, { handler: api })
    const { statusCode, headers, json: read } = await app.inject('/task')
    assert.deepEqual(
      [statusCode, headers['content-type'], read()],
      [418, 'application/json; charset=utf-8', { caught: 'hook' }],
    )
    await app.close()
  })

  test('cuts the connection at a chunk that is neither text nor bytes, behind a slow reader', async () => {
    const failures: string[] = []
    async function* wrong(): AsyncGenerator<string> {
      yield 'x'.repeat(20_000_000)
      yield 5 as unknown as string
    }
    const app = fastify()
    app.get('/', toFastify(ndjson(wrong()), { onError: (error) => { failures.push((error as Error).name) } }))
    const get = await listening(app)
    const response = await get('/')
    await pause(100)
    await assert.rejects(response.toArray(), { code: 'ECONNRESET' })
    assert.deepEqual(failures, ['TypeError'])
    await app.close()
  })

  test('resets the stream of HTTP/2 if its source fails later', async () => {
    const app = fastify({ http2: true })
    async function* failing(): AsyncGenerator<string> {
      yield 'a'
      await pause(10)
      throw new Error('secret')
    }
    app.get('/', toFastify(ndjson(failing()), { onError: () => undefined }) as never)
    await app.listen({ port: 0, host: '127.0.0.1' })
    const client = connect(`http://127.0.0.1:${(app.server.address() as AddressInfo).port}`)
    const stream = client.request({ ':path': '/' })
    await assert.rejects(stream.toArray(), { code: 'ERR_HTTP2_STREAM_ERROR' })
    client.close()
    await app.close()
  })
})

describe('streams in Fastify', () => {
  test('events send their head at once, and a source is closed when the client leaves', async () => {
    let isClosed = false
    const silent = {
      [Symbol.asyncIterator]: () => ({
        next: () => new Promise<never>(() => undefined),
        return: async () => {
          isClosed = true
          return { done: true as const, value: undefined }
        },
      }),
    }
    const { app } = appWithHooks()
    app.get(
      '/events',
      toFastify(() => ({ status: 200, headers: { 'content-type': 'text/event-stream' }, body: silent })),
    )
    const get = await listening(app)
    const response = await get('/events')
    assert.deepEqual([response.statusCode, response.headers['content-type']], [200, 'text/event-stream'])
    response.destroy()
    while (!isClosed) await pause(5)
    await app.close()
  })

  test('a source that fails before its first chunk gives an error response, and one that fails later cuts the connection', async () => {
    const failures: unknown[] = []
    async function* failing(after: number): AsyncGenerator<string> {
      for (let n = 0; n < after; n++) yield `${n}\n`
      await pause(1)
      throw new Error('secret')
    }
    const { app } = appWithHooks()
    for (const after of [0, 2]) {
      app.get(
        `/${after}`,
        toFastify(ndjson(failing(after)), {
          onError: (error) => {
            failures.push((error as Error).message)
          },
        }),
      )
    }
    app.get(
      '/short',
      toFastify(() => ({ status: 200, headers: { 'content-length': '10' }, body: lines(1) })),
    )
    const get = await listening(app)
    const failed = await get('/0')
    failed.resume()
    assert.equal(failed.statusCode, 500)
    for (const path of ['/2', '/short']) {
      const cut = await get(path)
      assert.equal(cut.statusCode, 200)
      await assert.rejects(cut.toArray(), { code: 'ECONNRESET' }, path)
    }
    assert.deepEqual(failures, ['secret', 'secret'])
    await app.close()
  })

  test('SPEC 4.7: a slow reader slows the source down', async () => {
    let yielded = 0
    async function* endless(): AsyncGenerator<Uint8Array> {
      for (;; yielded++) yield new Uint8Array(65_536)
    }
    const { app } = appWithHooks()
    app.get(
      '/',
      toFastify(() => ({ status: 200, headers: { 'content-type': 'application/octet-stream' }, body: endless() })),
    )
    const get = await listening(app)
    const response = await get('/')
    response.pause()
    for (let before = -1; before !== yielded;) {
      before = yielded
      await pause(100)
    }
    assert.ok(yielded < 1000, `${yielded} chunks are in memory`)
    response.destroy()
    await app.close()
  })
})

describe('the Fastify plugin without a prefix', () => {
  test('works beside routes for the root, and for all paths of one method', async () => {
    const app = fastify()
    app.register(fastifyLonghaul, { handler: api })
    app.get('/', () => 'root')
    app.post('/own', (call) => call.body)
    app.options('*', () => 'preflight')
    assert.equal((await app.inject('/')).body, 'root')
    assert.deepEqual((await app.inject({ method: 'POST', url: '/own', payload: { a: 1 } })).json(), { a: 1 })
    assert.equal((await app.inject({ method: 'OPTIONS', url: '/task' })).body, 'preflight')
    assert.deepEqual((await app.inject('/task')).json(), { a: 'ä' })
    assert.equal((await app.inject('/nothing')).statusCode, 404)
    await app.close()
  })
})
