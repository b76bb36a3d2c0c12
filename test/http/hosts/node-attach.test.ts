import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Socket } from 'node:net'
import { describe, test } from 'node:test'
import { attach } from '../../../adapters/node/index.js'
import type { AttachOptions } from '../../../adapters/node/attach.js'
import type { NodeServer } from '../../../adapters/node/limit-sending.js'
import { httpError } from '../../../src/http/errors.js'
import type { Handler } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import { listen } from '../../kit/listen.js'
import { deferred } from '../../kit/wait.js'
import { ask, eventually, Wire } from '../kit/wire.js'

const hello: Handler = () => json(200, { hello: true })

async function serving(
  handler: Handler,
  options: AttachOptions,
  use: (port: number, server: NodeServer) => Promise<void>,
  server = createServer(),
): Promise<void> {
  attach(server, handler, options)
  const running = await listen(server)
  try {
    await use(running.port, server)
  } finally {
    await running.close()
  }
}

function parse(text: string): { status: number, head: string, body: { error?: unknown, code?: unknown } } {
  const [head = '', body = ''] = text.split('\r\n\r\n')
  assert.match(head, /^content-length: \d+$/im)
  assert.equal(Number(/^content-length: (\d+)$/im.exec(head)?.[1]), Buffer.byteLength(body))
  return { status: Number(head.split(' ')[1]), head, body: JSON.parse(body) }
}

const refused: [string, string, number, string][] = [
  ['a method that the parser does not know', 'BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n', 501, 'not_implemented'],
  ['a method in lower case', 'get / HTTP/1.1\r\nHost: a\r\n\r\n', 501, 'not_implemented'],
  ['bytes that are no method', '\x16\x03\x01\x02 / HTTP/1.1\r\n\r\n', 400, 'bad_request'],
  ['a version that is none', 'GET / HTTP/x\r\n\r\n', 400, 'bad_request'],
  [
    'a head that is too large',
    `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(40_000)}\r\n\r\n`,
    431,
    'header_fields_too_large',
  ],
  ['two lengths', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n', 400, 'bad_request'],
]

describe('attach: requests that Node rejects', () => {
  for (const [what, text, status, code] of refused) {
    test(`${status === 501 ? 'SPEC 7: ' : ''}${what} gets ${status} with the error body`, () =>
      serving(hello, {}, async (port) => {
        const answer = parse(await new Wire(port, text).end())
        assert.deepEqual([answer.status, answer.body.code, typeof answer.body.error], [status, code, 'string'])
        assert.match(answer.head, /^connection: close$/im)
        assert.match(answer.head, /^content-type: application\/json$/im)
        assert.match(answer.head, /^date: \w{3}, /im)
      }))
  }

  test('a request that is too slow gets 408', () =>
    serving(hello, {}, async (port) => {
      const answer = parse(await new Wire(port, 'GET / HTTP/1.1\r\nHos').end())
      assert.deepEqual([answer.status, answer.body.code], [408, 'request_timeout'])
    }, createServer({ headersTimeout: 50, requestTimeout: 100, connectionsCheckingInterval: 20 })))

  test('an unknown method after good requests on the same connection gets 501', () =>
    serving(hello, {}, async (port) => {
      const wire = new Wire(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      await wire.until(/hello/)
      wire.text = ''
      wire.socket.write('BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n')
      assert.equal(parse(await wire.end()).status, 501)
    }))

  for (const [what, bad, status] of [['an unknown method', 'BREW /', 501], ['garbage', '\x16\x03 /', 400]] as const) {
    test(`${what} in the same packet as a good request gets ${status}, after its response`, () =>
      serving(hello, {}, async (port) => {
        const text = await new Wire(port, `GET / HTTP/1.1\r\nHost: a\r\n\r\n${bad} HTTP/1.1\r\nHost: a\r\n\r\n`).end()
        const [, good, refusal] = /^(HTTP\/1.1 200 [^]*?true\})(HTTP[^]*)$/.exec(text) ?? []
        assert.ok(good !== undefined && refusal !== undefined, text)
        assert.equal(parse(refusal).status, status)
      }))
  }

  test('nothing is written into a response that has begun', () => {
    const { promise: more, resolve: proceed } = deferred()
    const handler: Handler = () => ({
      status: 200, headers: { 'content-type': 'text/plain' },
      body: (async function * () { yield 'begun'; await more; yield 'over' })()
    })
    return serving(handler, {}, async (port, server) => {
      const [good, bad] = ['GET / HTTP/1.1\r\nHost: a\r\n\r\n', 'BREW /pot HTTP/1.1\r\n\r\n']
      const wire = new Wire(port)
      const [accepted] = await once(server, 'connection') as [Socket]
      wire.socket.write(good)
      await wire.until(/begun/)
      wire.socket.write(bad)
      await eventually(() => accepted.bytesRead === good.length + bad.length, 'the server has read it')
      proceed()
      assert.match(await wire.end(), /^HTTP[^]*\r\n5\r\nbegun\r\n4\r\nover\r\n0\r\n\r\nHTTP\/1\.1 501 /)
    })
  })

  test('a client that resets the connection does not affect other clients', () =>
    serving(hello, {}, async (port) => {
      const wire = new Wire(port, 'GET / HTTP/1.1\r\nHo')
      await new Promise((resolve) => wire.socket.once('connect', resolve))
      wire.socket.resetAndDestroy()
      assert.equal((await ask(port, 'GET', '/')).status, 200)
    }))

  test("the application's own clientError listener stays in charge", () => {
    const server = createServer()
    server.on('clientError', (_error, socket) => socket.end('HTTP/1.1 418 Mine\r\n\r\n'))
    return serving(hello, {}, async (port) => {
      assert.match(await new Wire(port, 'BREW / HTTP/1.1\r\n\r\n').end(), /^HTTP\/1.1 418 Mine\r\n\r\n$/)
    }, server)
  })
})

describe('attach: unknown expectations', () => {
  test('an unknown expectation gets 417 with the error body, and the connection stays open', () =>
    serving(hello, {}, async (port) => {
      const wire = new Wire(port, 'GET / HTTP/1.1\r\nHost: a\r\nExpect: a-cup-of-tea\r\n\r\n')
      await wire.until(/\}$/)
      const answer = parse(wire.text)
      assert.deepEqual([answer.status, answer.body.code], [417, 'expectation_failed'])
      wire.text = ''
      wire.socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      await wire.until(/hello/)
      wire.socket.destroy()
    }))

  test("the application's own checkExpectation listener stays in charge", () => {
    const server = createServer()
    server.on('checkExpectation', (_req, res) => res.writeHead(418, { connection: 'close' }).end())
    return serving(hello, {}, async (port) => {
      assert.match(await new Wire(port, 'GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n').end(), /^HTTP\/1.1 418 /)
    }, server)
  })
})

describe('attach: CONNECT', () => {
  const ask501 = 'CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n'

  test('SPEC 7.501: CONNECT without a tunnel gets 501 with the error body', () =>
    serving(hello, {}, async (port) => {
      const answer = parse(await new Wire(port, ask501).end())
      assert.deepEqual([answer.status, answer.body.code], [501, 'not_implemented'])
    }))

  test('a client that accepts problems gets the 501 as a problem', () =>
    serving(hello, {}, async (port) => {
      const answer = parse(
        await new Wire(port, ask501.replace('\r\n\r\n', '\r\nAccept: application/problem+json\r\n\r\n')).end(),
      )
      assert.match(answer.head, /application\/problem\+json/)
    }))

  test("the server's own listener for connect gets the socket", () => {
    const server = createServer().on('connect', (req, socket, head) => {
      socket.write(`HTTP/1.1 200 Connection Established\r\n\r\n${req.url}:${String(head)}`)
      socket.on('data', (chunk: Buffer) => socket.end(chunk))
    })
    return serving(hello, {}, async (port) => {
      const wire = new Wire(port, `${ask501}early`)
      await wire.until(/org:443:early/)
      wire.socket.write('ping')
      assert.match(await wire.end(), /ping$/)
    }, server)
  })
})

describe('attach: Expect: 100-continue', () => {
  const head = 'POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n'

  test('100 is sent once the handler reads the body, and only once', () =>
    serving(async (request) => {
      const bytes = await request.body.bytes(10)
      return json(200, { got: String(Buffer.from(bytes ?? [])) })
    }, {}, async (port) => {
      const wire = new Wire(port, head)
      await wire.until(/^HTTP\/1.1 100 Continue\r\n\r\n/)
      wire.socket.write('12345')
      await wire.until(/"got":"12345"/)
      assert.equal(wire.text.match(/100 Continue/g)?.length, 1)
      wire.socket.destroy()
    }))

  test('a rejection is sent in place of 100, and closes the connection', () =>
    serving(() => { throw httpError('unauthorized') }, {}, async (port) => {
      const wire = new Wire(port, head)
      const answer = parse(await wire.end())
      assert.deepEqual([answer.status, answer.body.code], [401, 'unauthorized'])
      assert.match(answer.head, /^connection: close$/im)
    }))

  test('a body whose declared length is too large is never requested', () =>
    serving(async (request) => {
      if (await request.body.bytes(4) === undefined) throw httpError('body_too_large')
      return json(200, {})
    }, {}, async (port) => {
      assert.equal(parse(await new Wire(port, head).end()).status, 413)
    }))

  test("a request that the handler declines goes to the application's listener, which gets its body", () => {
    const server = createServer((req, res) => {
      req.on('data', (chunk: Buffer) => res.end(chunk))
    })
    return serving(() => undefined, {}, async (port) => {
      const wire = new Wire(port, head)
      await wire.until(/100 Continue/)
      wire.socket.write('12345')
      await wire.until(/12345/)
      wire.socket.destroy()
    }, server)
  })
})

describe('attach: listeners of the application', () => {
  test('a request that the handler declines goes to the listeners that were there before', () =>
    serving((request) => request.path === '/ours' ? json(200, {}) : undefined, {}, async (port) => {
      assert.equal((await ask(port, 'GET', '/ours')).status, 200)
      assert.equal((await ask(port, 'GET', '/theirs')).body, 'theirs')
    }, createServer((_req, res) => { res.end('theirs') })))

  test('a declined request without such listeners gets a 404', () =>
    serving(() => undefined, {}, async (port) => {
      const answer = await ask(port, 'GET', '/')
      assert.deepEqual([answer.status, JSON.parse(answer.body).code], [404, 'not_found'])
    }))

  test('detach restores the server', async () => {
    const server = createServer((_req, res) => { res.end('theirs') })
    const events = ['request', 'checkContinue', 'connect', 'clientError', 'upgrade']
    const before = events.map((event) => server.rawListeners(event))
    const detach = attach(server, hello)
    assert.notDeepEqual(events.map((event) => server.rawListeners(event)), before)
    assert.equal(server.listenerCount('upgrade'), 0)
    detach()
    assert.deepEqual(events.map((event) => server.rawListeners(event)), before)
  })

  test('an invalid handler and an invalid mount path are rejected at construction', () => {
    assert.throws(() => attach(createServer(), null as never), /[Pp]ass a handler/)
    assert.throws(() => attach(createServer(), hello, { mountPath: 'api' }), /write "\/api"/)
    for (const policies of [[1], [undefined], [[() => undefined]]]) {
      assert.throws(
        () => attach(createServer(), hello, { policies: policies as never }),
        /argument 1 is (not a function|an array)/,
      )
    }
  })
})
