// `uploadFile` of the client over real connections, in Node.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test, type TestContext } from 'node:test'
import { createClient, isClientError } from '../../../src/client/index.js'
import type { FileUploadProgress } from '../../../src/client/upload-file.js'
import { httpError } from '../../../src/http/errors.js'
import type { Handler } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import { sha256 } from '../../unit/kit/uploads.js'
import { CuttingProxy, open } from '../kit/uploads.js'

const retry = { baseMs: 1, maxMs: 20 }
const bytes = randomBytes(500_000)
const answer = { size: bytes.length, sha256: sha256(bytes) }

async function start(t: TestContext, ...how: Parameters<typeof open>) {
  const site = await open(...how)
  t.after(site.close)
  return { ...site, api: createClient({ baseUrl: `${site.base}/api`, retry }) }
}

async function* inChunks(all: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < all.length; at += size) yield all.subarray(at, at + size)
}

describe('client.uploadFile', () => {
  test('sends a Blob in one PATCH with its type, and reports progress', async (t) => {
    const { api, seen } = await start(t)
    const progress: FileUploadProgress[] = []
    const sending = api.uploadFile('/files', new Blob([bytes], { type: 'video/mp4' }), {
      headers: { 'x-name': 'film' }, onProgress: (each) => { progress.push(each) },
    })
    assert.deepEqual(await sending.result(), answer)
    assert.deepEqual(progress, [{ sent: 0, total: bytes.length }, { sent: bytes.length, total: bytes.length }])
    assert.equal(seen[0]?.headers['content-type'], 'video/mp4')
    assert.equal(seen[0]?.headers['x-name'], 'film')
    assert.match(String(sending.url), /\/api\/uploads\//)
  })

  test('sends bytes, streams of unknown length and empty content in small requests', async (t) => {
    const { api, seen } = await start(t, { maxAppendBytes: 60_000 })
    const contents = [bytes, inChunks(bytes, 7001), new Blob([bytes]).stream(), inChunks(bytes, 60_000)]
    for (const content of contents) assert.deepEqual(await api.uploadFile('/files', content).result(), answer)
    for (const content of [new Blob([]), inChunks(Buffer.alloc(0), 1)]) {
      assert.deepEqual(await api.uploadFile('/files', content).result(), { size: 0, sha256: sha256('') })
    }
    assert.equal(seen.length, 6)
  })

  test('sends identical bytes of a file and of a stream over broken connections, and the handler runs once', async (t) => {
    const { port, seen } = await start(t, { partBytes: 16_384 })
    for (const content of [new Blob([bytes]), inChunks(bytes, 7001)]) {
      const proxy = await CuttingProxy.to(port, [100, 5000, 60_000, 100, 20_000, 90_000, 100, 50_000])
      t.after(() => {
        proxy.close()
      })
      const api = createClient({ baseUrl: `http://127.0.0.1:${proxy.port}/api`, retry })
      assert.deepEqual(await api.uploadFile('/files', content, { chunkBytes: 100_000 }).result(), answer)
      assert.equal(proxy.cuts, 8)
    }
    assert.equal(seen.length, 2)
  })

  test('requests a lost response again', async (t) => {
    const { base, seen } = await start(t)
    let lost = 0
    const fetch: typeof globalThis.fetch = async (input, init) => {
      const response = await globalThis.fetch(input, init)
      if (init?.method !== 'PATCH' || lost > 0) return response
      lost++
      throw new TypeError('The connection broke')
    }
    const api = createClient({ baseUrl: `${base}/api`, retry, fetch })
    assert.deepEqual(await api.uploadFile('/files', bytes).result(), answer)
    assert.equal(lost, 1)
    assert.equal(seen.length, 1)
  })

  test('pauses and resumes, and another client continues from what was saved', async (t) => {
    const { api, seen, base } = await start(t)
    const options = { chunkBytes: 100_000 }
    const first = api.uploadFile('/files', bytes, {
      ...options, onProgress: ({ sent }) => { if (sent === 200_000) first.pause() },
    })
    while (!first.paused) await new Promise((resolve) => { setImmediate(resolve) })
    assert.equal(first.sent, 200_000)
    const saved = JSON.parse(JSON.stringify(first)) as { url: string, total: number }
    assert.equal(saved.total, bytes.length)
    first.resume()
    assert.deepEqual(await first.result(), answer)

    const second = api.uploadFile('/files', bytes, {
      ...options, onProgress: ({ sent }) => { if (sent === 300_000) second.pause() },
    })
    while (!second.paused) await new Promise((resolve) => { setImmediate(resolve) })
    const from = JSON.parse(JSON.stringify(second)) as { url: string, total: number }
    const other = createClient({ baseUrl: `${base}/api`, retry })
    const sent: number[] = []
    const rest = other.uploadFile('/files', inChunks(bytes, 9000), {
      from,
      onProgress: (each) => {
        sent.push(each.sent)
      },
    })
    assert.deepEqual(await rest.result(), answer)
    assert.deepEqual(sent, [300_000, 500_000])
    assert.throws(() => api.uploadFile('/files', Buffer.from('other'), { from }), /another size/)
    for (const wrong of ['text', undefined, null, { path: 'film.mp4' }]) {
      assert.throws(() => api.uploadFile('/files', wrong as never), {
        name: 'TypeError',
        message: 'uploadFile: the content must be a Blob, a Uint8Array, a ReadableStream or an async iterable',
      })
    }
    assert.equal(seen.length, 2)
  })

  test('deletes the bytes after a cancel, and keeps them after an abort', async (t) => {
    const { api, blobsInUse } = await start(t)
    const options = { chunkBytes: 100_000 }
    const cancelled = api.uploadFile('/files', bytes, {
      ...options, onProgress: ({ sent }) => { if (sent === 200_000) cancelled.pause() },
    })
    while (!cancelled.paused) await new Promise((resolve) => { setImmediate(resolve) })
    assert.ok(blobsInUse() > 0)
    await cancelled.cancel()
    await assert.rejects(cancelled.result(), { code: 'upload_cancelled' })
    assert.equal(blobsInUse(), 0)

    const controller = new AbortController()
    const aborted = api.uploadFile('/files', bytes, {
      ...options, signal: controller.signal,
      onProgress: ({ sent }) => { if (sent === 200_000) controller.abort(new Error('enough')) },
    })
    await assert.rejects(aborted.result(), /enough/)
    assert.ok(blobsInUse() > 0)
  })

  test('never completes an upload whose content is shorter than the stored part', async (t) => {
    const { api, seen } = await start(t)
    const first = api.uploadFile('/files', inChunks(bytes, 9000), {
      chunkBytes: 100_000, onProgress: ({ sent }) => { if (sent === 200_000) first.pause() },
    })
    while (!first.paused) await new Promise((resolve) => { setImmediate(resolve) })
    const { url = '' } = first
    const shorter = [Buffer.from('short'), inChunks(Buffer.from('short'), 1)]
    for (const content of shorter) {
      const rest = api.uploadFile('/files', content, { from: { url } })
      await assert.rejects(rest.result(), { code: 'content_lost' })
    }
    assert.equal(seen.length, 0)
  })

  test('sends nothing after a cancel, even right after the start', async (t) => {
    const { api, seen, blobsInUse } = await start(t)
    const first = api.uploadFile('/files', bytes, {
      chunkBytes: 100_000, onProgress: ({ sent }) => { if (sent === 200_000) first.pause() },
    })
    while (!first.paused) await new Promise((resolve) => { setImmediate(resolve) })
    const other = api.uploadFile('/files', bytes, { from: { url: first.url ?? '' } })
    await other.cancel()
    await assert.rejects(other.result(), { code: 'upload_cancelled' })
    assert.deepEqual([seen.length, blobsInUse()], [0, 0])
  })

  test('returns the task of a 202, and retries if the handler is busy, but not if the handler has failed', async (t) => {
    let runs = 0
    const handler: Handler = () => {
      runs++
      if (runs === 1) throw httpError('unprocessable', { message: 'No film' })
      if (runs === 2) throw httpError('queue_full', { headers: { 'retry-after': '0' } })
      return json(202, { taskId: 'a' }, { location: '/api/tasks/a' })
    }
    const { api } = await start(t, {}, handler)
    await assert.rejects(api.uploadFile('/files', bytes).result(), (error) => (
      isClientError(error) && error.status === 422 && error.message === 'No film'
    ))
    assert.equal(runs, 1)
    const task = await api.uploadFile('/files', bytes, { background: true }).task()
    assert.equal(task.taskId, 'a')
    assert.match(String(task.statusUrl), /\/api\/tasks\/a$/)
    assert.equal(runs, 3)
  })

  test('rejects if the upload has expired, or if the server creates no uploads', async (t) => {
    const { api, base } = await start(t)
    const from = { url: `${base}/api/uploads/AAAAAAAAAAAAAAAAAAAAAA` }
    await assert.rejects(api.uploadFile('/files', bytes, { from }).result(), { status: 404 })
    const plain = createClient({ baseUrl: base, retry, fetch: async () => Response.json({}) })
    await assert.rejects(plain.uploadFile('/files', bytes).result(), { code: 'not_resumable' })
  })

  test('rejects with a message that the endpoint has no resumable uploads, even if the endpoint requires a body', async (t) => {
    const seen: string[] = []
    for (const [status, options] of [[400, 204], [411, 405], [415, 404], [422, 501]] as const) {
      const fetch: typeof globalThis.fetch = async (_, init) => {
        seen.push(String(init?.method))
        return init?.method === 'OPTIONS'
          ? new Response(null, { status: options, headers: { allow: 'POST' } })
          : Response.json({ error: 'No body', code: 'missing_body' }, { status })
      }
      const plain = createClient({ baseUrl: 'http://127.0.0.1:9', retry, fetch })
      await assert.rejects(plain.uploadFile('/files', bytes).result(), (error) => (
        isClientError(error) && error.code === 'not_resumable' && isClientError(error.cause)
        && error.cause.code === 'missing_body'
      ))
    }
    assert.deepEqual(seen, Array(4).fill(['POST', 'OPTIONS']).flat())

    // An endpoint with resumable uploads may refuse this one.
    const check = () => { throw httpError('unsupported_media_type') }
    const { api } = await start(t, { check })
    const refused = api.uploadFile('/files', bytes).result()
    await assert.rejects(refused, { code: 'unsupported_media_type' })
  })
})
