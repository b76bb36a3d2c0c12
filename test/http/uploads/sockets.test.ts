import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { connect as connect2, createServer as createServer2 } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { after, describe, test } from 'node:test'
import { PARTIAL, sha256 } from '../../unit/kit/uploads.js'
import { open as openSite, site } from '../kit/uploads.js'
import { listen } from '../../kit/listen.js'

const servers: { close(): unknown }[] = []
after(() => { for (const server of servers) server.close() })

async function open(...how: Parameters<typeof openSite>) {
  const opened = await openSite(...how)
  servers.push(opened)
  return opened
}

const head = (path: string, fields: Record<string, string>, method = 'PATCH') =>
  `${method} ${path} HTTP/1.1\r\nHost: x\r\n${Object.entries(fields)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}\r\n`

async function socketTo(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  return socket
}

async function offsetOf(url: string): Promise<number> {
  const answer = await fetch(url, { method: 'HEAD' })
  assert.equal(answer.status, 204)
  return Number(answer.headers.get('upload-offset'))
}

describe('an upload over node:http', () => {
  test('has identical bytes and runs its handler once over a socket that is cut again and again', async () => {
    const { port, seen, base } = await open({ partBytes: 64 * 1024 })
    const bytes = randomBytes(2_000_000)
    const created = await fetch(`${base}/api/files`, {
      method: 'POST',
      headers: { 'upload-complete': '?0', 'upload-length': String(bytes.length) },
    })
    const path = String(created.headers.get('location'))
    assert.match(path, /^\/api\/uploads\//)
    let offset = 0
    for (let cuts = 1; cuts <= 20; cuts++) {
      const socket = await socketTo(port)
      const rest = bytes.subarray(offset)
      socket.write(
        head(path, {
          'Content-Type': PARTIAL,
          'Upload-Offset': String(offset),
          'Upload-Complete': '?1',
          'Content-Length': String(rest.length),
        }),
      )
      const sent = Math.min(cuts * 7001, rest.length - 1)
      await new Promise<void>((resolve) => { socket.write(rest.subarray(0, sent), () => { resolve() }) })
      if (cuts % 2 === 0) socket.end()
      else socket.resetAndDestroy()
      const next = await offsetOf(base + path)
      // A request that was still on its way may count after the HEAD.
      assert.ok(next >= offset && next < bytes.length, `${offset} to ${next}`)
      socket.destroy()
      offset = next
    }
    offset = await offsetOf(base + path)
    const last = await fetch(base + path, {
      method: 'PATCH', body: bytes.subarray(offset),
      headers: { 'content-type': PARTIAL, 'upload-offset': String(offset), 'upload-complete': '?1' },
    })
    assert.deepEqual(await last.json(), { size: bytes.length, sha256: sha256(bytes) })
    assert.equal(seen.length, 1)
  })

  test('keeps all sent bytes if the connection ends in the middle', async () => {
    const { port, base } = await open()
    const created = await fetch(`${base}/api/files`, { method: 'POST', headers: { 'upload-complete': '?0' } })
    const path = String(created.headers.get('location'))
    for (let offset = 0; offset < 500_000; offset += 100_000) {
      const socket = await socketTo(port)
      const fields = {
        'Content-Type': PARTIAL,
        'Upload-Offset': String(offset),
        'Upload-Complete': '?1',
        'Content-Length': String(900_000 - offset),
      }
      socket.resume().write(head(path, fields))
      socket.end(Buffer.alloc(100_000))
      await once(socket, 'close')
      assert.equal(await offsetOf(base + path), offset + 100_000)
    }
  })

  test('is ended by a HEAD after its client has disconnected', async () => {
    const { port, base } = await open()
    const created = await fetch(`${base}/api/files`, { method: 'POST', headers: { 'upload-complete': '?0' } })
    const path = String(created.headers.get('location'))
    const silent = await socketTo(port)
    const fields = {
      'Content-Type': PARTIAL,
      'Upload-Offset': '0',
      'Upload-Complete': '?1',
      'Content-Length': '1000000',
    }
    silent.write(head(path, fields) + 'half of it')
    let received = ''
    silent.on('data', (data: Buffer) => { received += data.toString() })
    // Until its bytes are there.
    while (await offsetOf(base + path) !== 10);
    if (!silent.closed) await once(silent, 'close')
    assert.match(received, /^HTTP\/1\.1 409 /)
    assert.match(received, /upload-offset: 10/i)
    assert.match(received, /connection: close/i)
  })

  test('gets a 104 with path and progress if the client has a known interop version', async () => {
    const { port } = await open({ partBytes: 1000 })
    for (const version of ['5', '6', '7', '8', '9', '10', undefined]) {
      const informed: { status: number, headers: IncomingMessage['headers'] }[] = []
      const req = httpRequest({
        port, host: '127.0.0.1', path: '/api/files', method: 'POST',
        headers: { 'upload-complete': '?1', ...version !== undefined && { 'upload-draft-interop-version': version } },
      })
      req.on('information', ({ statusCode, headers }) => { informed.push({ status: statusCode, headers }) })
      req.end(Buffer.alloc(3000))
      const [answer] = await once(req, 'response') as [IncomingMessage]
      answer.resume()
      assert.equal(answer.statusCode, 200)
      assert.equal(answer.headers['upload-complete'], '?1')
      if (version === undefined || version === '10') {
        assert.deepEqual(informed, [])
        continue
      }
      const [first] = informed
      assert.ok(
        informed.every(({ status, headers }) => status === 104 && headers['upload-draft-interop-version'] === version),
      )
      assert.equal(first?.headers['location'], answer.headers['location'])
      assert.match(String(first?.headers['upload-limit']), /max-size=/)
    }
  })

  test('resumes at the path of its 104 if it was sent in one request that broke', async () => {
    const { port, base } = await open()
    const bytes = randomBytes(500_000)
    const req = httpRequest({
      port, host: '127.0.0.1', path: '/api/files', method: 'POST',
      headers: { 'upload-complete': '?1', 'content-length': bytes.length, 'upload-draft-interop-version': '8' },
    })
    req.on('error', () => undefined)
    req.write(bytes.subarray(0, 100_000))
    const [{ headers }] = await once(req, 'information') as [{ headers: IncomingMessage['headers'] }]
    req.destroy()
    const url = base + String(headers['location'])
    const offset = await offsetOf(url)
    const last = await fetch(url, {
      method: 'PATCH', body: bytes.subarray(offset),
      headers: { 'content-type': PARTIAL, 'upload-offset': String(offset), 'upload-complete': '?1' },
    })
    assert.deepEqual(await last.json(), { size: bytes.length, sha256: sha256(bytes) })
  })

  test('gets the 100 of Expect: 100-continue beside the 104', async () => {
    const { port } = await open()
    const socket = await socketTo(port)
    let received = ''
    const both = new Promise<void>((resolve) => {
      socket.on('data', (data: Buffer) => {
        received += data.toString()
        if (/ 104 /.test(received) && / 100 /.test(received)) resolve()
      })
    })
    socket.write(
      head(
        '/api/files',
        {
          'Upload-Complete': '?1',
          'Content-Length': '5',
          'Expect': '100-continue',
          'Upload-Draft-Interop-Version': '8',
          'Connection': 'close',
        },
        'POST',
      ),
    )
    await both
    socket.write('hello')
    await once(socket, 'close')
    assert.match(received, /HTTP\/1\.1 200 /)
  })

  test('gets no informational response over HTTP/1.0', async () => {
    const { port } = await open()
    const socket = await socketTo(port)
    let received = ''
    socket.on('data', (data: Buffer) => { received += data.toString() })
    socket.write(
      'POST /api/files HTTP/1.0\r\nUpload-Complete: ?1\r\nUpload-Draft-Interop-Version: 8\r\nContent-Length: 2\r\n\r\nhi',
    )
    await once(socket, 'close')
    assert.match(received, /^HTTP\/1\.1 200 /)
  })

  test('gets the 104 over HTTP/2', async () => {
    const { listener } = site()
    const server = createServer2((req, res) => { listener(req as never, res as never) })
    servers.push(server)
    const client = connect2(`http://127.0.0.1:${(await listen(server)).port}`)
    const stream = client.request({
      ':method': 'POST', ':path': '/api/files', 'upload-complete': '?1', 'upload-draft-interop-version': '8',
    })
    const informed: Record<string, unknown>[] = []
    stream.on('headers', (headers) => { informed.push(headers) })
    stream.end('hello')
    const [answer] = await once(stream, 'response') as [Record<string, unknown>]
    stream.resume()
    assert.equal(answer[':status'], 200)
    assert.equal(informed[0]?.[':status'], 104)
    assert.match(String(informed[0]?.['location']), /^\/api\/uploads\//)
    client.close()
  })

  test('gives a slow handler all bytes although its client has disconnected, and keeps its response', async () => {
    let runs = 0
    let go = (): void => undefined
    const asked = new Promise<void>((resolve) => { go = resolve })
    let begin = (): void => undefined
    const begun = new Promise<void>((resolve) => { begin = resolve })
    const { port, base } = await open({}, async ({ body, signal }) => {
      runs++
      begin()
      await asked
      const hash = createHash('sha256')
      for await (const chunk of body.stream()) hash.update(chunk)
      return { status: 201, headers: { 'x-aborted': String(signal.aborted) }, body: hash.digest('hex') }
    })
    const created = await fetch(`${base}/api/files`, { method: 'POST', headers: { 'upload-complete': '?0' } })
    const path = String(created.headers.get('location'))
    const socket = await socketTo(port)
    socket.write(
      head(path, { 'Content-Type': PARTIAL, 'Upload-Offset': '0', 'Upload-Complete': '?1', 'Content-Length': '5' }) +
        'hello',
    )
    await begun
    socket.resetAndDestroy()
    const state = await fetch(base + path, { method: 'HEAD' })
    assert.equal(state.headers.get('upload-offset'), '5')
    assert.equal(state.headers.get('upload-complete'), '?0')
    const again = fetch(base + path, {
      method: 'PATCH', headers: { 'content-type': PARTIAL, 'upload-offset': '5', 'upload-complete': '?1' },
    })
    go()
    const answer = await again
    assert.equal(answer.status, 201)
    assert.equal(answer.headers.get('x-aborted'), 'false')
    assert.equal(await answer.text(), sha256('hello'))
    assert.equal(runs, 1)
  })
})
