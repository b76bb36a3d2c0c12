import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { after, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { attach, toMiddleware, toNode } from '../../../adapters/node/index.js'
import type { Handler, HttpRequest } from '../../../src/index.js'

const COUNT = 30
const servers: Server[] = []
after(() => { for (const server of servers) server.close() })

async function listen(
  start: (server: Server) => void,
): Promise<{ readonly client: Socket; readonly socket: () => Socket }> {
  const server = createServer()
  servers.push(server)
  let accepted: Socket | undefined
  server.on('connection', (socket: Socket) => {
    accepted = socket
  })
  start(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { client: connect((server.address() as AddressInfo).port, '127.0.0.1'), socket: () => accepted as Socket }
}

/** Sends so many requests in one packet; the client reads as they are answered. */
function send(client: Socket, method = 'GET'): void {
  client.write(Array.from({ length: COUNT }, (_, n) => `${method} /${n} HTTP/1.1\r\nHost: x\r\n\r\n`).join(''))
}

/** Reads until so many responses have come, and returns their text. */
async function answers(client: Socket, status: number): Promise<string> {
  let text = ''
  for await (const piece of client.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    text += piece as string
    if (text.split(`HTTP/1.1 ${status} `).length > COUNT && !text.endsWith('\r\n\r\n')) return text
  }
  assert.fail(text)
}

function paths(text: string): string[] {
  return [...text.matchAll(/for (\S+);/g)].map(([, path = '']) => path)
}

/** Waits until the server has noticed that its connections are closed. */
async function noConnections(): Promise<void> {
  const [server] = servers.slice(-1) as [Server]
  const count = promisify(server.getConnections.bind(server))
  while (await count() > 0) await new Promise((resolve) => { setImmediate(resolve) })
}

/** Runs `work`, and fails if the process was warned of something meanwhile. */
async function withoutWarnings(work: () => Promise<void>): Promise<void> {
  const warnings: Error[] = []
  const hear = (warning: Error): void => { warnings.push(warning) }
  process.on('warning', hear)
  try {
    await work()
    // A warning is emitted in a later turn.
    await new Promise((resolve) => { setImmediate(resolve) })
    assert.deepEqual(warnings, [])
  } finally {
    process.off('warning', hear)
  }
}

/** Counts how many run at once and in all; each takes a turn of the event loop. */
function counting(): { readonly handler: Handler, most: number, runs: number, readonly signals: AbortSignal[] } {
  let running = 0
  const seen = {
    most: 0, runs: 0, signals: [] as AbortSignal[],
    handler: async ({ signal, path }: HttpRequest) => {
      seen.signals.push(signal)
      seen.runs++
      seen.most = Math.max(seen.most, ++running)
      await new Promise((resolve) => { setImmediate(resolve) })
      running--
      return { status: 200, headers: {}, body: `for ${path};` }
    },
  }
  return seen
}

const inOrder = Array.from({ length: COUNT }, (_, n) => `/${n}`)

describe(`${COUNT} pipelined requests`, () => {
  test('run one after the other, get their responses in order, and leave no listener on the connection', async () => {
    await withoutWarnings(async () => {
      const seen = counting()
      const { client, socket } = await listen((server) => { attach(server, seen.handler) })
      const done = once(client, 'connect').then(() => answers(client, 200))
      send(client)
      assert.deepEqual(paths(await done), inOrder)
      const before = socket().listenerCount('close')
      send(client)
      await answers(client, 200)
      assert.equal(socket().listenerCount('close'), before)
      assert.ok(seen.signals.every(({ aborted }) => !aborted))
      assert.deepEqual([seen.runs, seen.most], [2 * COUNT, 1])
      client.destroy()
    })
  })

  test('run one after the other, and get a 404 each if no handler responds', async () => {
    await withoutWarnings(async () => {
      const { client } = await listen((server) => {
        attach(server, ({ signal }) => (signal.aborted ? { status: 500, headers: {} } : undefined))
      })
      send(client)
      await answers(client, 404)
      client.destroy()
    })
  })

  test('are rejected for an unknown expectation one after the other', async () => {
    const { client } = await listen((server) => { attach(server, () => undefined) })
    client.write('GET / HTTP/1.1\r\nHost: x\r\nExpect: magic\r\n\r\n'.repeat(COUNT))
    await answers(client, 417)
    client.destroy()
  })

  test('run one after the other if slow middleware of policies in front of an application delays them', async () => {
    await withoutWarnings(async () => {
      const seen = counting()
      const guard = toMiddleware(Object.assign<Parameters<typeof toMiddleware>[0], object>(
        (request, next) => next(request), { place: { name: 'waiting', wholeRun: 'waits' } }))
      const { client } = await listen((server) => {
        server.on('request', (req, res) => { guard(req, res, () => { toNode(seen.handler)(req, res) }) })
      })
      send(client)
      assert.deepEqual(paths(await answers(client, 200)), inOrder)
      assert.deepEqual([seen.runs, seen.most], [COUNT, 1])
      client.destroy()
    })
  })

  test('run in turns with responses of the application', async () => {
    const seen = counting()
    const handle = toNode(seen.handler)
    const { client } = await listen((server) => {
      server.on('request', (req, res) => {
        if (Number(req.url?.slice(1)) % 2 === 0) setImmediate(() => { res.end(`for ${String(req.url)};`) })
        else handle(req, res)
      })
    })
    send(client)
    assert.deepEqual(paths(await answers(client, 200)), inOrder)
    assert.deepEqual([seen.runs, seen.most], [COUNT / 2, 1])
    client.destroy()
  })

  test('run each in the async context of its own request', async () => {
    const context = new AsyncLocalStorage<string>()
    const handle = toNode(async () => {
      await new Promise((resolve) => { setImmediate(resolve) })
      return { status: 200, headers: {}, body: `for ${String(context.getStore())};` }
    })
    const { client } = await listen((server) => {
      server.on('request', (req, res) => { context.run(String(req.url), handle, req, res) })
    })
    send(client)
    assert.deepEqual(paths(await answers(client, 200)), inOrder)
    client.destroy()
  })

  test('run one after the other after many clients have left during slow middleware', async () => {
    const handle = toNode(() => ({ status: 200, headers: {}, body: 'for /;' }))
    const late: (() => void)[] = []
    let isSlow = true
    const { client, socket } = await listen((server) => {
      server.on('request', (req, res) => {
        if (isSlow) late.push(() => { handle(req, res) })
        else handle(req, res)
      })
    })
    await once(client, 'connect')
    // More than may wait in all.
    for (let clients = 1; clients <= 5; clients++) {
      const leaving = connect(client.remotePort as number, '127.0.0.1')
      leaving.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(2500))
      while (late.length < clients * 2500) await new Promise((resolve) => { setImmediate(resolve) })
      const closed = once(socket(), 'close')
      leaving.destroy()
      await closed
    }
    for (const handleLate of late) handleLate()
    isSlow = false
    send(client)
    assert.equal(paths(await answers(client, 200)).length, COUNT)
    client.destroy()
  })

  test('stop when their client disconnects, which aborts the running one', async () => {
    await withoutWarnings(async () => {
      let runs = 0
      const { client } = await listen((server) => {
        server.on('request', toNode(({ signal }) => new Promise((resolve) => {
          runs++
          signal.addEventListener('abort', () => { resolve(undefined) })
          if (runs === 1) client.destroy()
        })))
      })
      send(client)
      await once(client, 'close')
      await noConnections()
      assert.equal(runs, 1)
    })
  })

  test('stop when a response ends the connection', async () => {
    let runs = 0
    const { client } = await listen((server) => {
      attach(server, () => { runs++; return { status: 200, headers: { connection: 'close' } } })
    })
    send(client)
    let text = ''
    for await (const piece of client.setEncoding('utf8')) text += piece as string
    await noConnections()
    assert.equal(text.split('HTTP/1.1 200 ').length, 2)
    assert.equal(runs, 1)
  })

  test('end the connection if there are too many', async () => {
    let runs = 0
    const { client } = await listen((server) => {
      attach(server, () => { runs++; return new Promise(() => {}) })
    })
    client.on('error', () => {})
    const closed = once(client, 'close')
    client.resume()
    for (let written = 0; written < 3100; written += COUNT) send(client)
    await closed
    assert.equal(runs, 1)
  })
})
