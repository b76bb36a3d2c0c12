import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { after, describe, test } from 'node:test'
import { attach, requestOf, toMiddleware, toNode } from '../../../adapters/node/index.js'
import type { Handler } from '../../../src/index.js'

const COUNT = 30
const servers: Server[] = []
after(() => { for (const server of servers) server.close() })

async function listen(start: (server: Server) => void): Promise<{ readonly client: Socket, readonly socket: () => Socket }> {
  const server = createServer()
  servers.push(server)
  let accepted: Socket | undefined
  server.on('connection', (socket: Socket) => { accepted = socket })
  start(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { client: connect((server.address() as AddressInfo).port, '127.0.0.1'), socket: () => accepted as Socket }
}

/** Sends so many requests in one packet; the client reads as they are answered. */
function send(client: Socket, method = 'GET'): void {
  client.write(Array.from({ length: COUNT }, (_, n) => `${method} /${n} HTTP/1.1\r\nHost: x\r\n\r\n`).join(''))
}

async function answers(client: Socket, status: number): Promise<void> {
  let text = ''
  for await (const piece of client.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    text += piece as string
    if (text.split(`HTTP/1.1 ${status} `).length > COUNT) return
  }
  assert.fail(text)
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

/** Answers when all have come, and has asked each for its signal by then. */
function together(): { readonly handler: Handler, readonly signals: AbortSignal[] } {
  const signals: AbortSignal[] = []
  let open: (() => void) | undefined
  const all = new Promise<void>((resolve) => { open = resolve })
  const handler: Handler = async ({ signal }) => {
    signals.push(signal)
    if (signals.length === COUNT) open?.()
    await all
    return { status: 200, headers: {}, body: 'x' }
  }
  return { handler, signals }
}

describe(`${COUNT} pipelined requests warn of no leak of listeners`, () => {
  test('that watch for a disconnect, and leave no listener on the connection', async () => {
    await withoutWarnings(async () => {
      const { handler, signals } = together()
      const { client, socket } = await listen((server) => { attach(server, handler) })
      const done = once(client, 'connect').then(() => answers(client, 200))
      send(client)
      await done
      const before = socket().listenerCount('close')
      send(client)
      await answers(client, 200)
      assert.equal(socket().listenerCount('close'), before)
      assert.ok(signals.every(({ aborted }) => !aborted))
      client.destroy()
    })
  })

  test('that no handler answers', async () => {
    await withoutWarnings(async () => {
      const { client } = await listen((server) => { attach(server, ({ signal }) => (signal.aborted ? { status: 500, headers: {} } : undefined)) })
      send(client)
      await answers(client, 404)
      client.destroy()
    })
  })

  test('behind middleware of policies that wait, in front of a host', async () => {
    await withoutWarnings(async () => {
      const guard = toMiddleware(Object.assign<Parameters<typeof toMiddleware>[0], object>(
        (request, next) => next(request), { place: { name: 'waiting', wholeRun: 'waits' } }))
      const { client } = await listen((server) => {
        server.on('request', (req, res) => { guard(req, res, () => { setImmediate(() => { res.end(String(requestOf(req) !== undefined)) }) }) })
      })
      send(client)
      await answers(client, 200)
      client.destroy()
    })
  })

  test('whose client disconnects abort each of them', async () => {
    await withoutWarnings(async () => {
      let told = 0
      let all: (() => void) | undefined
      let come = 0
      const everybody = new Promise<void>((resolve) => { all = resolve })
      const { client } = await listen((server) => {
        server.on('request', toNode(({ signal }) => new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            if (++told === COUNT) all?.()
            resolve(undefined)
          })
          if (++come === COUNT) client.destroy()
        })))
      })
      send(client)
      await everybody
    })
  })
})
