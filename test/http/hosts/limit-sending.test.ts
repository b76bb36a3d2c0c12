import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { connect } from 'node:net'
import { describe, test } from 'node:test'
import { attach, limitSending } from '../../../adapters/node/index.js'
import { json, stream } from '../../../src/http/respond.js'
import { listen } from '../../kit/listen.js'
import { ask, open } from '../kit/wire.js'

/** A connection as the rule sees it. */
class FakeSocket extends EventEmitter {
  writableLength = 0
  bytesWritten = 0
  destroyed = false
  _handle: { writeQueueSize: number } | undefined = { writeQueueSize: 0 }
  destroy(): void {
    this.destroyed = true
    this.emit('close')
  }

  /** More waits for the client. */
  write(bytes: number): void {
    this.bytesWritten += bytes
    this.writableLength += bytes
  }

  /** The system has taken some. */
  taken(bytes: number): void { this.writableLength -= bytes }
}

describe('limitSending: which connections are cut', () => {
  const serving = (event = 'connection') => {
    const server = new EventEmitter()
    const stop = limitSending(server as Server, 1000)
    const socket = new FakeSocket()
    server.emit(event, socket)
    return { server, socket, stop }
  }

  test('SPEC 8.3: a connection whose bytes do not move is cut soon after the limit', (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] })
    for (const event of ['connection', 'secureConnection']) {
      const { socket } = serving(event)
      socket.write(10)
      t.mock.timers.tick(999)
      assert.equal(socket.destroyed, false, 'not yet')
      t.mock.timers.tick(251)
      assert.equal(socket.destroyed, true, event)
    }
  })

  test('a connection that has ended is no longer checked', (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] })
    const { socket } = serving()
    let looks = 0
    Object.defineProperty(socket, 'writableLength', { get: () => { looks++; return 0 } })
    t.mock.timers.tick(500)
    assert.equal(looks, 2)
    socket.emit('close')
    t.mock.timers.tick(5000)
    assert.equal(looks, 2)
  })

  test('a connection without bytes to send is never cut', (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] })
    const { socket } = serving()
    t.mock.timers.tick(60_000)
    assert.equal(socket.destroyed, false)
    socket.write(10)
    t.mock.timers.tick(900)
    socket.taken(10)
    t.mock.timers.tick(60_000)
    assert.equal(socket.destroyed, false)
  })

  test('a connection that reads slowly is not cut, neither between two writes nor during one write', (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] })
    const [writes, within] = [serving().socket, serving().socket]
    for (const socket of [writes, within]) socket.write(100)
    within._handle = { writeQueueSize: 100 }
    for (let time = 0; time < 20; time++) {
      t.mock.timers.tick(900)
      writes.taken(1)
      within._handle.writeQueueSize--
    }
    assert.deepEqual([writes.destroyed, within.destroyed], [false, false])
    t.mock.timers.tick(1500)
    assert.deepEqual([writes.destroyed, within.destroyed], [true, true])
  })

  test('a connection is cut even if the waiting bytes keep growing', (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] })
    const { socket } = serving()
    socket._handle = undefined
    for (let time = 0; time < 15 && !socket.destroyed; time++) {
      socket.write(10)
      t.mock.timers.tick(100)
    }
    assert.equal(socket.destroyed, true)
  })

  test('the limit can be removed, and invalid options throw', (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] })
    const { server, socket, stop } = serving()
    socket.write(1)
    stop()
    t.mock.timers.tick(10_000)
    assert.deepEqual([socket.destroyed, server.eventNames()], [false, []])
    for (const ms of [0, -1, 1.5, 2 ** 31, NaN]) assert.throws(() => limitSending(createServer(), ms), TypeError)
  })
})

describe('slow clients', () => {
  const megabyte = Buffer.alloc(1024 * 1024)

  test('SPEC 8.3: a client that stops reading is cut, its source is closed, and other clients are not delayed', async () => {
    let closed: () => void = () => {}
    const sourceClosed = new Promise<void>((resolve) => {
      closed = resolve
    })
    let answerLate: (() => void) | undefined
    const server = createServer()
    const detach = attach(
      server,
      async ({ path }) => {
        if (path === '/small') return json(200, 'here')
        if (path === '/late')
          return await new Promise((resolve) => {
            answerLate = () => {
              resolve(json(200, 'late'))
            }
          })
        if (path === '/whole') return { status: 200, headers: {}, body: Buffer.alloc(64 * 1024 * 1024) }
        return stream(
          200,
          (async function* () {
            try {
              for (;;) yield megabyte
            } finally {
              closed()
            }
          })(),
        )
      },
      { sendTimeoutMs: 400 },
    )
    const { port, close } = await listen(server)
    const late = ask(port, 'GET', '/late')

    const slow = await Promise.all(
      ['/stream', '/whole'].map(async (path) => {
        const socket = connect(port, '127.0.0.1').on('error', () => {})
        await once(socket, 'connect')
        socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
        await once(socket, 'readable')
        return socket
      }),
    )
    const connections = (): Promise<number> =>
      new Promise((resolve, reject) => {
        server.getConnections((error, count) => (error ? reject(error) : resolve(count)))
      })
    for (let time = 0; time < 20; time++) assert.equal((await ask(port, 'GET', '/small')).body, '"here"')
    await sourceClosed
    while ((await connections()) > 1)
      await new Promise((resolve) => {
        setTimeout(resolve, 20)
      })
    answerLate?.()
    assert.equal((await late).body, '"late"', 'waiting is no sin')
    for (const socket of slow) socket.destroy()
    detach()
    await close()
  })

  test('a client that reads slowly gets the whole response', async () => {
    const server = createServer((_, res) => { res.end(Buffer.alloc(8 * 1024 * 1024)) })
    limitSending(server, 1000)
    const { port, close } = await listen(server)
    const answer = await open(port, 'GET', '/')
    let size = 0
    for await (const chunk of answer) {
      size += (chunk as Buffer).byteLength
      await new Promise((resolve) => { setTimeout(resolve, 5) })
    }
    assert.equal(size, 8 * 1024 * 1024)
    await close()
  })

  test('a client that sends slowly delays nobody', async () => {
    const server = createServer()
    attach(server, async (request) =>
      request.method === 'POST' ? json(200, (await request.body.bytes(100))?.byteLength) : json(200, 'here'),
    )
    const { port, close } = await listen(server)
    const slow = Array.from({ length: 50 }, () => connect(port, '127.0.0.1').on('error', () => {}))
    await Promise.all(slow.map(async (socket) => {
      await once(socket, 'connect')
      socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n1')
    }))
    for (let time = 0; time < 20; time++) assert.equal((await ask(port, 'GET', '/')).body, '"here"')
    for (const socket of slow) socket.destroy()
    await close()
  })
})
