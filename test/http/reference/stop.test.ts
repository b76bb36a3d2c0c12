import assert from 'node:assert/strict'
import { createServer, type RequestListener, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { describe, test, type TestContext } from 'node:test'
import { Connections } from '../../../examples/reference-server/connections.js'
import { parseTokens } from '../../../examples/reference-server/auth.js'
import { startServer } from '../../../examples/reference-server/server.js'
import { Client, TOKENS } from '../kit/reference.js'
import { Wire } from '../kit/wire.js'

/** Well before a drain would cut by itself, which would pass for having let go. */
const PROMPT = { timeout: 30_000 }

const GET = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'

async function serve(t: TestContext, listener: RequestListener): Promise<{ server: Server, port: number, connections: Connections }> {
  const server = createServer(listener)
  // Or Node would let go of idle connections after 5 s by itself.
  server.keepAliveTimeout = 0
  const connections = new Connections(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.closeAllConnections())
  return { server, port: (server.address() as AddressInfo).port, connections }
}

describe('connections when the server stops', () => {
  test('an idle one, and one with half a request, are closed at once', PROMPT, async (t) => {
    const { port, connections } = await serve(t, (_req, res) => { res.end('done') })
    const idle = new Wire(port, GET)
    const half = new Wire(port, GET + 'GET / HTTP/1.1\r\n')
    await idle.until(/done$/)
    await half.until(/done$/)
    await connections.drain(60_000)
    await Promise.all([idle.end(), half.end()])
  })

  test('a response under way is completed, has Connection: close, and its connection is closed', PROMPT, async (t) => {
    let release = (): void => {}
    const { server, port, connections } = await serve(t, (_req, res) => { release = () => res.end('done') })
    const wire = new Wire(port, GET)
    await once(server, 'request')
    const drained = connections.drain(60_000)
    release()
    assert.match(await wire.end(), /\r\nconnection: close\r\n[^]*done$/i)
    await drained
  })

  test('a response that has begun is completed', PROMPT, async (t) => {
    let release = (): void => {}
    const { port, connections } = await serve(t, (_req, res) => {
      res.write('be')
      release = () => res.end('gun')
    })
    const wire = new Wire(port, GET)
    await wire.until(/be\r\n$/)
    const drained = connections.drain(60_000)
    release()
    assert.match(await wire.end(), /gun\r\n0\r\n\r\n$/)
    await drained
  })

  test('a connection with a slow reader is not cut before its response is complete', PROMPT, async (t) => {
    const body = Buffer.alloc(32 * 1024 * 1024, 'x')
    const { server, port, connections } = await serve(t, (_req, res) => { res.end(body) })
    const wire = new Wire(port, GET)
    wire.socket.pause()
    await once(server, 'request')
    const drained = connections.drain(60_000)
    wire.socket.resume()
    const text = await wire.end()
    assert.equal(text.length - text.indexOf('\r\n\r\n') - 4, body.length)
    await drained
  })

  test('the second of two pipelined requests is answered', PROMPT, async (t) => {
    const releases: (() => void)[] = []
    const { server, port, connections } = await serve(t, (req, res) => { releases.push(() => res.end(`for ${req.url}`)) })
    const wire = new Wire(port, GET + GET.replace('/', '/two'))
    while (releases.length < 2) await once(server, 'request')
    const drained = connections.drain(60_000)
    releases[1]?.()
    releases[0]?.()
    assert.match(await wire.end(), /for \/HTTP[^]*connection: close[^]*for \/two$/i)
    await drained
  })

  test('an endless answer is cut when the time is over', async (t) => {
    const { server, port, connections } = await serve(t, () => {})
    const wire = new Wire(port, GET)
    await once(server, 'request')
    await connections.drain(50)
    assert.equal(await wire.end(), '')
  })
})

test('a task that does not end in time is stopped, and its status is task_interrupted', async () => {
  const server = await startServer({ host: '127.0.0.1', port: 0, tokens: parseTokens(TOKENS), drainMs: 50 })
  const client = new Client(server.url)
  const task = (await client.submit('wait', { ms: 60_000 })).headers.get('location') ?? ''
  const events = await client.open('GET', task, { headers: { accept: 'text/event-stream' } })
  const stopped = server.stop()
  assert.equal(server.stop(), stopped)
  assert.match(await events.text(), /"code":"task_interrupted"/)
  await stopped
})
