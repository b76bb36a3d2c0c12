// `upload` of the client with an Idempotency-Key, over connections that break: it sends the rest by itself.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { describe, test, type TestContext } from 'node:test'
import { createTasks, router, taskEndpoints } from 'longhaul'
import { createClient } from 'longhaul/client'
import { memory } from 'longhaul/memory'
import { ndjsonUpload } from 'longhaul/ndjson'
import { attach } from 'longhaul/node'
import { listen } from '../kit/hosts.js'
import { CuttingProxy } from '../uploads/kit.js'

const COUNT = 12_000
const retry = { baseMs: 1, maxMs: 20, attempts: 20 }
const records = Array.from({ length: COUNT }, (_, id) => ({ id, text: 'x'.repeat(180) }))
const summary = { total: COUNT, succeeded: COUNT, failed: 0 }

async function start(t: TestContext, cuts: number[]) {
  const written: number[] = []
  const { blobs, ...engine } = memory()
  const upload = ndjsonUpload<{ id: number }>({
    write: (batch) => { written.push(...batch.map(({ id }) => id)) },
    background: { name: 'items', blobs },
  })
  const tasks = createTasks({ ...engine, definitions: [upload.task] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const server = createServer()
  let received = 0
  server.on('connection', (socket) => { socket.on('close', () => { received += socket.bytesRead }) })
  attach(server, router({ 'POST /items': upload.handler(endpoints) }))
  const running = await listen(server)
  const proxy = await CuttingProxy.to(running.port, cuts)
  t.after(async () => {
    proxy.close()
    await tasks.close()
    await running.close()
  })
  const baseUrl = `http://127.0.0.1:${proxy.port}`
  return { written, proxy, baseUrl, received: () => received }
}

describe('client.upload with an Idempotency-Key', () => {
  const sources = {
    'an array': () => records,
    'a function': () => () => records,
    'a Blob': () => new Blob([`${records.map((record) => JSON.stringify(record)).join('\n')}\n`]),
  }
  for (const [name, source] of Object.entries(sources)) {
    for (const streamUploads of [true, false]) {
      test(`${name}${streamUploads ? '' : ', collected first'}: each record is written once, and the report is that of the whole`, async (t) => {
        const { written, proxy, baseUrl } = await start(t, [1_900_000, 1000, 700_000])
        const client = createClient({ baseUrl, retry, streamUploads })
        const report = await client.upload('/items', source(), { idempotencyKey: 'import-7' })
        assert.deepEqual(report.summary, summary)
        assert.ok(proxy.cuts >= 2, String(proxy.cuts))
        assert.deepEqual([...new Set(written)].length, COUNT)
        assert.equal(written.length, COUNT)
      })
    }
  }

  test('an upload without a break is one request, and a second one gets the same report', async (t) => {
    const { written, baseUrl } = await start(t, [])
    const client = createClient({ baseUrl, retry })
    const first = await client.upload('/items', records, { idempotencyKey: 'once' })
    assert.deepEqual(await client.upload('/items', records, { idempotencyKey: 'once' }), first)
    assert.equal(written.length, COUNT)
    await assert.rejects(client.upload('/items', records.slice(1), { idempotencyKey: 'once' }), { code: 'idempotency_key_reused' })
  })

  test('a source that can be read only once is not sent again', async (t) => {
    const { baseUrl } = await start(t, [1_900_000])
    const client = createClient({ baseUrl, retry })
    const once = records.values() as unknown as Iterable<object>
    await assert.rejects(client.upload('/items', once, { idempotencyKey: 'iterator' }))
  })

  test('a server that does not tell how much is committed is an error, not an empty success', async () => {
    let requests = 0
    const fetch: typeof globalThis.fetch = async (_, init) => {
      if (++requests === 1) throw new TypeError('The connection broke')
      assert.equal(init?.body, '')
      return Response.json({ message: 'Read 0 records.', summary: { total: 0, succeeded: 0, failed: 0 } })
    }
    const client = createClient({ baseUrl: 'http://127.0.0.1:9', retry, fetch })
    await assert.rejects(client.upload('/items', records, { idempotencyKey: 'old' }), { code: 'not_resumable' })
  })

  test('a server that has forgotten the upload, and content that has become shorter, are errors', async () => {
    const positions = [1_000_000, 5]
    const fetch: typeof globalThis.fetch = async (_, init) => {
      if (init?.body !== '') throw new TypeError('The connection broke')
      const committed = { lines: 1, bytes: positions.shift() }
      return Response.json({ error: 'Send the rest', code: 'upload_incomplete', committed }, { status: 409 })
    }
    const client = createClient({ baseUrl: 'http://127.0.0.1:9', retry, fetch })
    const options = { idempotencyKey: 'gone' }
    await assert.rejects(client.upload('/items', records, options), { code: 'upload_expired' })
    for (const short of [[{ id: 1 }], new Blob(['{}\n'])]) {
      positions.push(1_000_000)
      await assert.rejects(client.upload('/items', short, options), { code: 'content_lost' })
    }
  })
})
