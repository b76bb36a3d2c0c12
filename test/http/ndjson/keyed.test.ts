// Synchronous uploads with an Idempotency-Key above 1 MiB: they run once, even if the connection breaks.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { after, before, beforeEach, describe, test } from 'node:test'
import { createTasks, router, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { ndjsonUpload } from 'longhaul/ndjson'
import { attach } from 'longhaul/node'
import { listen, type Listening } from '../../kit/listen.js'
import { ask, eventually } from '../kit/wire.js'

const pad = 'x'.repeat(1000)
const body = Buffer.from(Array.from({ length: 3000 }, (_, id) => `{"id":${id},"pad":"${pad}"}\n`).join(''))

describe('a large synchronous upload with an Idempotency-Key', () => {
  const seen: number[] = []
  const { engine, store, blobs } = memory()
  const upload = ndjsonUpload<{ id: number }>({
    write: (items) => { seen.push(...items.map(({ id }) => id)) },
    background: { name: 'items', blobs },
  })
  const tasks = createTasks({ engine, store, definitions: [upload.task] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/status/{id}', owner: 'anyone' })
  let server: Listening

  before(async () => {
    const http = createServer()
    attach(http, router({ 'POST /items': upload.handler(endpoints) }))
    server = await listen(http)
  })
  after(async () => {
    await tasks.close()
    await server.close()
    await blobs.close()
    await store.close()
  })
  beforeEach(() => { seen.length = 0 })

  const post = async (key: string, content: Buffer, headers: Record<string, string> = {}) => {
    const response = await ask(server.port, 'POST', '/items', {
      headers: { 'content-type': 'application/x-ndjson', 'idempotency-key': key, ...headers }, body: content,
    })
    return { ...response, json: JSON.parse(response.body) as { code?: string, summary?: { succeeded: number } } }
  }

  /** Sends the first bytes, and breaks the connection once `until` is true. */
  async function broken(key: string, bytes: Buffer, until: () => boolean): Promise<void> {
    const socket = connect(server.port, '127.0.0.1')
    socket.on('error', () => undefined)
    socket.write(
      `POST /items HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\nIdempotency-Key: ${key}\r\nContent-Length: ${body.length}\r\n\r\n`,
    )
    await new Promise<void>((resolve) => { socket.write(bytes, () => { resolve() }) })
    await eventually(until, 'the records are written')
    socket.destroy()
  }

  test('is not written again after it broke: the next request gets its error with the report', async () => {
    await broken('cut', body.subarray(0, 2_000_000), () => seen.length > 0)
    const again = await post('cut', body)
    assert.deepEqual(
      [again.status, again.json.code, again.headers['idempotent-replayed']],
      [400, 'incomplete_body', 'true'],
    )
    assert.equal(again.json.summary?.succeeded, seen.length)
    assert.ok(seen.length > 0 && seen.length < 3000)
    assert.equal(new Set(seen).size, seen.length)
  })

  test('leaves its key free if it broke before a write', async () => {
    await broken('early', body.subarray(0, 1000), () => true)
    const next = await post('early', body)
    assert.deepEqual([next.status, next.json.summary?.succeeded, seen.length], [200, 3000, 3000])
  })

  test('gets the stored response before its body is read, and a 422 for other content', async () => {
    const first = await post('once', body)
    const again = await post('once', body)
    assert.deepEqual([again.status, again.headers['idempotent-replayed'], again.body], [200, 'true', first.body])
    const other = await post('once', Buffer.concat([Buffer.from('{"id":-1}\n'), body]))
    assert.deepEqual([other.status, other.json.code], [422, 'idempotency_key_reused'])
    assert.equal(seen.length, 3000)
  })

  test('gets a 400 if it asks for a line for each record, and writes nothing', async () => {
    const { status, json } = await post('lines', body, { accept: 'application/x-ndjson' })
    assert.deepEqual([status, json.code, seen.length], [400, 'idempotency_needs_async', 0])
  })
})
