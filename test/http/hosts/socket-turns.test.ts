// All pairs and triples of events that one packet can bring: the responses leave in the order of the requests.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { describe, test } from 'node:test'
import { attach, toNode } from '../../../adapters/node/index.js'
import { parseTokens } from '../../../examples/reference-server/auth.js'
import { startServer } from '../../../examples/reference-server/server.js'
import type { Handler } from '../../../src/index.js'
import { listen } from '../../kit/listen.js'
import { deferred } from '../../kit/wait.js'
import { TOKENS } from '../kit/reference.js'
import { eventually, Wire } from '../kit/wire.js'

const HOST = 'Host: a\r\n'

/** What a client may send, by name. */
const EVENTS: Readonly<Record<string, string>> = {
  late: `GET /console/x HTTP/1.1\r\n${HOST}\r\n`,
  stream: `GET /stream HTTP/1.1\r\n${HOST}\r\n`,
  theirs: `GET /theirs HTTP/1.1\r\n${HOST}\r\n`,
  body: `POST /body HTTP/1.1\r\n${HOST}Content-Length: 5\r\n\r\n12345`,
  continues: `POST /body HTTP/1.1\r\n${HOST}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n12345`,
  expects: `GET /console/x HTTP/1.1\r\n${HOST}Expect: tea\r\n\r\n`,
  target: `GET http://a:b/console/x HTTP/1.1\r\n${HOST}\r\n`,
  noHost: 'GET /console/x HTTP/1.1\r\n\r\n',
  closes: `GET /console/x HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`,
  connect: `CONNECT b:443 HTTP/1.1\r\n${HOST}\r\n`,
  upgrade: `GET /console/x HTTP/1.1\r\n${HOST}Connection: close, Upgrade\r\nUpgrade: x\r\n\r\n`,
  method: `BREW /console/x HTTP/1.1\r\n${HOST}\r\n`,
  garbage: '\x16\x03 / HTTP/1.1\r\n\r\n',
}
const names = Object.keys(EVENTS)
const PAIRS = names.flatMap((a) => names.map((b) => [a, b]))
const KINDS = ['late', 'stream', 'theirs', 'continues', 'noHost', 'connect', 'upgrade', 'method']
const TRIPLES = KINDS.flatMap((a) => KINDS.flatMap((b) => KINDS.map((c) => [a, b, c])))

const handler: Handler = async ({ path, body }) => {
  await new Promise((resolve) => { setImmediate(resolve) })
  if (path === '/theirs') return undefined
  if (path === '/body') return { status: 201, headers: {}, body: await body.bytes(10) ?? '' }
  if (path !== '/stream') return { status: 200, headers: {}, body: path }
  return {
    status: 203,
    headers: {},
    body: (async function* () {
      yield 'a'
      await new Promise(setImmediate)
      yield 'b'
    })(),
  }
}

function theirs(): Server {
  return createServer((req, res) => { setImmediate(() => { res.writeHead(202).end(req.url) }) })
}

/** Sends one packet. Resolves with the status codes when the connection ends. */
async function statuses(port: number, sequence: readonly string[]): Promise<string[]> {
  const last = `GET /last HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`
  const text = await new Wire(port, sequence.map((name) => EVENTS[name]).join('') + last).end()
  return [...text.matchAll(/HTTP\/1\.1 (?!100)(\d+) /g)].map(([, status = '']) => status)
}

async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values()
  await Promise.all(Array.from({ length: 20 }, async () => { for (const item of left) await work(item) }))
}

/** Compares all sequences with what each event gets alone. */
async function compare(port: number, sequences = PAIRS): Promise<void> {
  const alone = new Map<string, { readonly status: string, readonly ends: boolean }>()
  for (const name of names) {
    const [status = 'none', ...more] = await statuses(port, [name])
    alone.set(name, { status, ends: more.length === 0 })
  }
  const wrong: string[] = []
  await inParallel(sequences, async (sequence) => {
    const expected: string[] = []
    for (const name of sequence) {
      const { status, ends } = alone.get(name) as { status: string, ends: boolean }
      expected.push(status)
      if (ends) break
    }
    const got = await statuses(port, sequence)
    if (got.slice(0, expected.length).join() !== expected.join())
      wrong.push(`${sequence.join()}: ${got.join()}, not ${expected.join()}`)
  })
  assert.deepEqual(wrong, [])
}

async function serving(server: Server, use: (port: number) => Promise<void>): Promise<void> {
  const running = await listen(server)
  try {
    await use(running.port)
  } finally {
    await running.close()
  }
}

describe('all pairs and triples of events in one packet get their responses in order', () => {
  test('from attach', async () => {
    const server = theirs()
    attach(server, handler)
    await serving(server, (port) => compare(port, [...PAIRS, ...TRIPLES]))
  })

  test('from attach with listeners of the application for connect and upgrade, and one that comes later', async () => {
    const server = theirs()
    server.on('upgrade', (_req, socket: Duplex) => socket.end('HTTP/1.1 101 Switching Protocols\r\n\r\n'))
    attach(server, handler)
    server.removeAllListeners('connect')
    server.on('connect', (_req, socket: Duplex) => socket.end('HTTP/1.1 204 Tunnel\r\n\r\n'))
    await serving(server, (port) => compare(port))
  })
})

test('toNode on a plain server works with every pair of events in one packet, and keeps the order of responses', async () => {
  const paths: string[] = []
  const handle = toNode(handler)
  const server = createServer((req, res) => {
    paths.push(String(req.url))
    handle(req, res)
  })
  await serving(server, async (port) => {
    const order = ['late', 'stream', 'body', 'target', 'noHost', 'closes', 'connect', 'upgrade']
    await inParallel(
      order.flatMap((a) => order.flatMap((b) => order.map((c) => [a, b, c]))),
      async (sequence) => {
        await statuses(port, sequence)
      },
    )
    const whole = ['late', 'stream', 'body', 'target', 'expects', 'continues']
    for (const a of whole) {
      for (const b of whole) {
        const [first = ''] = await statuses(port, [a])
        const [second = ''] = await statuses(port, [b])
        assert.deepEqual((await statuses(port, [a, b])).slice(0, 2), [first, second], `${a} ${b}`)
      }
    }
  })
  assert.ok(paths.length > 0)
})

describe('a CONNECT behind a response that waits for its client', () => {
  const block = Buffer.alloc(256 * 1024, 'x')
  const big: Handler = () => ({
    status: 200,
    headers: {},
    body: (async function* () {
      for (let n = 0; n < 64; n++) yield block
    })(),
  })

  test('gets its response when the client has read the first response', async () => {
    const server = createServer()
    attach(server, big)
    await serving(server, async (port) => {
      const wire = new Wire(port)
      wire.socket.pause()
      const [accepted] = await once(server, 'connection') as [Socket]
      wire.socket.write(`GET / HTTP/1.1\r\n${HOST}\r\n${EVENTS['connect']}`)
      await eventually(() => accepted.writableNeedDrain, 'the client is slow')
      wire.socket.resume()
      const text = await wire.end()
      assert.match(text.slice(-400), /\r\n0\r\n\r\nHTTP\/1\.1 501 /)
      assert.ok(text.length > 64 * block.length)
    })
  })

  test('stops the response if the client resets or ends the connection', async () => {
    for (const leave of ['resetAndDestroy', 'end'] as const) {
      const { promise: aborted, resolve } = deferred()
      const { promise: began, resolve: begin } = deferred()
      const server = createServer()
      attach(server, ({ signal }) => new Promise(() => {
        signal.addEventListener('abort', () => { resolve() })
        begin()
      }))
      await serving(server, async (port) => {
        const wire = new Wire(port, `GET / HTTP/1.1\r\n${HOST}\r\n${EVENTS['connect']}`)
        await began
        wire.socket[leave]()
        await aborted
      })
    }
  })
})

test('a request without Host gets an error body like any other error', async () => {
  const server = theirs()
  const detach = attach(server, handler)
  await serving(server, async (port) => {
    for (const rest of ['', 'Expect: 100-continue\r\nContent-Length: 5\r\n', 'Expect: tea\r\n']) {
      const wire = new Wire(port, `POST / HTTP/1.1\r\n${rest}\r\n`)
      await wire.until(/^HTTP\/1\.1 400 [^]*"code":"bad_request"\}$/)
      wire.socket.destroy()
    }
    detach()
    assert.match(await new Wire(port, EVENTS['noHost']).end(), /^HTTP\/1\.1 400 [^]*\r\n\r\n$/)
  })
})

test('a request without Host gets a 400 from a server that is attached twice', async () => {
  const server = createServer()
  attach(server, handler)
  attach(server, handler)
  await serving(server, async (port) => {
    const wire = new Wire(port, EVENTS['noHost'])
    await wire.until(/^HTTP\/1\.1 400 [^]*"code":"bad_request"\}$/)
    wire.socket.destroy()
  })
})

for (const event of ['connect', 'method'] as const) {
  test(`${event}: a connection is closed if its listener is removed before its turn`, async () => {
    const started = deferred()
    const finish = deferred()
    const server = createServer()
    const detach = attach(server, async () => {
      started.resolve()
      await finish.promise
      return { status: 200, headers: {}, body: 'late' }
    })
    await serving(server, async (port) => {
      const wire = new Wire(port, `${EVENTS['late']}${EVENTS[event]}`)
      await started.promise
      detach()
      finish.resolve()
      assert.match(await wire.end(), /^HTTP\/1\.1 200 [^]*late$/)
    })
  })
}

test('a server with requireHostHeader: false still requires no Host', async () => {
  const server = createServer({ requireHostHeader: false })
  attach(server, handler)
  await serving(server, async (port) => {
    const wire = new Wire(port, EVENTS['noHost'])
    await wire.until(/^HTTP\/1\.1 200 [^]*\/console\/x$/)
    wire.socket.destroy()
  })
})

// Last, because each response says Connection: close once all tasks of a process are closed.
test('pairs of events in one packet get their responses in order from the reference server, with tunnels and without', async () => {
  for (const connectAllow of [undefined, 'self', ['b:1']] as const) {
    const server = await startServer({
      host: '127.0.0.1',
      port: 0,
      tokens: parseTokens(TOKENS),
      rateLimit: 1e9,
      ...(connectAllow && { connectAllow }),
    })
    try {
      await compare(Number(new URL(server.url).port))
    } finally {
      await server.stop()
    }
  }
})
