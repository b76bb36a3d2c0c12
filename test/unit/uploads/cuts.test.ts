import assert from 'node:assert/strict'
import { createHash, randomBytes, randomInt } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { FolderBlobs } from '../../../adapters/files/index.js'
import { MemoryBlobs } from '../../../adapters/memory/index.js'
import { MemoryStore } from '../../../adapters/memory/store.js'
import type { Blobs } from '../../../src/stores/blobs.js'
import { Random } from '../../soak/random.js'
import { digestHeader, setUp } from '../kit/uploads.js'

/** Yields bytes in chunks of random sizes, then breaks like a connection that is cut. */
async function* cutShort(bytes: Uint8Array, random: () => number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.byteLength;) {
    const size = 1 + Math.floor(random() * 3000)
    yield bytes.subarray(at, at + size)
    at += size
  }
  throw new Error('The connection was cut')
}

/** Uploads `size` random bytes with so many cuts, each request to one of several processes. */
async function upload(cuts: number, size: number, processes: readonly Blobs[], seed: number) {
  const numbers = new Random(seed)
  const random = () => numbers.next()
  const bytes = randomBytes(size)
  const store = new MemoryStore()
  const instances = processes.map((blobs) => setUp({ store, blobs, partBytes: 4096 }))
  const any = () => instances[Math.floor(random() * instances.length)] as (typeof instances)[number]
  const path = await any().create({ 'upload-length': String(size), 'repr-digest': digestHeader(bytes) })
  let made = 0
  for (let offset = 0; made < cuts; made++) {
    const most = Math.ceil(2 * (size - offset) / (cuts - made))
    const sent = bytes.subarray(offset, Math.min(offset + Math.floor(random() * most), size - 1))
    const answer = await any().patch(path, offset, cutShort(sent, random), random() < 0.5)
    assert.notEqual(answer.status, 204)
    const next = Number((await any().head(path)).headers['upload-offset'])
    assert.equal(next, offset + sent.byteLength, `after ${made} cuts, seed ${seed}`)
    offset = next
  }
  const offset = Number((await any().head(path)).headers['upload-offset'])
  const answer = await any().patch(path, offset, bytes.subarray(offset), true)
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  assert.deepEqual([answer.status, await answer.json()], [200, { size, sha256 }], `seed ${seed}`)
  assert.equal(instances.flatMap(({ seen }) => seen).length, 1)
}

describe('an upload that is cut at random', () => {
  test('has identical bytes and digest after 1,000 cuts over memory, by three instances', async () => {
    const blobs = new MemoryBlobs()
    await upload(1000, 3_000_000, [blobs, blobs, blobs], randomInt(2 ** 31))
    // The parts are deleted after the answer was sent.
    while (blobs.usage().blobs > 0) await sleep(10)
  })

  test('has identical bytes and digest after 200 cuts over a folder, by two instances with their own blobs', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'longhaul-cuts-'))
    const processes = [0, 1].map(() => new FolderBlobs(folder, { shared: true }))
    try {
      await upload(200, 1_000_000, processes, randomInt(2 ** 31))
      // The parts are deleted after the answer was sent.
      while (readdirSync(folder).some((name) => !name.startsWith('.'))) await sleep(10)
      for (const blobs of processes) await blobs.close()
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
