// Bodies that a parser of the framework has read as bytes or text, some of them still compressed.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { describe, test } from 'node:test'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import express from 'express'
import express4 from 'express4'
import fastify from 'fastify'
import { createTasks, defineTask, json, router, taskEndpoints, type Handler } from 'longhaul'
import { bulkCreate } from 'longhaul/bulk'
import { toFastify } from 'longhaul/fastify'
import { toFetch } from 'longhaul/fetch'
import { readBytes } from 'longhaul/http'
import { memory } from 'longhaul/memory'
import { ndjsonUpload } from 'longhaul/ndjson'
import { toNode } from 'longhaul/node'
import { listen } from '../../kit/listen.js'

type Sent = string | Uint8Array<ArrayBuffer> | ReadableStream
type Send = (path: string, type: string, body: Sent, headers?: Record<string, string>) => Promise<[number, unknown]>
type Mount = (handler: Handler<unknown>) => Promise<{ readonly url: string, close(): Promise<void> }>

const echo = defineTask({ name: 'echo', run: (input: unknown) => ({ input }) })

/** Mounts a task, a bulk, an upload and a handler of bytes, and calls `use` with a client. */
async function served(mount: Mount, use: (send: Send, errors: unknown[]) => Promise<void>): Promise<void> {
  const tasks = createTasks({ ...memory(), definitions: [echo] })
  const { submit } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const errors: unknown[] = []
  const routes = router<unknown>({
    'POST /task': submit(echo),
    'POST /optional': submit(echo, { emptyBody: 'nothing' }),
    'POST /bulk': bulkCreate({ repository: { create: (draft: object) => ({ id: 1, ...draft }) } }),
    'POST /lines': ndjsonUpload({ write: () => undefined }),
    'POST /bytes': async (request) =>
      json(200, { bytes: Buffer.from(await readBytes(request, { maxBodyBytes: 1000 })).toString('latin1') }),
  })
  const server = await mount(async (request) => {
    try {
      return await routes(request)
    } catch (error) {
      errors.push(error)
      throw error
    }
  })
  const send: Send = async (path, type, body, headers = {}) => {
    const response = await fetch(`${server.url}/${path}`, {
      method: 'POST', body, headers: { 'content-type': type, ...headers }, duplex: 'half',
    })
    return [response.status, await response.json()]
  }
  try {
    await use(send, errors)
  } finally {
    await server.close()
    await tasks.close({ drainMs: 0 })
  }
}

const withExpress = (make: () => ReturnType<typeof express4>, ...parsers: unknown[]): Mount => (handler) => {
  const app = make()
  for (const parser of parsers) app.use(parser as ReturnType<typeof express4.json>)
  app.use(toNode(handler, { onError: () => undefined }))
  return listen(createServer(app))
}

const withFastify = (parseAs?: 'buffer' | 'string'): Mount => async (handler) => {
  const app = fastify()
  if (parseAs !== undefined) {
    app.removeAllContentTypeParsers()
    app.addContentTypeParser('*', { parseAs }, (_request, body, done) => { done(null, body) })
  }
  app.post('/:name', toFastify(handler, { onError: () => undefined }))
  return { url: await app.listen({ port: 0, host: '127.0.0.1' }), close: async () => { await app.close() } }
}

const chunked = (bytes: string | Uint8Array): ReadableStream => new ReadableStream({
  start: (controller) => {
    controller.enqueue(Buffer.from(bytes))
    controller.close()
  },
})

const JSON_TYPE = 'application/json'
const NDJSON = 'application/x-ndjson'
const CODINGS = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync }
const ITEMS = JSON.stringify([{ name: 'Ada' }, { name: 'Grace' }])
const LINES = '{"name":"Ada"}\n{"name":"Grace"}\n'

const codeOf = ([status, body]: readonly [number, unknown]): unknown[] => [status, (body as { code?: string }).code]
const inputOf = ([status, body]: readonly [number, unknown]): unknown[] => [
  status,
  (body as { input?: unknown }).input ?? (body as { code?: string }).code,
]
const summaryOf = ([status, body]: readonly [number, unknown]): unknown[] => [
  status,
  (body as { summary?: { succeeded: number } }).summary?.succeeded,
]

for (const parseAs of ['buffer', 'string'] as const) {
  describe(`behind a parser of Fastify with parseAs: '${parseAs}'`, () => {
    test('an uncompressed body is read as JSON, lines and bytes', async () => {
      await served(withFastify(parseAs), async (send) => {
        assert.deepEqual(inputOf(await send('task', JSON_TYPE, '{"a":1}')), [200, { a: 1 }])
        assert.deepEqual(summaryOf(await send('bulk', JSON_TYPE, ITEMS)), [201, 2])
        assert.deepEqual(summaryOf(await send('lines', NDJSON, LINES)), [200, 2])
        assert.deepEqual(await send('bytes', 'text/csv', 'a,b'), [200, { bytes: 'a,b' }])
        assert.deepEqual(codeOf(await send('task', JSON_TYPE, '{"n":12345678901234567890}')), [400, 'inexact_value'])
      })
    })

    test('a compressed body is decompressed where it would be without the parser, or gets a 415', async () => {
      await served(withFastify(parseAs), async (send) => {
        const rejected = [415, 'unsupported_content_coding']
        const isKept = parseAs === 'buffer'
        for (const [coding, encode] of Object.entries(CODINGS)) {
          const headers = { 'content-encoding': coding }
          for (const sent of [
            (text: string) => encode(text) as Uint8Array<ArrayBuffer>,
            (text: string) => chunked(encode(text)),
          ]) {
            assert.deepEqual(
              codeOf(await send('task', JSON_TYPE, sent('{"name":"Ada Lovelace"}'), headers)),
              rejected,
              coding,
            )
            assert.deepEqual(
              codeOf(await send('bytes', 'text/csv', sent('name,age\nAda,36\n'), headers)),
              rejected,
              coding,
            )
            const bulk = await send('bulk', JSON_TYPE, sent(ITEMS), headers)
            assert.deepEqual(isKept ? summaryOf(bulk) : codeOf(bulk), isKept ? [201, 2] : rejected, coding)
            const lines = await send('lines', NDJSON, sent(LINES), headers)
            assert.deepEqual(isKept ? summaryOf(lines) : codeOf(lines), isKept ? [200, 2] : rejected, coding)
          }
        }
      })
    })
  })
}

test("a JSON string that Fastify's own parser has parsed is a value", async () => {
  await served(withFastify(), async (send) => {
    assert.deepEqual(inputOf(await send('task', JSON_TYPE, '"123"')), [200, '123'])
    assert.deepEqual(codeOf(await send('task', JSON_TYPE, chunked('"123"'))), [400, 'invalid_header'])
    assert.equal((await send('task', JSON_TYPE, gzipSync('{"a":1}'), { 'content-encoding': 'gzip' }))[0], 400)
  })
})

test('a compressed body that a parser of Fastify left as bytes obeys the limit of decoded bytes', async () => {
  const mount: Mount = () => withFastify('buffer')(ndjsonUpload({ write: () => undefined, maxDecodedBytes: 100 }))
  await served(mount, async (send) => {
    assert.deepEqual(codeOf(await send('lines', NDJSON, gzipSync(LINES.repeat(100)), { 'content-encoding': 'gzip' })), [
      413,
      'body_too_large',
    ])
  })
})

for (const [version, make] of [['5', express], ['4', express4]] as const) {
  describe(`behind a parser of Express ${version}`, () => {
    test('text that express.text left is read as JSON, and not as a string', async () => {
      await served(withExpress(make, make.text({ type: '*/*' })), async (send) => {
        assert.deepEqual(inputOf(await send('task', JSON_TYPE, '{"a":"é"}')), [200, { a: 'é' }])
        assert.deepEqual(inputOf(await send('task', JSON_TYPE, '"text"')), [200, 'text'])
        assert.deepEqual(inputOf(await send('task', JSON_TYPE, '{"a":')), [400, 'malformed_json'])
        assert.deepEqual(inputOf(await send('task', JSON_TYPE, '{"n":12345678901234567890}')), [400, 'inexact_value'])
        assert.deepEqual(summaryOf(await send('lines', NDJSON, LINES)), [200, 2])
        assert.deepEqual(summaryOf(await send('bulk', JSON_TYPE, ITEMS)), [201, 2])
      })
    })

    test('text of unknown length gets a 4xx, because it may have been a JSON string', async () => {
      await served(withExpress(make, make.text({ type: '*/*' })), async (send, errors) => {
        assert.deepEqual(codeOf(await send('task', JSON_TYPE, chunked('{"a":1}'))), [400, 'invalid_header'])
        assert.deepEqual(codeOf(await send('task', JSON_TYPE, gzipSync('{"a":1}'), { 'content-encoding': 'gzip' })), [
          415,
          'unsupported_content_coding',
        ])
        assert.deepEqual(codeOf(await send('task', JSON_TYPE, '\ufeff{"a":1}')), [400, 'invalid_header'])
        assert.equal(errors.length, 3)
      })
    })

    test('express.json with `strict: false` leaves strings, which are read as values', async () => {
      await served(withExpress(make, make.json({ strict: false })), async (send) => {
        for (const text of ['123', '{"a":1}', '', 'é\n"\\']) {
          assert.deepEqual(inputOf(await send('task', JSON_TYPE, JSON.stringify(text))), [200, text])
        }
      })
    })

    test('a compressed body that the parser decompressed is read once', async () => {
      for (const parser of [make.raw({ type: '*/*' }), make.json()]) {
        await served(withExpress(make, parser), async (send) => {
          for (const [coding, encode] of Object.entries(CODINGS)) {
            if (coding === 'br' && version === '4') continue
            const headers = { 'content-encoding': coding }
            for (const sent of [
              (text: string) => encode(text) as Uint8Array<ArrayBuffer>,
              (text: string) => chunked(encode(text)),
            ]) {
              assert.deepEqual(
                inputOf(await send('task', JSON_TYPE, sent('{"name":"Ada Lovelace"}'), headers)),
                [200, { name: 'Ada Lovelace' }],
                coding,
              )
              assert.deepEqual(summaryOf(await send('bulk', JSON_TYPE, sent(ITEMS), headers)), [201, 2], coding)
            }
          }
        })
      }
    })

    test('bytes that express.raw decompressed keep their values, even if they are not text', async () => {
      await served(withExpress(make, make.raw({ type: '*/*' })), async (send) => {
        assert.deepEqual(
          await send('bytes', 'image/png', gzipSync(Buffer.from('\x89PNG\xff\xfe', 'latin1')), {
            'content-encoding': 'gzip',
          }),
          [200, { bytes: '\x89PNG\xff\xfe' }],
        )
        assert.deepEqual(
          summaryOf(await send('lines', NDJSON, gzipSync(LINES), { 'content-encoding': 'gzip' })),
          [200, 2],
        )
      })
    })

    test('bytes of unknown length that express.raw decompressed from gzip keep their values', async () => {
      await served(withExpress(make, make.raw({ type: '*/*' })), async (send) => {
        const sent = chunked(gzipSync(Buffer.from('\x89PNG\xff\xfe', 'latin1')))
        assert.deepEqual(await send('bytes', 'image/png', sent, { 'content-encoding': 'gzip' }), [
          200,
          { bytes: '\x89PNG\xff\xfe' },
        ])
      })
    })

    test('text that express.text decompressed from gzip may contain U+FFFD', async () => {
      await served(withExpress(make, make.text({ type: '*/*' })), async (send) => {
        const sent = gzipSync('{"name":"\ufffd"}\n')
        assert.deepEqual(summaryOf(await send('lines', NDJSON, sent, { 'content-encoding': 'gzip' })), [200, 1])
      })
    })

    test('a form that express.urlencoded has parsed is not JSON', async () => {
      await served(withExpress(make, make.urlencoded({ extended: true })), async (send) => {
        assert.deepEqual(codeOf(await send('task', 'application/x-www-form-urlencoded', 'a=1')), [
          415,
          'unsupported_media_type',
        ])
        assert.deepEqual(inputOf(await send('task', JSON_TYPE, '{"a":1}')), [200, { a: 1 }])
      })
    })

    test('an empty body gets missing_body, although the parser has set a value', async () => {
      for (const parser of [
        make.json(),
        make.text({ type: '*/*' }),
        make.raw({ type: '*/*' }),
        make.urlencoded({ extended: true, type: '*/*' }),
      ]) {
        await served(withExpress(make, parser), async (send) => {
          assert.deepEqual(inputOf(await send('task', JSON_TYPE, '')), [400, 'missing_body'])
          assert.deepEqual(inputOf(await send('optional', JSON_TYPE, '')), [200, 'nothing'])
        })
      }
    })
  })
}

describe('behind middleware that reads a body as another type', () => {
  const asked = async (body: unknown): Promise<[number, unknown]> => {
    const errors: unknown[] = []
    const tasks = createTasks({ ...memory(), definitions: [echo] })
    const { submit } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
    const handle = toFetch(submit(echo), { onError: (error) => { errors.push(error) } })
    const request = new Request('http://h/', {
      method: 'POST',
      body: '{"a":1}',
      headers: { 'content-type': JSON_TYPE, 'content-length': '7' },
    })
    await request.arrayBuffer()
    const response = await handle(request, { body })
    await tasks.close({ drainMs: 0 })
    return [
      response.status,
      errors.length > 0 ? String(errors[0]) : ((await response.json()) as { input: unknown }).input,
    ]
  }

  test('an ArrayBuffer and a view of an ArrayBuffer are read as bytes', async () => {
    const bytes = new TextEncoder().encode('{"a":1}')
    for (const body of [bytes, bytes.buffer, new DataView(bytes.buffer)])
      assert.deepEqual(await asked(body), [200, { a: 1 }])
  })

  test('a stream, a form and a Blob are errors that name the parser to the operator', async () => {
    const form = new FormData()
    for (const body of [chunked('{"a":1}'), form, new URLSearchParams('a=1'), new Blob(['{"a":1}'])]) {
      const [status, error] = await asked(body)
      assert.equal(status, 500)
      assert.match(String(error), /was read before longhaul got the request/)
    }
  })
})
