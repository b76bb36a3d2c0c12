import assert from 'node:assert/strict'
import { request as httpRequest, createServer } from 'node:http'
import { after, before, describe, test } from 'node:test'
import * as zlib from 'node:zlib'
import { createTasks, router, taskEndpoints, type HttpRequest } from 'longhaul'
import { ndjsonUpload, type UploadResult, type WriteContext } from 'longhaul/ndjson'
import type { TaskEngine } from '../../../src/engine/engine.js'
import { memory, MemoryBlobs } from 'longhaul/memory'
import { attach } from 'longhaul/node'
import { listen, type Listening } from '../../kit/listen.js'
import { ask, eventually, Wire } from '../kit/wire.js'

const { brotliCompressSync, deflateSync, gzipSync } = zlib
/** Node 22.15 and later; the types are those of Node 20. */
const zstd = (zlib as unknown as Record<string, ((text: string) => Buffer) | undefined>)['zstdCompressSync']

interface Item { id: number }

const NDJSON = { 'content-type': 'application/x-ndjson' }

describe('an upload over a socket', () => {
  const seen: Item[] = []
  const { engine, store, blobs } = memory()
  let waiting = false
  let stopped = false
  const write = async (records: Item[], { signal }: WriteContext): Promise<void> => {
    if (records.some(({ id }) => id === -2)) {
      waiting = true
      await new Promise((resolve) => { signal.addEventListener('abort', resolve) })
      stopped = true
      // As a database driver does that was given the signal.
      signal.throwIfAborted()
    }
    if (records.some(({ id }) => id === -1)) throw new Error('the database is gone')
    seen.push(...records)
  }
  const upload = ndjsonUpload<Item>({ write, maxLineBytes: 1000, background: { name: 'items', blobs, attempts: 1 } })
  const tasks = createTasks({ engine, store, definitions: [upload.task] })
  const endpoints = taskEndpoints(tasks, {
    statusPath: '/status/{id}',
    anonymous: true,
    owner: ({ headers }: HttpRequest) => headers['x-owner'] as string | undefined,
  })
  let server: Listening
  const errors: unknown[] = []

  before(async () => {
    const http = createServer()
    attach(http, router({
      'POST /upload-ndjson': upload.handler(endpoints),
      'GET|HEAD|DELETE /status/{id}': endpoints.status,
    }), { onError: (error) => errors.push(error) })
    server = await listen(http)
  })
  after(async () => {
    await tasks.close()
    await server.close()
    await blobs.close()
    await store.close()
  })

  const post = (body: string | Buffer, headers: Record<string, string> = {}) =>
    ask(server.port, 'POST', '/upload-ndjson', { headers: { ...NDJSON, ...headers }, body })
  const ended = async (path: string) => {
    const { body } = await ask(server.port, 'GET', path, { headers: { prefer: 'wait=20' } })
    return JSON.parse(body) as {
      status: string
      result?: UploadResult
      error?: { code: string; message: string }
      progress?: { done: number; total: number }
    }
  }

  test('SPEC 4.9, 4.9.upload.1, 4.9.upload.2: gets a message once all lines are read, and skips bad lines', async () => {
    seen.length = 0
    const { status, headers, body } = await post('{"id":1}\nnonsense\n{"id":2}')
    assert.deepEqual([status, headers['content-type']], [200, 'application/json'])
    const { message, summary, items } = JSON.parse(body) as UploadResult
    assert.equal(typeof message, 'string')
    assert.deepEqual([summary, items.map(({ line }) => line)], [{ total: 3, succeeded: 2, failed: 1 }, [2]])
    assert.deepEqual(seen, [{ id: 1 }, { id: 2 }])
  })
  test('SPEC 4.9.upload.3: can use gzip, deflate and br, with several members, and other codings get a 415', async () => {
    const text = '{"id":1}\n{"id":2}\n'
    for (const [coding, body] of [
      ['gzip', gzipSync(text)],
      ['deflate', deflateSync(text)],
      ['br', brotliCompressSync(text)],
      ['x-gzip', Buffer.concat([gzipSync('{"id":1}\n{"i'), gzipSync('d":2}')])],
    ] as const) {
      const answer = await post(body, { 'content-encoding': coding })
      assert.deepEqual((JSON.parse(answer.body) as UploadResult).summary, { total: 2, succeeded: 2, failed: 0 }, coding)
    }
    const refused = await post('x', { 'content-encoding': 'compress' })
    assert.equal(refused.status, 415)
    assert.match(String(refused.headers['accept-encoding']), /gzip/)
  })
  test('SPEC 4.9.upload.3: can use zstd if Node has it, and otherwise gets a 415', async () => {
    const coded = { 'content-encoding': 'zstd' }
    if (!zstd) {
      assert.equal((await post('x', coded)).status, 415)
      return
    }
    const lines = Array.from({ length: 50_000 }, (_, id) => `{"id":${id}}\n`)
    const frames = Buffer.concat([zstd(lines.slice(0, 20_000).join('')), zstd(lines.slice(20_000).join(''))])
    const all = { total: 50_000, succeeded: 50_000, failed: 0 }
    const { body } = await post(frames, coded)
    assert.deepEqual((JSON.parse(body) as UploadResult).summary, all)
    const { headers } = await post(frames, { ...coded, prefer: 'respond-async' })
    assert.deepEqual((await ended(headers.location as string)).result?.summary, all)
    for (const end of [frames.length - 1, frames.length >> 1, 3]) {
      const { status, body } = await post(frames.subarray(0, end), coded)
      assert.deepEqual([status, (JSON.parse(body) as { code: string }).code], [400, 'incomplete_body'])
    }
    const cut = await post(frames.subarray(0, -1), { ...coded, prefer: 'respond-async' })
    assert.equal((await ended(cut.headers.location as string)).error?.code, 'incomplete_body')
  })
  test('gets results while it is sent', async () => {
    const wire = new Wire(
      server.port,
      [
        'POST /upload-ndjson HTTP/1.1', 'Host: x', 'Content-Type: application/x-ndjson',
        'Accept: application/x-ndjson', 'Transfer-Encoding: chunked', '', '',
      ].join('\r\n'),
    )
    const chunk = (text: string): boolean => wire.socket.write(`${text.length.toString(16)}\r\n${text}\r\n`)
    chunk('{"id":1}\nbad\n')
    await wire.until(/"line":1,"status":200/)
    await wire.until(/"line":2,"status":400/)
    assert.ok(!wire.text.includes('summary'))
    chunk('{"id":2}\n')
    await wire.until(/"line":3,"status":200/)
    wire.socket.write('0\r\n\r\n')
    await wire.until(/"summary":\{"total":3,"succeeded":2,"failed":1\}/)
    wire.socket.destroy()
  })
  test('ends when its client disconnects midway, without an effect on other uploads', async () => {
    const req = httpRequest({
      port: server.port,
      host: '127.0.0.1',
      method: 'POST',
      path: '/upload-ndjson',
      headers: NDJSON,
      agent: false,
    })
    req.on('error', () => undefined)
    seen.length = 0
    req.write('{"id":1}\n'.repeat(600))
    const late = Date.now() + 30_000
    while (seen.length === 0 && Date.now() < late) await new Promise((resolve) => setTimeout(resolve, 5))
    assert.equal(seen.length, 500)
    req.destroy()
    assert.equal((await post('{"id":2}')).status, 200)
  })
  test('is not reported as a failure if its client disconnects while its records are written', async () => {
    for (const taken of [0, 500]) {
      errors.length = 0
      waiting = stopped = false
      const req = httpRequest({
        port: server.port,
        host: '127.0.0.1',
        method: 'POST',
        path: '/upload-ndjson',
        headers: NDJSON,
        agent: false,
      })
      req.on('error', () => undefined)
      req.write('{"id":1}\n'.repeat(taken) + '{"id":-2}\n'.repeat(600))
      await eventually(() => waiting, 'a write that waits')
      req.destroy()
      await eventually(() => stopped, 'a write that is told')
      assert.equal((await post('{"id":2}')).status, 200)
      assert.deepEqual(errors, [])
    }
  })
  test('gets a 500 with the records written before a failed write, and onError receives the reason', async () => {
    errors.length = 0
    const { status, body } = await post(`${'{"id":1}\n'.repeat(500)}{"id":-1}\n`)
    const answer = JSON.parse(body) as { code: string; summary: object }
    assert.deepEqual(
      [status, answer.code, answer.summary],
      [500, 'internal_error', { total: 500, succeeded: 500, failed: 0 }],
    )
    assert.ok(!body.includes('database'))
    assert.equal(errors.length, 1)
  })

  describe('with Prefer: respond-async', () => {
    const prefer = { prefer: 'respond-async' }
    /** The keys of the blobs that are written meanwhile. */
    const spooled = async (work: () => Promise<void>): Promise<string[]> => {
      const keys = new Set<string>()
      const put = blobs.put.bind(blobs)
      blobs.put = (key, ...rest) => {
        keys.add(key)
        return put(key, ...rest)
      }
      await work()
      blobs.put = put
      return [...keys]
    }
    const goes = (key: string | undefined) =>
      eventually(async () => (await blobs.stat(key ?? '')) === undefined, 'the blob is deleted')

    test('is spooled with its coding, and a task reads it', async () => {
      seen.length = 0
      const accepted = await post(gzipSync('{"id":1}\nbad\n{"id":2}\n'), { ...prefer, 'content-encoding': 'gzip' })
      assert.equal(accepted.status, 202)
      assert.equal(accepted.headers['preference-applied'], 'respond-async')
      const location = accepted.headers.location as string
      assert.equal(location, accepted.headers['content-location'])
      const { status, result, progress } = await ended(location)
      assert.equal(status, 'completed')
      const size = gzipSync('{"id":1}\nbad\n{"id":2}\n').byteLength
      assert.deepEqual(
        { ...progress },
        { done: size, total: size, message: result?.message, unit: 'bytes' },
        'it ends where the result does',
      )
      assert.equal(result?.message, 'Read 3 records: 2 succeeded, 1 failed.')
      assert.deepEqual([result?.summary, result?.items[0]?.line], [{ total: 3, succeeded: 2, failed: 1 }, 2])
      assert.deepEqual(seen, [{ id: 1 }, { id: 2 }])
    })
    test('is read once for each Idempotency-Key, and another body gets a 422', async () => {
      seen.length = 0
      const headers = { ...prefer, 'idempotency-key': '"one"' }
      const first = await post('{"id":5}\n', headers)
      const keys = await spooled(async () => {
        const second = await post('{"id":5}\n', headers)
        assert.equal(second.headers.location, first.headers.location)
        assert.equal(second.headers['idempotent-replayed'], 'true')
        assert.equal((await post('{"id":6}\n', headers)).status, 422)
      })
      assert.equal(keys.length, 2)
      for (const key of keys) assert.equal(await blobs.stat(key), undefined)
      await ended(first.headers.location as string)
      assert.deepEqual(seen, [{ id: 5 }])
    })
    test('is rejected at once if the headers of the request show the error', async () => {
      assert.equal((await post('x', { ...prefer, 'content-type': 'text/plain' })).status, 415)
      assert.equal((await post('x', { ...prefer, 'content-encoding': 'compress' })).status, 415)
      assert.equal((await post('x', { ...prefer, 'idempotency-key': '' })).status, 400)
    })
    test('fails its task if the connection breaks, with the number of lines that were read', async () => {
      const whole = gzipSync(Array.from({ length: 100_000 }, (_, id) => `{"id":${id}}\n`).join(''))
      const { headers } = await post(whole.subarray(0, -9), { ...prefer, 'content-encoding': 'gzip' })
      const { status, error } = await ended(headers.location as string)
      assert.deepEqual([status, error?.code], ['failed', 'incomplete_body'])
      assert.match(error?.message ?? '', /Before that: Read \d+ records/)
    })
    test('loses its blob when its task is completed or deleted, and keeps the blob for a retry when the task fails', async () => {
      for (const [body, status] of [
        ['{"id":1}\n', 'completed'],
        ['{"id":-1}\n', 'failed'],
        ['x'.repeat(2000), 'completed'],
      ] as const) {
        let path = ''
        const keys = await spooled(async () => {
          path = (await post(body, prefer)).headers.location as string
          assert.equal((await ended(path)).status, status)
        })
        assert.equal(keys.length, 1)
        if (status === 'failed') {
          assert.ok(await blobs.stat(keys[0] as string))
          assert.equal(await tasks.delete(path.slice('/status/'.length)), true)
        }
        await goes(keys[0])
      }
    })
    test('is deleted with its task if it is cancelled, and the signal of its write aborts', async () => {
      waiting = stopped = false
      let path = ''
      const keys = await spooled(async () => {
        path = (await post('{"id":-2}\n', prefer)).headers.location as string
        await eventually(() => waiting, 'the task has come to its write')
        assert.equal((await ask(server.port, 'DELETE', path)).status, 200)
      })
      assert.equal(keys.length, 1)
      assert.equal(await tasks.delete(path.slice('/status/'.length)), true)
      await goes(keys[0])
      await eventually(() => stopped, 'the signal of the write aborts')
    })
    test('gets 503 store_full if the blobs are full, and nothing is written', async () => {
      seen.length = 0
      const small = new MemoryBlobs({ maxBytes: 10 })
      const put = blobs.put.bind(blobs)
      blobs.put = (...args) => small.put(...args)
      const { status, body } = await post('{"id":1}\n{"id":2}\n', prefer)
      blobs.put = put
      await small.close()
      assert.deepEqual([status, (JSON.parse(body) as { code: string }).code, seen], [503, 'store_full', []])
    })
    test('is written once without the preference if it has an Idempotency-Key, and a retry gets the same response', async () => {
      for (const accept of ['application/json', 'application/x-ndjson']) {
        seen.length = 0
        const headers = { 'idempotency-key': `"direct ${accept}"`, accept }
        const first = await post('{"id":1}\nbad\n', headers)
        const again = await post('{"id":1}\nbad\n', headers)
        assert.deepEqual([again.status, again.body, again.headers['content-type']], [200, first.body, accept])
        assert.deepEqual(
          [first.headers['idempotent-replayed'], again.headers['idempotent-replayed']],
          [undefined, 'true'],
        )
        const other = await post('{"id":2}\n', headers)
        assert.deepEqual(
          [other.status, (JSON.parse(other.body) as { code: string }).code],
          [422, 'idempotency_key_reused'],
        )
        assert.deepEqual(seen, [{ id: 1 }])
      }
    })
    test('is not written again if a request with the preference repeats its Idempotency-Key', async () => {
      seen.length = 0
      const headers = { 'idempotency-key': '"either"' }
      const first = await post('{"id":1}\n', headers)
      const again = await post('{"id":1}\n', { ...prefer, ...headers })
      assert.deepEqual(
        [again.status, again.body, again.headers['idempotent-replayed'], seen],
        [200, first.body, 'true', [{ id: 1 }]],
      )
    })
    test('is written while it arrives, and only once, if it has a key, more than 1 MiB and no preference', async () => {
      seen.length = 0
      const headers = { 'idempotency-key': '"two"' }
      const first = await post('{"id":1}\n'.repeat(120_000), headers)
      const again = await post('{"id":1}\n'.repeat(120_000), headers)
      assert.deepEqual([first.status, again.body, again.headers['idempotent-replayed']], [200, first.body, 'true'])
      assert.equal(seen.length, 120_000)
    })
  })

  test('throws at construction if an engine of many processes is used with blobs of one process', () => {
    const sharedStore = Object.assign(Object.create(store) as typeof store, { shared: true })
    const shared: TaskEngine = Object.assign(Object.create(engine) as TaskEngine, { shared: true })
    assert.throws(
      () => createTasks({ engine: shared, store: sharedStore, definitions: [upload.task] }),
      /blobs that all processes see/,
    )
  })
})
