// Real processes get a SIGTERM while clients poll on connections that stay open.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent, createServer, request, type IncomingMessage } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { describe, test } from 'node:test'
import { closeOnSignal } from '../../../adapters/node/index.js'
import { listen } from '../../kit/listen.js'
import { program } from '../../servers/program.js'
import { ServerProcess, stopAfterwards } from '../kit/process.js'
import { eventually, Wire } from '../kit/wire.js'

stopAfterwards()

function start(env: Readonly<Record<string, string>>): ServerProcess {
  return new ServerProcess(process.execPath, program('test/http/hosts/stop-program.ts'), env)
}

async function ask(
  url: string,
  agent: Agent,
  method = 'GET',
): Promise<{ readonly status: number | undefined; readonly headers: IncomingMessage['headers'] }> {
  const sent = request(url, {
    method,
    agent,
    ...(method === 'POST' && { headers: { 'content-type': 'application/json' } }),
  })
  sent.end(method === 'POST' ? '{}' : undefined)
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  for await (const piece of response) void piece
  return { status: response.statusCode, headers: response.headers }
}

/** Polls without a pause on one connection until the server accepts none. */
async function poll(url: string, agent: Agent, polled: { count: number }): Promise<void> {
  for (;;) {
    try {
      await ask(url, agent)
      polled.count++
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'ECONNREFUSED') return
      // The server has closed an idle connection while this request was on its way.
      if (code !== 'ECONNRESET' && code !== 'EPIPE') throw error
    }
  }
}

describe('a process that clients poll ends at SIGTERM', () => {
  for (const [framework, stop, ...paths] of [
    ['node', 'by-hand', 'status'],
    ['express', 'by-hand', 'status'],
    ['koa', 'by-hand', 'status'],
    ['node', 'closeOnSignal', 'status', '/own'],
    ['express', 'closeOnSignal', 'status', '/own'],
    ['koa', 'closeOnSignal', '/own'],
    ['fastify', 'closeOnSignal', 'status', '/own'],
  ] as const) {
    test(`${framework}, ${stop}, polls of ${paths.join(' and ')}`, async () => {
      const server = start({ FRAMEWORK: framework, STOP: stop })
      const url = await server.url()
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      const accepted = await ask(`${url}/tasks`, agent, 'POST')
      assert.equal(accepted.status, 202)
      const polls = paths.map((path) => {
        const polled = { count: 0 }
        const own = new Agent({ keepAlive: true, maxSockets: 1 })
        return {
          polled,
          own,
          ended: poll(url + (path === 'status' ? String(accepted.headers.location) : path), own, polled),
        }
      })
      await eventually(() => polls.every(({ polled }) => polled.count > 20), 'polls')
      server.child.kill('SIGTERM')
      assert.deepEqual(await server.exited, { code: 0, signal: null }, server.err)
      for (const { ended, own } of polls) {
        await ended
        own.destroy()
      }
      agent.destroy()
      if (stop === 'closeOnSignal') assert.match(server.out, /Closed store,blobs,pool,client,afterwards\n/)
    })
  }

  test('http2, closeOnSignal', async () => {
    const server = start({ FRAMEWORK: 'http2' })
    const session = connectHttp2(await server.url())
    session.on('error', () => {})
    const get = async (): Promise<unknown> => {
      const stream = session.request({ ':path': '/tasks/none' })
      const [headers] = await once(stream, 'response') as [{ ':status': number }]
      stream.resume()
      await once(stream, 'close')
      return headers[':status']
    }
    assert.equal(await get(), 404)
    const goodbye = once(session, 'goaway')
    server.child.kill('SIGTERM')
    await goodbye
    assert.deepEqual(await server.exited, { code: 0, signal: null }, server.err)
  })
})

describe('closeOnSignal', () => {
  test('ends a process whose client of the database hangs, with code 1 and the name of the part', async () => {
    const server = start({ STOP: 'hangs', TIMEOUT_MS: '1000' })
    await server.url()
    server.child.kill('SIGTERM')
    assert.deepEqual(await server.exited, { code: 1, signal: null })
    assert.match(server.err, /closeOnSignal: client has not closed within the 1000 ms of timeoutMs/)
    assert.match(server.out, /afterwards\n/)
  })

  test('ends the process at once at a second signal, unless it repeats the first signal', async () => {
    const server = start({ STOP: 'stubborn', DRAIN_MS: '600000' })
    const agent = new Agent({ keepAlive: true })
    await ask(`${await server.url()}/tasks`, agent, 'POST')
    agent.destroy()
    server.child.kill('SIGTERM')
    server.child.kill('SIGINT')
    const again = setInterval(() => server.child.kill('SIGINT'), 300)
    assert.deepEqual(await server.exited, { code: 1, signal: null })
    clearInterval(again)
    assert.doesNotMatch(server.out, /Closed/)
  })

  test('ends the process when the parts of all calls are closed', async () => {
    // The other call is ready at once, long before this drain has ended.
    const server = start({ STOP: 'twice', DRAIN_MS: '2000' })
    const agent = new Agent({ keepAlive: true })
    await ask(`${await server.url()}/tasks`, agent, 'POST')
    agent.destroy()
    server.child.kill('SIGTERM')
    assert.deepEqual(await server.exited, { code: 0, signal: null }, server.err)
    assert.match(server.out, /Closed the other call\nClosed store,blobs,pool,client,afterwards\n/)
  })

  test('returns a function that closes once, without a signal, and removes the signal listeners', async () => {
    const before = process.listenerCount('SIGTERM')
    const closed: string[] = []
    const server = createServer((_req, res) => { res.end('own') })
    const { port } = await listen(server)
    const close = closeOnSignal({
      server,
      tasks: {
        close: async () => {
          closed.push('tasks')
        },
      },
      store: {
        close: () => {
          closed.push('store')
        },
      },
      pool: { end: () => Promise.reject(new Error('pool')) },
      onError: (error) => closed.push(String(error)),
      afterwards: () => closed.push('last'),
    })
    assert.equal(process.listenerCount('SIGTERM'), before + 1)
    const wire = new Wire(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await wire.until(/own$/)
    await Promise.all([close(), close()])
    await wire.end()
    assert.deepEqual(closed, ['tasks', 'store', 'Error: pool', 'last'])
    assert.equal(process.listenerCount('SIGTERM'), before)
  })

  test('responds to the first request of a client that has just connected', async () => {
    const server = createServer((_req, res) => { res.end('own') })
    const { port } = await listen(server)
    const close = closeOnSignal({ server })
    const wire = new Wire(port)
    await once(server, 'connection')
    const closed = close()
    await eventually(() => !server.listening, 'the server closes')
    wire.socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    assert.match(await wire.end(), /^HTTP\/1\.1 200 [^]*\r\nconnection: close\r\n[^]*own$/i)
    await closed
  })

  test('ends although a silent client is connected', async () => {
    const server = createServer(() => {})
    const { port } = await listen(server)
    const close = closeOnSignal({ server, drainMs: Infinity })
    const wire = new Wire(port)
    await once(server, 'connection')
    await close()
    assert.equal(await wire.end(), '')
  })

  test('cuts connections that do not end between drainMs and timeoutMs', async () => {
    const server = createServer(() => {})
    const { port } = await listen(server)
    const close = closeOnSignal({ server, drainMs: 0, timeoutMs: 400 })
    const wire = new Wire(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await once(server, 'request')
    await close()
    assert.equal(await wire.end(), '')
  })

  test('sends the whole response to a slow reader, with Connection: close', async () => {
    const body = Buffer.alloc(32 * 1024 * 1024, 'x')
    const server = createServer((_req, res) => { setImmediate(() => res.end(body)) })
    const { port } = await listen(server)
    const close = closeOnSignal({ server })
    const wire = new Wire(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    wire.socket.pause()
    await once(server, 'request')
    const closed = close()
    wire.socket.resume()
    const text = await wire.end()
    assert.match(text.slice(0, 500), /\r\nconnection: close\r\n/i)
    assert.equal(text.length - text.indexOf('\r\n\r\n') - 4, body.length)
    await closed
  })

  test('rejects a time limit that is not longer than the drain time, and unknown options', () => {
    assert.throws(() => closeOnSignal({ drainMs: 10, timeoutMs: 10 }), /timeoutMs must be longer than drainMs/)
    assert.throws(() => closeOnSignal({ databse: {} } as never), /there is no option "databse"/)
  })
})
