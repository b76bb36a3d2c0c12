import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createServer as createTcp, type AddressInfo, type Server, type Socket } from 'node:net'
import { after, describe, test } from 'node:test'
import { httpError, type Policy } from 'longhaul'
import { attach } from 'longhaul/node'
import type { Context } from '../../../examples/reference-server/auth.js'
import { tunnel, type TunnelOptions } from '../../../examples/reference-server/tunnel.js'
import { eventually, Wire } from '../kit/wire.js'

const servers: Server[] = []
const sockets = new Set<Socket>()
after(() => {
  for (const socket of sockets) socket.destroy()
  for (const server of servers) server.close()
})

async function listening(server: Server): Promise<number> {
  servers.push(server)
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/** A server that does with each connection what it is told. */
const tcp = (use: (socket: Socket) => void): Promise<number> =>
  listening(
    createTcp({ allowHalfOpen: true }, (socket) => {
      socket.on('error', () => {})
      use(socket)
    }),
  )

async function proxy(options: Partial<TunnelOptions> = {}): Promise<number> {
  const server = createServer()
  const connect = tunnel({ allow: [`127.0.0.1:${await echoing}`], ...options })
  server.on('connect', connect)
  attach(server, () => ({ status: 200, headers: {}, body: 'plain' }))
  return listening(server)
}

const open = (port: number, target: string, more = '', head = ''): Wire =>
  new Wire(port, `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${more}\r\n${head}`)

async function refused(
  port: number,
  target: string,
  more = '',
): Promise<{ status: number; code: string; text: string }> {
  const text = await open(port, target, more).end()
  const [, status = '0'] = /^HTTP\/1\.1 (\d+) /.exec(text) ?? []
  return { status: Number(status), code: /"code":"(\w+)"/.exec(text)?.[1] ?? '', text }
}

const echoing = tcp((socket) => socket.pipe(socket))
const echo = async () => `127.0.0.1:${await echoing}`

describe('an open tunnel', () => {
  test('SPEC 4.1.CONNECT: gets a 200 when it is established, and then passes bytes in both directions', async () => {
    const port = await proxy()
    const wire = open(port, await echo(), '', 'early ')
    await wire.until(/early/)
    wire.socket.write('late')
    await wire.until(/late$/)
    assert.match(wire.text, /^HTTP\/1\.1 200 Connection Established\r\n/)
    assert.doesNotMatch(wire.text, /content-length|transfer-encoding/i)
    wire.socket.end()
    assert.match(await wire.end(), /\r\n\r\nearly late$/)
  })
  test('lets each side end its direction separately', async () => {
    const target = await tcp((socket) => {
      socket.end('all that I say')
      let heard = ''
      socket.on('data', (text) => { heard += String(text) })
      socket.on('end', () => { said.push(heard) })
    })
    const said: string[] = []
    const port = await proxy({ allow: [`127.0.0.1:${target}`] })
    const wire = open(port, `127.0.0.1:${target}`)
    wire.socket.allowHalfOpen = true
    await wire.until(/all that I say/)
    wire.socket.end('and I say this later')
    await wire.end()
    await eventually(() => said.length > 0, 'the end of the client at the other side')
    assert.deepEqual(said, ['and I say this later'])
  })
  test('sends as fast as its slower side reads', async () => {
    let written = 0
    const target = await tcp((socket) => {
      const chunk = Buffer.alloc(65_536)
      const pump = (): void => {
        do written += chunk.length
        while (socket.write(chunk) && !socket.destroyed)
      }
      socket.on('drain', pump)
      pump()
    })
    const port = await proxy({ allow: [`127.0.0.1:${target}`] })
    const wire = open(port, `127.0.0.1:${target}`)
    wire.socket.once('data', () => wire.socket.pause())
    await once(wire.socket, 'pause')
    let before = -1
    // What the kernels hold is a few MiB; a tunnel that reads on regardless would never stand still.
    await eventually(async () => {
      const still = before === written
      before = written
      await new Promise((resolve) => { setTimeout(resolve, 100) })
      return still
    }, 'a stand still')
    assert.ok(written < 64 * 1024 * 1024, String(written))
    wire.socket.destroy()
  })
  test('is destroyed on one side when the other side fails', async () => {
    const others: Socket[] = []
    const target = await tcp((socket) => { others.push(socket) })
    const port = await proxy({ allow: [`127.0.0.1:${target}`] })
    const one = open(port, `127.0.0.1:${target}`)
    await one.until(/200/)
    await eventually(() => others.length === 1, 'a connection')
    others[0]?.resetAndDestroy()
    await one.end()
    const two = open(port, `127.0.0.1:${target}`)
    await two.until(/200/)
    await eventually(() => others.length === 2, 'a connection')
    two.socket.resetAndDestroy()
    await eventually(() => others[1]?.destroyed === true, 'the other side gone')
  })
  test('is closed if it has no traffic', async () => {
    const target = await tcp(() => {})
    const port = await proxy({ allow: [`127.0.0.1:${target}`], idleTimeoutMs: 50 })
    const wire = open(port, `127.0.0.1:${target}`)
    assert.match(await wire.end(), /^HTTP\/1\.1 200 /)
  })
  test('counts toward maxTunnels while it is open, and makes room when it ends', async () => {
    const port = await proxy({ maxTunnels: 1 })
    const first = open(port, await echo())
    await first.until(/200/)
    assert.deepEqual((await refused(port, await echo())).code, 'overloaded')
    first.socket.end()
    await first.end()
    await eventually(async () => {
      const next = open(port, await echo())
      await next.until(/\r\n\r\n/)
      next.socket.destroy()
      return next.text.includes(' 200 ')
    }, 'room')
  })
})

describe('a tunnel', () => {
  test('is not opened to a target that is not allowed', async () => {
    const port = await proxy({ allow: [await echo(), 'example.com:443'] })
    for (const target of ['127.0.0.1:1', 'example.com:80', 'localhost:80', '[::1]:443', 'example.com.:443']) {
      assert.deepEqual((await refused(port, target)).code, 'forbidden', target)
    }
    for (const target of ['127.0.0.1', 'example.com:0', 'example.com:99999', 'a@b:1', '/x'])
      assert.equal((await refused(port, target)).status, 400, target)
  })
  test('is not opened if a public name leads to a private address', async () => {
    let asked = 0
    const resolve = async () => [{ address: asked++ === 0 ? '127.0.0.1' : '169.254.169.254', family: 4 }]
    const port = await proxy({ allow: ['public.example:80'], resolve })
    assert.deepEqual(
      [(await refused(port, 'public.example:80')).code, (await refused(port, 'Public.Example:80')).code],
      ['forbidden', 'forbidden'],
    )
  })
  test('is opened to a listed name that is never public, and to a name whose address is listed', async () => {
    const at = await echoing
    const resolve = async () => [{ address: '127.0.0.1', family: 4 }]
    const port = await proxy({ allow: [`localhost:${at}`, `public.example:${at}`, `127.0.0.1:${at}`], resolve })
    for (const host of ['localhost', 'public.example']) {
      const wire = open(port, `${host}:${at}`)
      await wire.until(/ 200 /)
      wire.socket.destroy()
    }
  })
  test('SPEC 7.502: gets a 502 without details of the network if its target is unreachable', async () => {
    const gone = await tcp(() => {})
    servers.at(-1)?.close()
    const port = await proxy({
      allow: [`127.0.0.1:${gone}`, 'nowhere.example:80'],
      resolve: async () => {
        throw new Error('ENOTFOUND 10.1.2.3')
      },
    })
    for (const target of [`127.0.0.1:${gone}`, 'nowhere.example:80']) {
      const { status, code, text } = await refused(port, target)
      assert.deepEqual([status, code, /ECONNREFUSED|ENOTFOUND|10\.1/.test(text)], [502, 'bad_gateway', false])
    }
  })
  test('SPEC 7.504: gets a 504 if its target does not respond in time', async () => {
    const port = await proxy({ allow: ['slow.example:80'], resolve: () => new Promise(() => {}), connectTimeoutMs: 50 })
    assert.deepEqual((await refused(port, 'slow.example:80')).code, 'gateway_timeout')
  })
  test('is opened after the policies, which see the caller and the target', async () => {
    const seen: unknown[] = []
    const policy: Policy<Context> = (request, next) => {
      seen.push([request.method, request.path, request.headers['authorization'], request.peerAddress])
      if (request.headers['authorization'] !== 'Bearer good')
        throw httpError('unauthorized', { headers: { 'www-authenticate': 'Bearer' } })
      return next(request)
    }
    const port = await proxy({ policies: [policy] })
    const none = await refused(port, await echo())
    assert.deepEqual([none.status, /www-authenticate: Bearer/.test(none.text)], [401, true])
    const wire = open(port, await echo(), 'Proxy-Authorization: Bearer good\r\n')
    await wire.until(/ 200 /)
    wire.socket.destroy()
    assert.deepEqual(
      seen,
      [undefined, 'Bearer good'].map((token) => [
        'CONNECT',
        seen.length > 0 ? (seen[0] as unknown[])[1] : '',
        token,
        '127.0.0.1',
      ]),
    )
  })
  test('is not opened for a client that has disconnected', async () => {
    let found = (): void => {}
    const looking = new Promise<void>((resolve) => { found = resolve })
    let answer = (_: { address: string, family: number }[]): void => {}
    const connections: Socket[] = []
    const target = await tcp((socket) => { connections.push(socket) })
    const port = await proxy({
      allow: [`db:${target}`],
      resolve: () => {
        found()
        return new Promise((resolve) => {
          answer = resolve
        })
      },
    })
    const wire = open(port, `db:${target}`)
    await looking
    wire.socket.destroy()
    await wire.end()
    const next = new Wire(port, 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    assert.match(await next.end(), /plain/)
    answer([{ address: '127.0.0.1', family: 4 }])
    const last = new Wire(port, 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    assert.match(await last.end(), /plain/)
    assert.deepEqual(connections, [])
  })
})

test('an entry of the option allow is a host and a port', () => {
  for (const entry of [
    '', 'a', ':1', 'a:', 'a:1:2', '[::1]', '[a]:1', '[1.2.3.4]:1', 'a b:1', '2001:db8::1:80',
    'a:65536', 'a/b:1', 'https://example.com:443',
  ]) {
    assert.throws(() => tunnel({ allow: [entry] }), TypeError, entry)
  }
})
