// Receivers that do what receivers do.
import assert from 'node:assert/strict'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { describe, test, type TestContext } from 'node:test'
import { gzipSync } from 'node:zlib'
import { httpSender } from '../../../src/callbacks/index.js'
import { receiver, site } from '../../http/kit/callbacks.js'
import { eventually } from '../../kit/wait.js'

/** A receiver without manners; `serve` gets each connection. */
async function rude(
  t: TestContext,
  serve: (socket: Socket) => void,
  host = '127.0.0.1',
): Promise<{ url: string; sockets: Set<Socket>; total: () => number }> {
  const sockets = new Set<Socket>()
  let total = 0
  const server = createServer((socket) => {
    total++
    sockets.add(socket)
    socket
      .on('error', () => undefined)
      .on('close', () => {
        sockets.delete(socket)
      })
    serve(socket)
    // Unread, an end is never seen.
    socket.resume()
  })
  await new Promise<void>((resolve) => {
    server.listen(0, host, resolve)
  })
  t.after(
    () =>
      new Promise<void>((resolve) => {
        server.close(() => {
          resolve()
        })
        for (const socket of sockets) socket.destroy()
      }),
  )
  return { url: `http://${host}:${(server.address() as AddressInfo).port}/`, sockets, total: () => total }
}

describe('a callback receiver', () => {
  for (const status of [301, 302, 307, 308]) {
    test(`gets no second request after a redirect (${status}), and the attempt counts as failed`, async (t) => {
      const canary = await receiver(t)
      const { url, seen } = await receiver(t, (res) => { res.writeHead(status, { location: canary.url }).end() })
      const { submit, settled } = site(t)
      const { state, lastStatus, attempts } = await settled(await submit(url))
      assert.deepEqual([state, lastStatus, attempts, seen.length, canary.seen.length], ['failed', status, 3, 3, 0])
    })
  }

  test('is called once if it responds with 410', async (t) => {
    const { url, seen } = await receiver(t, (res) => { res.writeHead(410).end() })
    const { submit, settled } = site(t)
    const { state, fault, attempts } = await settled(await submit(url))
    assert.deepEqual([state, fault, attempts, seen.length], ['failed', 'gone', 1, 1])
  })

  test('is not called before the time of its Retry-After, and the status shows this time', async (t) => {
    const { url, seen } = await receiver(t, (res, nth) => {
      if (nth === 1) res.writeHead(503, { 'retry-after': '1' }).end()
      else res.end()
    })
    const { submit, settled, tasks } = site(t)
    const id = await submit(url)
    await eventually(async () => (await tasks.get(id))?.callback?.nextAttemptAt !== undefined)
    const [first] = seen
    assert.ok(
      Number((await tasks.get(id))?.callback?.nextAttemptAt) >= (first?.at ?? 0) + 990,
      'but for the difference of two clocks',
    )
    assert.equal((await settled(id)).state, 'delivered')
    const [, second] = seen
    assert.ok(first && second && second.at - first.at >= 990, `${String(second && first && second.at - first.at)} ms`)
  })

  test('fails within the time limit if it hangs before or within the response headers', async (t) => {
    for (const start of ['', 'HTTP/1.1 200 OK\r\nx: ']) {
      const { url, sockets } = await rude(t, (socket) => { socket.write(start) })
      const { submit, settled } = site(t, { timeoutMs: 100, attempts: 2 })
      const { state, fault, attempts } = await settled(await submit(url))
      assert.deepEqual([state, fault, attempts], ['failed', 'timeout', 2])
      await eventually(() => sockets.size === 0)
    }
  })

  test('counts as unreachable if it resets the connection, or sends invalid HTTP, endless interim responses or endless headers', async (t) => {
    const kinds: ((socket: Socket) => void)[] = [
      (socket) => {
        socket.resetAndDestroy()
      },
      (socket) => {
        socket.once('data', () => {
          socket.resetAndDestroy()
        })
      },
      (socket) => {
        socket.end()
      },
      (socket) => {
        socket.end('SSH-2.0-OpenSSH_9.6\r\n')
      },
      (socket) => {
        socket.write('HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1000))
      },
      (socket) => {
        socket.write(`HTTP/1.1 200 OK\r\n${'x: y\r\n'.repeat(10_000)}`)
      },
      (socket) => {
        socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n')
      },
    ]
    for (const serve of kinds) {
      const { url, sockets } = await rude(t, serve)
      const { submit, settled } = site(t, { attempts: 2 })
      const { state, fault, attempts } = await settled(await submit(url))
      assert.deepEqual([state, fault, attempts], ['failed', 'unreachable', 2], serve.toString())
      await eventually(() => sockets.size === 0)
    }
  })

  test('counts as unreachable if it does not listen', async (t) => {
    const { url } = await rude(t, () => undefined)
    const free = createServer()
    await new Promise<void>((resolve) => { free.listen(0, '127.0.0.1', resolve) })
    const { port } = free.address() as AddressInfo
    await new Promise((resolve) => { free.close(resolve) })
    const { submit, settled } = site(t)
    const { state, fault } = await settled(await submit(url.replace(/:\d+/, `:${port}`)))
    assert.deepEqual([state, fault], ['failed', 'unreachable'])
  })

  test('is cut off after some kilobytes of a body of 200 MB, and its status counts', async (t) => {
    let written = 0
    const { url, sockets } = await rude(t, (socket) => {
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 209715200\r\n\r\n')
        const chunk = Buffer.alloc(65_536)
        const pump = (): void => {
          if (written >= 209_715_200 || socket.destroyed) return
          written += chunk.length
          socket.write(chunk, pump)
        }
        pump()
      })
    })
    const before = process.memoryUsage().rss
    const { submit, settled } = site(t)
    assert.equal((await settled(await submit(url))).state, 'delivered')
    await eventually(() => sockets.size === 0)
    assert.ok(written < 20_000_000, `${written} bytes were taken from us`)
    assert.ok(process.memoryUsage().rss - before < 60_000_000, 'its body was kept')
  })

  test('does not make the sender decompress a gzip bomb', async (t) => {
    const bomb = gzipSync(Buffer.alloc(50_000_000))
    const { url, seen } = await receiver(t, (res) => {
      res.writeHead(500, { 'content-encoding': 'gzip', 'content-length': bomb.length }).end(bomb)
    })
    const { submit, settled } = site(t, { attempts: 1 })
    const before = process.memoryUsage()
    const { state, lastStatus } = await settled(await submit(url))
    assert.deepEqual([state, lastStatus, seen[0]?.headers['accept-encoding']], ['failed', 500, 'identity'])
    assert.ok(process.memoryUsage().arrayBuffers - before.arrayBuffers < 10_000_000)
  })

  test('counts as called if it responds with 200 and an endless body, and its socket is closed', async (t) => {
    const { url, sockets } = await rude(t, (socket) => {
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')
        const timer = setInterval(() => socket.write('1\r\nx\r\n'), 20)
        socket.on('close', () => { clearInterval(timer) })
      })
    })
    const { submit, settled } = site(t, { timeoutMs: 300 })
    assert.equal((await settled(await submit(url))).state, 'delivered')
    await eventually(() => sockets.size === 0)
  })

  test('may respond before the body is sent completely, and then disconnect', async (t) => {
    const { url } = await rude(t, (socket) => { socket.end('HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n') })
    const sender = httpSender({ allow: ['127.0.0.1'] })
    const reply = await sender.send({
      url,
      headers: {},
      body: 'x'.repeat(1_000_000),
      signal: new AbortController().signal,
      admit: () => true,
    })
    assert.ok('status' in reply ? reply.status === 410 : reply.fault === 'unreachable', JSON.stringify(reply))
  })

  test('is disconnected at once when the process stops', async (t) => {
    const { url, sockets } = await rude(t, () => undefined)
    const stop = new AbortController()
    const sender = httpSender({ allow: ['127.0.0.1'] })
    const sent = sender.send({ url, headers: {}, body: '{}', signal: stop.signal, admit: () => true })
    await eventually(() => sockets.size === 1)
    const reason = new Error('closing')
    stop.abort(reason)
    await assert.rejects(sent, reason)
    await eventually(() => sockets.size === 0)
    await assert.rejects(sender.send({ url, headers: {}, body: '{}', signal: stop.signal, admit: () => true }), reason)
  })
})

describe('slow callback receivers', () => {
  test('delay neither other receivers nor tasks', async (t) => {
    const slow = await rude(t, () => undefined, '127.0.0.2')
    let most = 0
    const counting = setInterval(() => { most = Math.max(most, slow.sockets.size) }, 5)
    t.after(() => { clearInterval(counting) })
    const quick = await receiver(t)
    const { submit, settled, tasks } = site(t, {
      timeoutMs: 600_000, maxInFlight: 4, maxPerHost: 3, concurrency: 8, allow: ['127.0.0.0/8'],
    })
    const stuck: string[] = []
    for (let n = 0; n < 30; n++) stuck.push(await submit(slow.url))
    await eventually(() => slow.sockets.size === 2)
    for (let n = 0; n < 10; n++) {
      const id = await submit(quick.url)
      await tasks.wait(id, { timeoutMs: 20_000 })
      assert.equal((await settled(id)).state, 'delivered')
    }
    assert.equal(most, 2, 'more at once than one host may have')
    assert.equal((await tasks.get(stuck[29] ?? ''))?.callback?.state, 'pending')
  })

  test('each get their callback in the end', async (t) => {
    const { url, seen } = await receiver(t, (res) => { setTimeout(() => { res.end() }, 30) })
    const { submit, settled } = site(t, { maxInFlight: 3, maxPerHost: 2 })
    const ids = await Promise.all(Array.from({ length: 12 }, () => submit(url)))
    for (const id of ids) assert.equal((await settled(id)).state, 'delivered')
    assert.equal(new Set(seen.map(({ headers }) => headers['webhook-id'])).size, 12)
    assert.equal(seen.length, 12)
  })
})

describe('the fairness of callbacks (15.12)', () => {
  /** Holds connections open without an answer; gives its URL on a host of its own. */
  const dead = async (t: TestContext, host: string) => rude(t, () => undefined, host)

  test('two dead ports of one machine delay no callback of another owner', async (t) => {
    const ports = [await dead(t, '127.0.0.2'), await dead(t, '127.0.0.2')]
    const good = await receiver(t, undefined, '127.0.0.3')
    const { submit, settled } = site(t, { concurrency: 10, timeoutMs: 60_000, allow: ['127.0.0.0/8'] })
    for (let n = 0; n < 20; n++) await submit(ports[n % 2]?.url ?? '', {}, 'ann')
    await eventually(() => ports.some(({ sockets }) => sockets.size > 0))
    const ids = await Promise.all(Array.from({ length: 10 }, () => submit(good.url, {}, 'bob')))
    for (const id of ids) assert.equal((await settled(id)).state, 'delivered')
    const held = ports.reduce((sum, { sockets }) => sum + sockets.size, 0)
    assert.ok(held > 0, 'the dead ports hold their requests all the while')
    assert.ok(held <= 4, `${held} requests to one machine, whatever the ports`)
  })

  test('dead receivers of one owner on many machines leave requests for another owner', async (t) => {
    const machines = await Promise.all(Array.from({ length: 20 }, (_, n) => dead(t, `127.0.1.${n + 1}`)))
    const good = await receiver(t, undefined, '127.0.0.3')
    const { submit, settled } = site(t, { timeoutMs: 60_000, maxInFlight: 8, allow: ['127.0.0.0/8'] })
    for (const { url } of machines) await submit(url, {}, 'ann')
    const held = () => machines.reduce((sum, { sockets }) => sum + sockets.size, 0)
    await eventually(() => held() === 6)
    const ids = await Promise.all(Array.from({ length: 10 }, () => submit(good.url, {}, 'bob')))
    for (const id of ids) assert.equal((await settled(id)).state, 'delivered')
    assert.equal(held(), 6, 'three quarters of maxInFlight')
  })

  test('100 hanging callbacks of one owner delay no callback of another owner at the same receiver', async (t) => {
    const hanging = new Set<string>()
    const { url, seen } = await receiver(t, (res, _, { url: path = '' }) => {
      if (path === '/hang') hanging.add(String(res.req.headers['webhook-id']))
      else res.end()
    })
    const { submit, settled, tasks } = site(t, { timeoutMs: 600_000 })
    const stuck: string[] = []
    for (let n = 0; n < 100; n++) stuck.push(await submit(new URL('/hang', url).href, {}, 'ann'))
    for (const id of stuck) await tasks.wait(id, { timeoutMs: 20_000 })
    await eventually(() => hanging.size === 3)
    const ids = await Promise.all(Array.from({ length: 10 }, () => submit(url, {}, 'bob')))
    for (const id of ids) assert.equal((await settled(id)).state, 'delivered')
    assert.equal(hanging.size, 3, 'three quarters of maxPerHost')
    assert.equal(seen.length, 13)
  })

  test('host names with one address share the limit of this address', async (t) => {
    const machine = await dead(t, '127.0.0.2')
    const { port } = new URL(machine.url)
    const good = await receiver(t, undefined, '127.0.0.3')
    const resolve = () => Promise.resolve([{ address: '127.0.0.2', family: 4 }])
    const allow = ['127.0.0.0/8', ...Array.from({ length: 8 }, (_, n) => `name${n}.example.com`)]
    const { submit, settled } = site(t, { timeoutMs: 60_000, maxInFlight: 8, maxPerHost: 2, allow, resolve })
    for (let n = 0; n < 8; n++) await submit(`http://name${n}.example.com:${port}/`, {}, `owner${n}`)
    await eventually(() => machine.sockets.size === 2)
    const id = await submit(good.url, {}, 'bob')
    assert.equal((await settled(id)).state, 'delivered')
    assert.equal(machine.sockets.size, 2)
  })

  test('500 waiting callbacks of one owner leave space for callbacks of another owner', async (t) => {
    const machine = await dead(t, '127.0.0.2')
    const good = await receiver(t, undefined, '127.0.0.3')
    const { submit, settled, tasks } = site(t, { timeoutMs: 60_000, allow: ['127.0.0.0/8'] })
    const ids: string[] = []
    for (let n = 0; n < 500; n++) ids.push(await submit(machine.url, {}, 'ann'))
    const states = () => Promise.all(ids.map(async (id) => (await tasks.get(id))?.callback))
    for (const id of ids) await tasks.wait(id, { timeoutMs: 60_000 })
    const id = await submit(good.url, {}, 'bob')
    assert.equal((await settled(id)).state, 'delivered')
    assert.deepEqual(
      new Set((await states()).map((callback) => callback?.state)),
      new Set(['pending']),
      'none is given up',
    )
  })
})
