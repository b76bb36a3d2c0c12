// Clients that send pipelined requests for large responses and read nothing.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { describe, test } from 'node:test'
import { fastify } from 'fastify'
import { fastifyLonghaul } from '../../../adapters/fastify/index.js'
import { attach } from '../../../adapters/node/index.js'
import { compose, type Handler } from '../../../src/index.js'
import { authenticate, bearer } from '../../../src/policies/index.js'
import { heapShare } from '../../../src/runtime/shared-limit.js'
import { eventually } from '../kit/wire.js'

const MIB = 2 ** 20
const body = 'x'.repeat(8 * MIB)
const CONNECTIONS = 60
const LIMIT = heapShare(8, 128)

let runs = 0
const whole: Handler = () => {
  runs++
  return { status: 200, headers: { 'content-type': 'text/plain' }, body }
}
const handler = compose(authenticate({
  schemes: [bearer({ verify: (token) => ({ subject: token }) })], optional: true,
}), whole)

type Caller = readonly [from: string, token?: string]

function open(port: number, [from, token]: Caller): Socket {
  const socket = connect({ port, host: '127.0.0.1', localAddress: from })
  const authorization = token === undefined ? '' : `Authorization: Bearer ${token}\r\n`
  socket.on('error', () => {}).write(`GET / HTTP/1.1\r\nHost: a\r\n${authorization}\r\n`.repeat(4))
  return socket.pause()
}

/** Fails if many clients of one caller hold more than its limit, or if the other caller loses its connection. */
async function flood(server: Server, one: Caller, other: Caller): Promise<void> {
  const accepted = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    accepted.add(socket)
    socket.once('close', () => accepted.delete(socket))
  })
  const { port } = server.address() as AddressInfo
  runs = 0
  const reader = open(port, other)
  await eventually(() => runs === 1, 'the other caller waits')
  const clients = Array.from({ length: CONNECTIONS }, () => open(port, one))
  await eventually(() => runs > CONNECTIONS, 'all have run')
  const held = (): number => [...accepted].reduce((sum, { writableLength }) => sum + writableLength, 0)
  await eventually(() => held() <= LIMIT + 2 * body.length, 'bounded')
  assert.ok(accepted.size < CONNECTIONS)
  let size = 0
  for await (const piece of reader) {
    size += (piece as Buffer).length
    if (size > 4 * body.length) break
  }
  assert.ok(size > 4 * body.length)
  for (const each of [reader, ...clients]) each.destroy()
}

describe('unread response bytes of a caller', () => {
  const kinds: readonly (readonly [string, Caller, Caller])[] = [
    ['addresses', ['127.0.0.1'], ['127.0.0.2']], ['principals', ['127.0.0.1', 'ann'], ['127.0.0.1', 'bob']],
  ]
  for (const [what, one, other] of kinds) {
    test(`are bounded in node:http, where callers are ${what}, and do not count for another caller`, async () => {
      const server = createServer()
      attach(server, handler)
      await once(server.listen(0, '127.0.0.1'), 'listening')
      await flood(server, one, other)
      server.close()
      server.closeAllConnections()
    })
  }

  test('count as they are sent, even for parts of a buffer that is larger than the limit', async () => {
    const large = Buffer.alloc(LIMIT + MIB)
    const part = large.subarray(0, 65_536)
    let parts = 0
    const server = createServer()
    attach(server, () => ({
      status: 200, headers: {}, body: (async function* () { for (let n = 0; n < 200; n++, parts++) yield part })(),
    }))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const sockets = [0, 1].map(() => connect({ port, host: '127.0.0.1' }).pause())
    for (const socket of sockets) socket.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    await eventually(() => parts > 4, 'both are sent something')
    const sizes = await Promise.all(sockets.map(async (socket) => {
      let size = 0
      for await (const piece of socket) size += (piece as Buffer).length
      return size
    }))
    for (const size of sizes) assert.ok(size > 200 * part.length, String(size))
    server.close()
  })

  test('are bounded in Fastify', async () => {
    const app = fastify({ forceCloseConnections: true })
    app.register(fastifyLonghaul, { handler })
    await app.listen({ port: 0, host: '127.0.0.1' })
    await flood(app.server, ['127.0.0.1', 'ann'], ['127.0.0.1', 'bob'])
    await app.close()
  })
})
