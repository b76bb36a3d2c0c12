import assert from 'node:assert/strict'
import { ServerResponse } from 'node:http'
import { describe, test } from 'node:test'
import { toNode, type NodeRaw } from '../../../adapters/node/index.js'
import type { Handler, HttpResponse } from '../../../src/http/exchange.js'
import { serving } from '../kit/hosts.js'
import { ask, eventually, open, Wire } from '../kit/wire.js'

const text = (body: HttpResponse['body'], headers: HttpResponse['headers'] = {}): HttpResponse =>
  ({ status: 200, headers: { 'content-type': 'text/plain', ...headers }, body: body as string })

async function * pieces(...values: string[]): AsyncGenerator<string> {
  for (const value of values) {
    yield value
    await new Promise(setImmediate)
  }
}

describe('toNode: whole responses', () => {
  test('the length is counted in bytes, and a wrong length is corrected', () =>
    serving(
      toNode(({ path }) =>
        path === '/text' ? text('größer', { 'content-length': '3' }) : text(new Uint8Array([65, 66])),
      ),
      async (port) => {
        const first = await ask(port, 'GET', '/text')
        assert.deepEqual([first.headers['content-length'], first.body], ['8', 'größer'])
        const second = await ask(port, 'GET', '/bytes')
        assert.deepEqual([second.headers['content-length'], second.body], ['2', 'AB'])
      },
    ))

  test('a response without a body has the length 0, but a response to HEAD has no invented length', () =>
    serving(toNode(() => ({ status: 200, headers: {} })), async (port) => {
      assert.equal((await ask(port, 'GET', '/')).headers['content-length'], '0')
      assert.equal((await ask(port, 'HEAD', '/')).headers['content-length'], undefined)
    }))

  test('HEAD keeps the length that the handler has set for a body', () =>
    serving(toNode(() => ({ status: 200, headers: { 'content-length': '1234' } })), async (port) => {
      assert.equal((await ask(port, 'HEAD', '/')).headers['content-length'], '1234')
    }))

  test('headers that a handler shares between responses are not changed', () => {
    const shared = Object.freeze({ 'content-type': 'text/plain' })
    return serving(toNode(({ path }) => ({ status: 200, headers: shared, body: path })), async (port) => {
      assert.equal((await ask(port, 'GET', '/a')).headers['content-length'], '2')
      assert.equal((await ask(port, 'GET', '/abc')).headers['content-length'], '4')
    })
  })

  test('middleware that patches writeHead and knows no flat lists sees all headers', () => {
    const seen: unknown[] = []
    const handle = toNode(() => text('x', { vary: 'Accept' }))
    return serving((req, res) => {
      res.writeHead = (status: number, headers?: unknown) => {
        seen.push(Array.isArray(headers), headers)
        return ServerResponse.prototype.writeHead.call(res, status, headers as Record<string, string>) as typeof res
      }
      handle(req, res)
    }, async (port) => {
      await ask(port, 'GET', '/')
      assert.deepEqual(seen, [false, { 'content-type': 'text/plain', 'vary': 'Accept', 'content-length': 1 }])
    })
  })

  for (const name of ['end', 'write'] as const) {
    test(`an application that has replaced ${name} gets the text in one call of end`, () => {
      const calls: unknown[][] = []
      const handle = toNode(() => text('größer'))
      return serving((req, res) => {
        const end = res.end.bind(res)
        // What instrumentation does: it looks and hands on.
        if (name === 'write') res.write = () => { throw new Error('not asked for') }
        res.end = ((...all: Parameters<typeof end>) => { calls.push(all); return end(...all) }) as typeof res.end
        handle(req, res)
      }, async (port) => {
        assert.equal((await ask(port, 'GET', '/')).body, 'größer')
        assert.deepEqual(calls, [['größer', 'utf8']])
      })
    })
  }

  test('a short response is sent at once, in one piece', () => {
    const sent: unknown[] = []
    return serving((req, res) => {
      const { socket } = req
      const writev = socket._writev?.bind(socket)
      socket._writev = (chunks, done) => { sent.push(chunks.length); writev?.(chunks, done) }
      toNode(() => text('short'))(req, res)
      assert.ok(res.writableEnded)
    }, async (port) => {
      assert.equal((await ask(port, 'GET', '/')).body, 'short')
      assert.deepEqual(sent, [], 'no list of pieces')
    })
  })

  test("a length that the application has set is replaced by the length of the handler's response", () => {
    const handle = toNode(({ path }) => path === '/stream' ? text(pieces('a', 'b')) : text('abc'))
    return serving((req, res) => {
      res.setHeader('Content-Length', 1)
      handle(req, res)
    }, async (port) => {
      assert.equal((await ask(port, 'GET', '/')).body, 'abc')
      assert.equal((await ask(port, 'GET', '/stream')).body, 'ab')
    })
  })

  test('a response is dropped and its source is closed if the application has responded before', () => {
    let closed = false
    const source = {
      [Symbol.asyncIterator]: () => ({
        next: async () => ({ done: true as const, value: undefined }),
        return: async () => {
          closed = true
          return { done: true as const, value: undefined }
        },
      }),
    }
    const errors: unknown[] = []
    const handle = toNode(async (request) => {
      (request.raw as NodeRaw).res.end('host')
      await new Promise(setImmediate)
      return text(source)
    }, { onError: (error) => errors.push(error) })
    return serving(handle, async (port) => {
      assert.equal((await ask(port, 'GET', '/')).body, 'host')
      await eventually(() => closed, 'closed')
      assert.deepEqual(errors, [])
    })
  })

  test('the result of a handler that has responded by itself is ignored', () => {
    const handle = toNode((request) => {
      (request.raw as NodeRaw).res.end('mine')
      return undefined
    })
    return serving(handle, async (port) => {
      assert.equal((await ask(port, 'GET', '/')).body, 'mine')
    })
  })

  test('pipelined requests get their responses in order', () => {
    const handle = toNode(async ({ path }) => {
      if (path === '/1') await new Promise((resolve) => setTimeout(resolve, 30))
      return path === '/2' ? text(pieces('two', '.')) : text(path)
    })
    return serving(handle, async (port) => {
      const wire = new Wire(port, ['/1', '/2', '/3'].map((path) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`).join(''))
      await wire.until(/\/3$/)
      assert.match(wire.text, /\/1[^]*two[^]*\/3$/)
      wire.socket.destroy()
    })
  })
})

describe('toNode: streamed responses', () => {
  test('a Node stream that nobody reads is destroyed', async () => {
    const { Readable } = await import('node:stream')
    let destroyed = false
    const handle = toNode(() =>
      text(
        new Readable({
          read() {},
          destroy(_error, done) {
            destroyed = true
            done(null)
          },
        }),
      ),
    )
    await serving(handle, async (port) => {
      await ask(port, 'HEAD', '/')
      await eventually(() => destroyed, 'destroyed')
    })
  })

  test('a source that waits is closed when the client leaves', () => {
    let closed = false
    let wait = (): void => {}
    const waiting = new Promise<void>((resolve) => { wait = resolve })
    const source = {
      [Symbol.asyncIterator]: () => ({
        next: () => { wait(); return new Promise<IteratorResult<string>>(() => {}) },
        return: async () => { closed = true; return { done: true as const, value: undefined } }
      })
    }
    return serving(toNode(() => text(source)), async (port) => {
      const wire = new Wire(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      await waiting
      wire.socket.destroy()
      await eventually(() => closed, 'closed')
    })
  })

  test('a source that waits for free space is closed when the client leaves', () => {
    let closed = false
    const errors: unknown[] = []
    const handle = toNode(() => text((async function * () {
      try {
        for (;;) yield 'x'.repeat(100_000)
      } finally { closed = true }
    })()), { onError: (error) => errors.push(error) })
    return serving(handle, async (port) => {
      const response = await open(port, 'GET', '/')
      response.pause()
      await new Promise((resolve) => setTimeout(resolve, 100))
      response.destroy()
      await eventually(() => closed, 'closed')
      assert.deepEqual(errors, [])
    })
  })

  test('a source that fails because the client has left is not reported', () => {
    const errors: unknown[] = []
    let failed = false
    const handle: Handler = (request) => text((async function * () {
      yield 'x'
      await new Promise((resolve) => request.signal.addEventListener('abort', resolve))
      failed = true
      throw new Error('aborted')
    })())
    return serving(toNode(handle, { onError: (error) => errors.push(error) }), async (port) => {
      const wire = new Wire(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      await wire.until(/x\r\n/)
      wire.socket.destroy()
      await eventually(() => failed, 'failed')
      await new Promise(setImmediate)
      assert.deepEqual(errors, [])
    })
  })

  for (const [what, body, length] of [['shorter', ['abc'], '5'], ['longer', ['abc', 'defg'], '5']] as const) {
    test(`a source that is ${what} than its Content-Length cuts the connection`, () => {
      const errors: unknown[] = []
      const handle = toNode(() => text(pieces(...body), { 'content-length': length }), {
        onError: (error) => errors.push(error),
      })
      return serving(handle, async (port) => {
        const all = await new Wire(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n').end()
        assert.match(all, /\r\n\r\nabc$/)
        assert.match(String(errors[0]), /Content-Length/)
      })
    })
  }

  test('a source of the promised length is sent without chunks, and the connection stays in use', () =>
    serving(toNode(() => text(pieces('abc', 'de'), { 'content-length': '5' })), async (port) => {
      const wire = new Wire(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      await wire.until(/\r\n\r\nabcde$/)
      wire.text = ''
      wire.socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      await wire.until(/\r\n\r\nabcde$/)
      wire.socket.destroy()
    }))

  test('an empty source is an empty response', () =>
    serving(toNode(() => text(pieces())), async (port) => {
      const answer = await ask(port, 'GET', '/')
      assert.deepEqual([answer.status, answer.body], [200, ''])
    }))

  test('a stream that breaks under HTTP/1.0 ends with a reset, because a plain end would look complete', () => {
    const handle = toNode(({ path }) => text((async function * () {
      yield 'abc'
      await new Promise((resolve) => setTimeout(resolve, 20))
      if (path === '/bad') throw new Error('broken')
    })()), { onError: () => {} })
    return serving(handle, async (port) => {
      for (const [path, reset] of [['/good', false], ['/bad', true]] as const) {
        const wire = new Wire(port, `GET ${path} HTTP/1.0\r\n\r\n`)
        let error: NodeJS.ErrnoException | undefined
        wire.socket.on('error', (reason) => { error = reason })
        assert.match(await wire.end(), /\r\n\r\nabc$/)
        assert.equal(error?.code, reset ? 'ECONNRESET' : undefined, path)
      }
    })
  })

  test('each event is flushed through compressing middleware', () => {
    let flushed = 0
    const handle = toNode(({ path }) =>
      text(pieces('data: 1\n\n', 'data: 2\n\n'), path === '/events' ? { 'content-type': 'text/event-stream' } : {}),
    )
    return serving((req, res) => {
      Object.assign(res, { flush: () => { flushed++ } })
      handle(req, res)
    }, async (port) => {
      await ask(port, 'GET', '/events')
      assert.equal(flushed, 3)
      await ask(port, 'GET', '/plain')
      assert.equal(flushed, 3)
    })
  })

  test('no listener stays behind on a reused connection', () => {
    let listeners = -1
    const handle = toNode((request) => {
      const { req } = request.raw as NodeRaw
      listeners = req.socket.listenerCount('close')
      void request.signal
      return text(pieces('x'))
    })
    return serving(handle, async (port) => {
      // Two at once: the second waits behind the first, and is watched on the connection.
      const two = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(2)
      const wire = new Wire(port, two)
      await wire.until(/\r\n0\r\n\r\n[^]*\r\n0\r\n\r\n$/)
      const first = listeners
      for (let i = 0; i < 20; i++) {
        wire.text = ''
        wire.socket.write(two)
        await wire.until(/\r\n0\r\n\r\n[^]*\r\n0\r\n\r\n$/)
      }
      assert.equal(listeners, first)
      wire.socket.destroy()
    })
  })
})
