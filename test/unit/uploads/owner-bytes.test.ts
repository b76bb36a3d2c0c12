import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { MemoryBlobs } from '../../../adapters/memory/index.js'
import { MemoryStore } from '../../../adapters/memory/store.js'
import { json } from '../../../src/http/respond.js'
import type { InjectedResponse } from '../../../src/testing/inject.js'
import { broken, setUp } from '../kit/uploads.js'

const ANN = { 'x-user': 'ann' }
const BOB = { 'x-user': 'bob' }
const bytes = (size: number): Uint8Array => new Uint8Array(size)

async function* pieces(count: number, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < count; at++) yield bytes(size)
}

async function codeOf(response: InjectedResponse): Promise<string> {
  return (await response.json<{ code: string }>()).code
}

async function assertRefused(response: InjectedResponse): Promise<void> {
  assert.equal(response.status, 429)
  assert.equal(response.headers['retry-after'], '60')
  assert.equal(await codeOf(response), 'too_many_bytes')
}

describe('maxBytesPerOwner of uploads', () => {
  test('counts announced lengths, and another owner uploads meanwhile', async () => {
    const { create, send, blobs } = setUp({ maxBytesPerOwner: 1000 })
    await create({ ...ANN, 'upload-length': '900' })
    const more = { ...ANN, 'upload-complete': '?0', 'upload-length': '101' }
    await assertRefused(await send('POST', '/files', more))
    await create({ ...ANN, 'upload-length': '100' })
    await create({ ...BOB, 'upload-length': '1000' })
    assert.equal(blobs.usage().blobs, 0)
  })

  test('frees the bytes of a deleted upload and of a finished upload', async () => {
    const { create, send, patch } = setUp({ maxBytesPerOwner: 1000 })
    const first = await create({ ...ANN, 'upload-length': '1000' })
    assert.equal((await send('DELETE', first, ANN)).status, 204)
    const second = await create({ ...ANN, 'upload-length': '1000' })
    assert.equal((await patch(second, 0, bytes(1000), true, ANN)).status, 200)
    await create({ ...ANN, 'upload-length': '1000' })
  })

  test('gives one upload above the limit a 413, as Upload-Limit says', async () => {
    const { send } = setUp({ maxBytesPerOwner: 1000 })
    const refused = await send('POST', '/files', {
      ...ANN, 'upload-complete': '?0', 'upload-length': '1001',
    })
    assert.equal(refused.status, 413)
    assert.match(String(refused.headers['upload-limit']), /max-size=1000\b/)
  })

  test('counts bodies of unknown length while they arrive', async () => {
    const { create, patch, head } = setUp({ maxBytesPerOwner: 1000, partBytes: 100 })
    const path = await create(ANN)
    await create({ ...ANN, 'upload-length': '500' })
    await assertRefused(await patch(path, 0, pieces(8, 100), false, ANN))
    assert.equal((await head(path, ANN)).headers['upload-offset'], '500')
    await create({ ...BOB, 'upload-length': '1000' })
  })

  test('releases the reserved bytes of a part that did not arrive', async () => {
    const { create, patch } = setUp({ maxBytesPerOwner: 1000 })
    const path = await create(ANN)
    assert.equal((await patch(path, 0, pieces(1, 100), false, ANN)).status, 204)
    await create({ ...ANN, 'upload-length': '900' })
  })

  test('frees the bytes of an aborted upload that its client cannot resume', async () => {
    const { create, send, blobs } = setUp({ maxBytesPerOwner: 1000 })
    await send('POST', '/files', { ...ANN, 'upload-complete': '?1' }, broken(bytes(400)))
    assert.equal(blobs.usage().blobs, 0)
    await create({ ...ANN, 'upload-length': '1000' })
  })

  test('counts only the bytes that arrived before a connection broke', async () => {
    const { create, patch, head } = setUp({ maxBytesPerOwner: 1000 })
    const path = await create(ANN)
    const cut = { ...ANN, 'content-length': '1000' }
    await patch(path, 0, broken(bytes(100)), false, cut)
    assert.equal((await head(path, ANN)).headers['upload-offset'], '100')
    await create({ ...ANN, 'upload-length': '900' })
  })

  test('no longer counts an expired upload', async () => {
    let now = 0
    const store = new MemoryStore({ now: () => now })
    const { create } = setUp({ maxBytesPerOwner: 1000, maxAgeMs: 1000, store })
    await create({ ...ANN, 'upload-length': '1000' })
    now = 1001
    await create({ ...ANN, 'upload-length': '1000' })
  })

  test('counts a received upload until its handler has sent a final response', async () => {
    let status = 503
    const handler = () => json(status, {}, { 'retry-after': '1' })
    const { create, patch, send, blobs } = setUp({ maxBytesPerOwner: 1000 }, handler)
    const path = await create({ ...ANN, 'upload-length': '900' })
    assert.equal((await patch(path, 0, bytes(900), true, ANN)).status, 503)
    const more = { ...ANN, 'upload-complete': '?0', 'upload-length': '200' }
    await assertRefused(await send('POST', '/files', more))
    status = 200
    assert.equal((await patch(path, 900, bytes(0), true, ANN)).status, 200)
    assert.equal(blobs.usage().bytes, 0)
    await create({ ...ANN, 'upload-length': '1000' })
  })

  test('counts no bytes of a received upload that is deleted', async () => {
    const handler = () => json(503, {}, { 'retry-after': '1' })
    const { create, patch, send, blobs } = setUp({ maxBytesPerOwner: 1000 }, handler)
    const path = await create({ ...ANN, 'upload-length': '900' })
    await patch(path, 0, bytes(900), true, ANN)
    assert.equal((await send('DELETE', path, ANN)).status, 204)
    assert.equal(blobs.usage().bytes, 0)
    await create({ ...ANN, 'upload-length': '1000' })
  })

  test('is not exceeded by many concurrent requests of one owner', async () => {
    const { send } = setUp({ maxBytesPerOwner: 1000, maxPerOwner: 1000 })
    const answers = await Promise.all(Array.from({ length: 100 }, () => send('POST', '/files', {
      ...ANN, 'upload-complete': '?0', 'upload-length': '100',
    })))
    const statuses = answers.map(({ status }) => status).sort()
    assert.deepEqual(statuses, [...Array<number>(10).fill(201), ...Array<number>(90).fill(429)])
  })

  test('is a quarter of the blobs in memory by default', async () => {
    const { create, send } = setUp({ blobs: new MemoryBlobs({ maxBytes: 4000 }) })
    await create({ ...ANN, 'upload-length': '1000' })
    const more = { ...ANN, 'upload-complete': '?0', 'upload-length': '1' }
    await assertRefused(await send('POST', '/files', more))
  })
})
