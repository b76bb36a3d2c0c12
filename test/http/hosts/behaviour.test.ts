import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { describe, test } from 'node:test'
import { httpError } from '../../../src/http/errors.js'
import { compose, type Handler } from '../../../src/http/exchange.js'
import { principalOf } from '../../../src/http/principal.js'
import { readJson } from '../../../src/http/body/body.js'
import { json } from '../../../src/http/respond.js'
import { authenticate } from '../../../src/policies/authenticate.js'
import { crossSite } from '../../../src/policies/cross-site.js'
import { basic, bearer, tokens } from '../../../src/policies/schemes.js'
import { HOSTS, type Host, type Setup } from '../kit/hosts.js'
import { ask, eventually, open, Wire } from '../kit/wire.js'

type Context = { user?: unknown }

async function running(
  host: Host,
  setup: Setup | Handler<Context>,
  use: (port: number) => Promise<void>,
): Promise<void> {
  const server = await host.start(typeof setup === 'function' ? { handler: setup } : setup)
  try {
    await use(server.port)
  } finally {
    await server.close()
  }
}

const CHUNK = Buffer.alloc(64 * 1024, 'x')

for (const host of HOSTS) {
  describe(`the same handlers under ${host.name}`, () => {
    test('see the path that the client sent, the mount path and the query', () =>
      running(
        host,
        ({ path, mountPath, query, method }) => json(200, { path, mountPath, q: query.get('q'), method }),
        async (port) => {
          const { body } = await ask(port, 'GET', '/api/a%20b/c?q=1%2B1')
          assert.deepEqual(JSON.parse(body), { path: '/api/a%20b/c', mountPath: '/api', q: '1+1', method: 'GET' })
        },
      ))

    test('see the user that the application has found', () =>
      running(host, (request) => json(200, request.context), async (port) => {
        assert.deepEqual(JSON.parse((await ask(port, 'GET', '/api/x')).body), { user: { name: 'ann' } })
      }))

    test('read a body that no parser has read', () =>
      running(host, async (request) => json(200, await readJson(request, { maxBodyBytes: 1000 })), async (port) => {
        const sent = { body: '{"a":[1]}', headers: { 'content-type': 'application/json' } }
        assert.deepEqual(await ask(port, 'POST', '/api/x', sent).then(({ body }) => JSON.parse(body)), { a: [1] })
      }))

    test('reject repeated credentials, a repeated Content-Type and a repeated Host', async () => {
      const verify = tokens({ one: { subject: 'one' }, two: { subject: 'two' } })
      const read: Handler<Context> = async (request) =>
        json(200, [principalOf(request), await readJson(request, { maxBodyBytes: 1000 })])
      const handler = compose<Context>(
        crossSite(),
        authenticate({ schemes: [bearer({ verify }), basic({ verify: () => undefined })] }),
        read,
      )
      for (const parse of [false, true]) {
        await running(host, { handler, parse }, async (port) => {
          const head = [
            'Host: a', 'Content-Type: application/json', 'Authorization: Bearer one',
            'Origin: http://a', 'Content-Length: 2',
          ]
          const responseTo = (...more: readonly string[]): Promise<string> => {
            const lines = [
              'POST /api/x HTTP/1.1',
              ...head,
              ...more,
              'Constructor: 1',
              'constructor: 2',
              'Connection: close',
              '',
              '{}',
            ]
            return new Wire(port, lines.join('\r\n')).end()
          }
          assert.match(await responseTo(), /^HTTP\/1.1 200 [^]*\[{"subject":"one"},{}\]/)
          for (const again of ['Authorization: Bearer one', 'authorization: Bearer two', 'AUTHORIZATION: Basic YTpi']) {
            const text = await responseTo(again)
            assert.match(text, /^HTTP\/1.1 401 [^]*"unauthorized"/, again)
            assert.match(text, /Bearer realm="longhaul", error="invalid_token"/i)
          }
          for (const again of ['Content-Type: application/json', 'content-type: text/plain']) {
            // The parser of a host may refuse it by itself.
            assert.match(await responseTo(again), /^HTTP\/1.1 4(?:00|15) /, again)
          }
          assert.match(await responseTo('host: b'), /^HTTP\/1.1 40(?:3 [^]*"cross_site"|0 )/)
        })
      }
    })

    test('read a body in many chunks, whole and as a stream', () =>
      running(host, async (request) => {
        let size = 0
        if (request.path.endsWith('whole')) size = (await request.body.bytes(1e7))?.byteLength ?? -1
        else for await (const chunk of request.body.stream()) size += chunk.byteLength
        return json(200, { size })
      }, async (port) => {
        const body = Buffer.alloc(3_000_000, 'y')
        for (const headers of [{}, { 'transfer-encoding': 'chunked' }]) {
          for (const path of ['/api/whole', '/api/stream']) {
            assert.deepEqual(
              JSON.parse((await ask(port, 'POST', path, { body, headers })).body),
              { size: 3_000_000 },
              path,
            )
          }
        }
      }))

    test("use what the application's parser made of the body", () =>
      running(
        host,
        { parse: true, handler: async (request) => json(200, await readJson(request, { maxBodyBytes: 1000 })) },
        async (port) => {
          const sent = { body: '{"a":[2]}', headers: { 'content-type': 'application/json' } }
          assert.deepEqual(JSON.parse((await ask(port, 'POST', '/api/x', sent)).body), { a: [2] })
        },
      ))

    test('decline to the application when they return undefined', () =>
      running(host, { fallback: true, handler: async () => undefined }, async (port) => {
        const { status, body } = await ask(port, 'GET', '/api/x')
        assert.deepEqual([status, body], [200, 'host'])
      }))

    test('answer HEAD with the length and without the body, and close an unread source', () => {
      let closed = 0
      let started = 0
      const source = {
        [Symbol.asyncIterator]: () => ({
          next: async () => { started++; return { done: false as const, value: 'x' } },
          return: async () => { closed++; return { done: true as const, value: undefined } }
        })
      }
      return running(host, (request) => request.path.endsWith('stream')
        ? { status: 200, headers: { 'content-type': 'text/plain' }, body: source }
        : { status: 200, headers: { 'content-type': 'text/plain' }, body: 'größer' }, async (port) => {
        const text = await ask(port, 'HEAD', '/api/text')
        assert.deepEqual([text.status, text.headers['content-length'], text.body], [200, '8', ''])
        assert.equal((await ask(port, 'GET', '/api/text')).headers['content-length'], '8')
        const stream = await ask(port, 'HEAD', '/api/stream')
        assert.deepEqual([stream.status, stream.body, started, closed], [200, '', 0, 1])
      })
    })

    test('respond with 204 and 304 without a body and without a length', () =>
      running(host, ({ path }) => ({ status: Number(path.slice(-3)), headers: { etag: '"1"' } }), async (port) => {
        for (const status of [204, 304]) {
          const answer = await ask(port, 'GET', `/api/${status}`)
          assert.deepEqual(
            [answer.status, answer.body, answer.headers['content-length'], answer.headers.etag],
            [status, '', undefined, '"1"'],
          )
          assert.equal(answer.headers['transfer-encoding'], undefined)
        }
      }))

    test('send a list of values as several header lines', () =>
      running(
        host,
        () => ({ status: 200, headers: { 'set-cookie': ['a=1', 'b=2'], 'link': ['</a>', '</b>'] }, body: '' }),
        async (port) => {
          const { headers } = await ask(port, 'GET', '/api/x')
          assert.deepEqual(
            headers['set-cookie']?.filter((line) => !line.startsWith('host')),
            ['a=1', 'b=2'],
          )
          assert.equal(headers.link, '</a>, </b>')
        },
      ))

    test('stream text and bytes in order', () =>
      running(
        host,
        () => ({
          status: 200,
          headers: { 'content-type': 'text/plain' },
          body: (async function* () {
            yield 'a'
            yield ''
            yield new Uint8Array([98])
            await new Promise(setImmediate)
            yield 'ç'
          })(),
        }),
        async (port) => {
          const answer = await ask(port, 'GET', '/api/x')
          assert.deepEqual([answer.status, answer.body], [200, 'abç'])
        },
      ))

    test('send the headers of an event stream before the first event, and each event at once', () => {
      const { promise, resolve } = gate()
      return running(host, () => ({
        status: 200, headers: { 'content-type': 'text/event-stream' },
        body: (async function * () { await promise; yield 'data: 1\n\n'; await new Promise(() => {}) })()
      }), async (port) => {
        const response = await open(port, 'GET', '/api/x')
        assert.equal(response.statusCode, 200)
        resolve()
        const [first] = await nextChunk(response)
        assert.equal(String(first), 'data: 1\n\n')
        response.destroy()
      })
    })

    test('send the headers of any other stream after a second without a chunk', { timeout: 10_000 }, () => {
      const { promise, resolve } = gate()
      return running(
        host,
        () => ({
          status: 200,
          headers: { 'content-type': 'text/plain' },
          body: (async function* () {
            await promise
            yield 'late'
          })(),
        }),
        async (port) => {
          const response = await open(port, 'GET', '/api/x')
          resolve()
          assert.equal(String((await nextChunk(response))[0]), 'late')
          response.destroy()
        },
      )
    })

    test('are aborted when the client disconnects, and their source is closed', () => {
      let aborted = false
      let closed = false
      return running(host, (request) => {
        request.signal.addEventListener('abort', () => { aborted = true })
        return {
          status: 200, headers: { 'content-type': 'text/plain' },
          body: (async function * () {
            try {
              for (;;) { yield 'tick'; await new Promise((resolve) => setTimeout(resolve, 2)) }
            } finally { closed = true }
          })()
        }
      }, async (port) => {
        const response = await open(port, 'GET', '/api/x')
        await nextChunk(response)
        assert.deepEqual([aborted, closed], [false, false])
        response.destroy()
        await eventually(() => aborted && closed, 'abort and close')
      })
    })

    test('are aborted when the client disconnects before there is a response', () => {
      const { promise: asked, resolve: arrived } = gate()
      const { promise: aborted, resolve: abort } = gate()
      return running(host, async (request) => {
        request.signal.addEventListener('abort', abort)
        arrived()
        await aborted
        return json(200, {})
      }, async (port) => {
        const wire = new Wire(port, 'GET /api/x HTTP/1.1\r\nHost: a\r\n\r\n')
        await asked
        wire.socket.destroy()
        await aborted
      })
    })

    test('are not aborted when the client disconnects after its response', () => {
      let signal: AbortSignal | undefined
      return running(host, (request) => {
        signal = request.signal
        return json(200, {})
      }, async (port) => {
        await ask(port, 'GET', '/api/x')
        await ask(port, 'GET', '/api/x')
        assert.equal(signal?.aborted, false)
      })
    })

    test('produce no more than a slow client has read', { timeout: 20_000 }, () => {
      let produced = 0
      return running(host, () => ({
        status: 200, headers: { 'content-type': 'application/octet-stream' },
        body: (async function * () { for (let i = 0; i < 2000; i++) { produced++; yield CHUNK } })()
      }), async (port) => {
        const response = await open(port, 'GET', '/api/x')
        response.pause()
        let before = -1
        while (before !== produced) {
          before = produced
          await new Promise((resolve) => setTimeout(resolve, 150))
        }
        // 125 MiB in all; the kernel holds a few of them on loopback.
        assert.ok(produced < 400, `${produced} chunks were made for nobody`)
        let size = 0
        for await (const chunk of response) size += (chunk as Buffer).length
        assert.equal(size, 2000 * CHUNK.length)
      })
    })

    test('respond with their own error when a source fails before its first chunk', () => {
      const seen: unknown[] = []
      return running(host, {
        onError: (error) => seen.push(error),
        handler: ({ path }) => ({
          status: 200, headers: { 'content-type': 'text/plain', 'content-length': '5' },
          body: (async function * () {
            if (path.endsWith('mine')) throw httpError('conflict')
            if (path.endsWith('other')) throw new Error('the password is 123')
            yield 'never'
          })()
        })
      }, async (port) => {
        const other = await ask(port, 'GET', '/api/other')
        assert.equal(other.status, 500)
        assert.equal(JSON.parse(other.body).code, 'internal_error')
        assert.equal(other.body.includes('123'), false)
        assert.equal(Number(other.headers['content-length']), other.body.length)
        assert.match(String(seen[0]), /password/)
        assert.equal((await ask(port, 'GET', '/api/mine')).status, 409)
        assert.equal(seen.length, 1)
      })
    })

    test('cut the connection when a source fails later', () => {
      const seen: unknown[] = []
      return running(
        host,
        {
          onError: (error) => seen.push(error),
          handler: () => ({
            status: 200,
            headers: { 'content-type': 'text/plain' },
            body: (async function* () {
              yield 'first'
              await new Promise((resolve) => setTimeout(resolve, 20))
              throw new Error('the password is 123')
            })(),
          }),
        },
        async (port) => {
          const response = await open(port, 'GET', '/api/x')
          let text = ''
          await assert.rejects(async () => {
            for await (const chunk of response) text += String(chunk)
          }, /aborted|ECONNRESET/)
          assert.equal(text, 'first')
          assert.match(String(seen[0]), /password/)
          assert.equal(seen.length, 1)
        },
      )
    })

    test('have their error masked when they throw, reject, or return a header that cannot be sent', () => {
      const seen: unknown[] = []
      return running(host, {
        onError: (error) => seen.push(error),
        handler: ({ path }) => {
          if (path.endsWith('throw')) throw new Error('secret')
          if (path.endsWith('reject')) return Promise.reject(new Error('secret'))
          return { status: 200, headers: { 'x-bad': 'secret\nline' }, body: 'x' }
        }
      }, async (port) => {
        for (const path of ['throw', 'reject', 'header']) {
          const { status, body } = await ask(port, 'GET', `/api/${path}`)
          assert.equal(status, 500, path)
          assert.deepEqual(Object.keys(JSON.parse(body)).sort(), ['code', 'error'])
          assert.equal(body.includes('secret'), false)
        }
        assert.equal(seen.length, 3)
      })
    })

    test('respond with 400 to a broken body, and do not report it', () => {
      const seen: unknown[] = []
      const caught: unknown[] = []
      const { promise: asked, resolve: arrived } = gate()
      return running(host, {
        onError: (error) => seen.push(error),
        handler: async (request) => {
          arrived()
          await request.body.bytes(1e6).catch((error: unknown) => {
            caught.push(error)
            throw error
          })
          return json(200, {})
        }
      }, async (port) => {
        const wire = new Wire(
          port,
          'POST /api/x HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"a"',
        )
        await asked
        wire.socket.destroy()
        await eventually(() => caught.length > 0, 'the body fails')
        assert.equal((caught[0] as { code?: string }).code, 'incomplete_body')
        await new Promise(setImmediate)
        assert.deepEqual(seen, [])
      })
    })

    test('may respond without reading a large body, and the response arrives', { timeout: 15_000 }, () =>
      running(host, async (request) => {
        if (await request.body.bytes(1_000_000) === undefined) throw httpError('body_too_large')
        return json(200, {})
      }, async (port) => {
        const body = Buffer.alloc(8_000_000, 'z')
        for (const headers of [{}, { 'transfer-encoding': 'chunked' }]) {
          const { status, body: text } = await ask(port, 'POST', '/api/x', { body, headers })
          assert.deepEqual([status, JSON.parse(text).code], [413, 'body_too_large'])
        }
      }))

    if (host.middleware) {
      test('keep the headers that the application has set, and join list headers', () =>
        running(host, ({ path }) => ({
          status: 200,
          headers: { 'vary': 'Accept, origin', 'set-cookie': 'ours=2', 'content-type': 'text/plain' },
          body: path.endsWith('stream') ? (async function * () { yield 'x' })() : 'x'
        }), async (port) => {
          for (const path of ['/api/text', '/api/stream']) {
            const { headers } = await ask(port, 'GET', path)
            assert.equal(headers['x-host'], 'here')
            assert.equal(headers.vary, 'Origin, Accept')
            assert.deepEqual(headers['set-cookie'], ['host=1', 'ours=2'])
            assert.equal(headers['content-type'], 'text/plain')
          }
        }))
    } else {
      test('respond with 404 not_found if neither they nor the application respond', () =>
        running(host, () => undefined, async (port) => {
          const { status, headers, body } = await ask(port, 'GET', '/api/x')
          assert.deepEqual(
            [status, headers['content-type'], JSON.parse(body).code],
            [404, 'application/json', 'not_found'],
          )
          assert.equal(typeof JSON.parse(body).error, 'string')
        }))
    }
  })
}

function gate(): { promise: Promise<void>, resolve: () => void } {
  let resolve = (): void => {}
  const promise = new Promise<void>((done) => { resolve = done })
  return { promise, resolve }
}

async function nextChunk(response: IncomingMessage): Promise<[unknown]> {
  return await once(response, 'data') as [unknown]
}
