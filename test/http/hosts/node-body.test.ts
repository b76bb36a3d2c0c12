import assert from 'node:assert/strict'
import express from 'express'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { type RequestListener } from 'node:http'
import { connect } from 'node:net'
import { describe, test } from 'node:test'
import { toNode, type NodeRaw } from '../../../adapters/node/index.js'
import { httpError } from '../../../src/http/errors.js'
import type { Handler, HttpRequest } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import { serving } from '../kit/hosts.js'
import { ask, eventually, Wire } from '../kit/wire.js'

const express4 = createRequire(import.meta.url)('express4') as typeof express

const show: Handler = async (request: HttpRequest) => {
  const { parsed } = request.body
  const bytes = await request.body.bytes(1000)
  return json(200, { parsed: parsed?.value, text: bytes && Buffer.from(bytes).toString() })
}

const streamed: Handler = async (request: HttpRequest) => {
  let text = ''
  for await (const chunk of request.body.stream()) text += Buffer.from(chunk).toString()
  return json(200, { text })
}

async function post(port: number, type: string, body: string): Promise<unknown> {
  return JSON.parse((await ask(port, 'POST', '/', { body, headers: { 'content-type': type } })).body)
}

describe('toNode: bodies that a parser has seen', () => {
  for (const [name, make] of [['Express 4', express4], ['Express 5', express]] as const) {
    test(`a body that ${name}'s parser left alone is read from the connection`, async () => {
      await serving(make().use(make.json(), toNode(show)) as RequestListener, async (port) => {
        assert.deepEqual(await post(port, 'application/x-ndjson', '{}\n{}\n'), { text: '{}\n{}\n' })
      })
      await serving(make().use(make.json(), toNode(streamed)) as RequestListener, async (port) => {
        assert.deepEqual(await post(port, 'application/x-ndjson', '{}\n{}\n'), { text: '{}\n{}\n' })
      })
    })

    test(`bytes and text that ${name} read are given as bytes`, async () => {
      for (const parser of [make.raw({ type: '*/*' }), make.text({ type: '*/*' })]) {
        await serving(
          make().use(
            parser,
            toNode(async (request) =>
              json(200, [
                request.body.parsed !== undefined,
                Buffer.from((await request.body.bytes(4)) ?? []).toString(),
                (await request.body.bytes(3)) === undefined,
              ]),
            ),
          ) as RequestListener,
          async (port) => {
            assert.deepEqual(await post(port, 'text/plain', 'größ'.slice(0, 3)), [true, 'grö', true])
          },
        )
        await serving(make().use(parser, toNode(streamed)) as RequestListener, async (port) => {
          assert.deepEqual(await post(port, 'text/plain', 'größer'), { text: 'größer' })
        })
      }
    })
  }

  for (const [how, handler] of [['bytes', show], ['stream', streamed]] as const) {
    test(`${how}: a body that was consumed fails with an error that says what to do`, () => {
      const errors: unknown[] = []
      const handle = toNode(handler, { onError: (error) => errors.push(error) })
      return serving((req, res) => {
        req.resume().on('end', () => handle(req, res))
      }, async (port) => {
        const { status, body } = await ask(port, 'POST', '/', { body: 'gone' })
        assert.deepEqual([status, JSON.parse(body).code], [500, 'internal_error'])
        assert.match(String(errors[0]), /before the body parser.*\{ body \}/)
      })
    })

    test(`${how}: a parsed value cannot be read as bytes`, () => {
      const errors: unknown[] = []
      const app = express().use(express.json(), toNode(handler, { onError: (error) => errors.push(error) }))
      return serving(app as RequestListener, async (port) => {
        await post(port, 'application/json', '{"a":1}')
        assert.equal(errors.length, 1)
      })
    })
  }

  test('a body can be read once', () => {
    const errors: unknown[] = []
    const handle = toNode(async (request) => {
      await request.body.bytes(10)
      await request.body.bytes(10)
      return json(200, {})
    }, { onError: (error) => errors.push(error) })
    return serving(handle, async (port) => {
      assert.equal((await ask(port, 'POST', '/', { body: 'x' })).status, 500)
      assert.match(String(errors[0]), /only once/)
    })
  })

  test('reading after the client has disconnected fails at once', () => {
    let code: unknown
    const handle = toNode(async (request) => {
      const { res } = request.raw as NodeRaw
      await new Promise((resolve) => res.on('close', resolve))
      code = await request.body.bytes(10).catch((error: unknown) => (error as { code: string }).code)
      return json(200, {})
    })
    let got = false
    return serving((req, res) => { handle(req, res); got = true }, async (port) => {
      const wire = new Wire(port, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n')
      await eventually(() => got, 'arrives')
      wire.socket.destroy()
      await eventually(() => code !== undefined, 'the body fails')
      assert.equal(code, 'incomplete_body')
    })
  })

  test('a stream that breaks off throws incomplete_body', () => {
    let code: unknown
    let first = false
    const handle = toNode(async (request) => {
      try {
        for await (const _ of request.body.stream()) first = true
      } catch (error) {
        code = (error as { code: string }).code
      }
      return json(200, {})
    })
    return serving(handle, async (port) => {
      const wire = new Wire(port, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12')
      await eventually(() => first, 'the first chunk')
      wire.socket.destroy()
      await eventually(() => code !== undefined, 'the stream fails')
      assert.equal(code, 'incomplete_body')
    })
  })

  test('a slow reader of a stream slows its sender down', () => {
    let go = (): void => {}
    const gate = new Promise<void>((resolve) => { go = resolve })
    let size = 0
    const handle = toNode(async (request) => {
      for await (const chunk of request.body.stream()) {
        size += chunk.byteLength
        await gate
      }
      return json(200, { size })
    })
    return serving(handle, async (port) => {
      const socket = connect(port, '127.0.0.1')
      const total = 64 * 1024 * 1024
      let text = ''
      socket.on('data', (chunk) => { text += String(chunk) })
      socket.write(`POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: ${total}\r\n\r\n`)
      socket.write(Buffer.alloc(total))
      await eventually(() => size > 0, 'the first chunk')
      let before = -1
      while (before !== socket.bytesWritten - socket.writableLength) {
        before = socket.bytesWritten - socket.writableLength
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
      assert.ok(socket.writableLength > 0, 'all was taken though nobody read')
      go()
      await new Promise((resolve) => socket.on('close', resolve))
      assert.match(text, new RegExp(`"size":${total}`))
    })
  })
})

const CAP = 1_000_000
const capped: Handler = async (request) => {
  if (await request.body.bytes(CAP) === undefined) throw httpError('body_too_large')
  return json(200, {})
}
const unread: Handler = () => { throw httpError('unauthorized') }
const half: Handler = async (request) => {
  for await (const _ of request.body.stream()) break
  return json(202, {})
}

/** Writes everything before it reads anything, as simple clients do. */
async function stubborn(port: number, head: string, size: number): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.pause()
  socket.write(`POST / HTTP/1.1\r\nHost: a\r\n${head}\r\n\r\n`)
  const piece = Buffer.alloc(256 * 1024)
  for (let sent = 0; sent < size; sent += piece.length) {
    const chunk = head.includes('chunked')
      ? Buffer.concat([Buffer.from('40000\r\n'), piece, Buffer.from('\r\n')])
      : piece
    if (!socket.write(chunk)) await once(socket, 'drain')
  }
  let text = ''
  socket.on('data', (chunk) => { text += String(chunk) })
  socket.resume()
  await once(socket, 'close')
  return text
}

describe('toNode: bodies that are not wanted', () => {
  const total = 400 * 256 * 1024
  for (const [what, handler, status] of [
    ['over the cap', capped, 413],
    ['unread', unread, 401],
    ['half read', half, 202],
  ] as const) {
    for (const head of [`Content-Length: ${total}`, 'Transfer-Encoding: chunked']) {
      test(
        `a client that writes 100 MB before it reads gets its ${status} (${what}, ${head.split(':')[0]})`,
        { timeout: 20_000 },
        () =>
          serving(toNode(handler), async (port) => {
            const before = process.memoryUsage().rss
            const text = await stubborn(port, head, total)
            assert.match(text, new RegExp(`^HTTP/1.1 ${status} `))
            assert.match(text, /connection: close/i)
            assert.match(text, /\r\n\r\n\{.*\}$/)
            assert.ok(process.memoryUsage().rss - before < 80e6, 'the body was kept')
          }),
      )
    }
  }

  test('a client that wants the connection closed still gets the whole streamed response', { timeout: 20_000 }, () => {
    const long: Handler = async (request) => {
      for await (const _ of request.body.stream()) break
      return {
        status: 202,
        headers: {},
        body: (async function* () {
          for (let at = 0; at < 40; at++) yield 'y'.repeat(50_000)
        })(),
      }
    }
    return serving(toNode(long), async (port) => {
      const text = await stubborn(port, 'Transfer-Encoding: chunked\r\nConnection: close', total)
      assert.equal(text.split('y').length - 1, 2_000_000)
      assert.ok(text.endsWith('\r\n0\r\n\r\n'))
    })
  })

  test('a client that never stops sending is cut off', { timeout: 60_000 }, () =>
    serving(toNode(unread), async (port) => {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => {})
      let text = ''
      socket.on('data', (chunk) => { text += String(chunk) })
      socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000000\r\n\r\n')
      const timer = setInterval(() => socket.write('drip'), 100)
      await new Promise((resolve) => socket.once('close', resolve))
      clearInterval(timer)
      assert.match(text, /^HTTP\/1.1 401 /)
    }))

  for (const [what, handler, status] of [['unread', unread, 401], ['half read', half, 202]] as const) {
    test(`a small body that was ${what} leaves the connection in use`, () =>
      serving(toNode(handler), async (port) => {
        const wire = new Wire(port, `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n${'x'.repeat(20_000)}`)
        await wire.until(new RegExp(`${status} [^]*\\}$`))
        assert.doesNotMatch(wire.text, /connection: close/i)
        wire.text = ''
        // More than Node keeps for a reader, then a pause: whoever does not read on stands still here.
        wire.socket.write('x'.repeat(30_000))
        await new Promise((resolve) => setTimeout(resolve, 50))
        wire.socket.write(`${'x'.repeat(10_000)}POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx`)
        await wire.until(new RegExp(`${status} [^]*\\}$`))
        wire.socket.destroy()
      }))
  }

  test('the listeners of a reader that gave up are removed', async () => {
    let counts: number[] = []
    const handle = toNode(async (request) => {
      const { req } = request.raw as NodeRaw
      const count = (): number[] =>
        ['data', 'end', 'error', 'close', 'readable'].map((event) => req.listenerCount(event))
      const before = count()
      if (request.path === '/bytes') await request.body.bytes(10)
      else for await (const _ of request.body.stream()) break
      counts = count().map((n, i) => n - (before[i] as number))
      return json(200, {})
    })
    await serving(handle, async (port) => {
      for (const path of ['/bytes', '/stream']) {
        await ask(port, 'POST', path, { body: 'x'.repeat(100), headers: { 'transfer-encoding': 'chunked' } })
        assert.deepEqual(counts, [0, 0, 0, 0, 0], path)
      }
    })
  })

  test('a response can be streamed while the request is still read', () => {
    const handle = toNode((request) => ({
      status: 200,
      headers: { 'content-type': 'text/plain' },
      body: (async function* () {
        for await (const chunk of request.body.stream()) yield Buffer.from(chunk).toString().toUpperCase()
      })(),
    }))
    return serving(handle, async (port) => {
      const wire = new Wire(port, 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n')
      await wire.until(/\r\nA\r\n/)
      wire.socket.write('1\r\nb\r\n0\r\n\r\n')
      await wire.until(/\r\nB\r\n[^]*0\r\n\r\n$/)
      assert.doesNotMatch(wire.text, /connection: close/i)
      wire.text = ''
      wire.socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nc')
      await wire.until(/\r\nC\r\n/)
      wire.socket.destroy()
    })
  })
})
