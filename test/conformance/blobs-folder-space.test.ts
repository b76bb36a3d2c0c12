import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test, type TestContext } from 'node:test'
import { FolderBlobs } from 'longhaul/files'

const KIB = 1024
const LATER = { ttlMs: 3_600_000 }
const FULL = { name: 'StoreUnavailableError', reason: 'full' }

const base = await mkdtemp(join(tmpdir(), 'longhaul-space-'))
after(() => rm(base, { recursive: true, force: true }))

async function* content(kib: number): AsyncGenerator<Uint8Array> {
  for (let sent = 0; sent < kib; sent += 10) yield Buffer.alloc(Math.min(10, kib - sent) * KIB)
}

/** Blobs on one folder with room for 100 KiB, and a clock that all of them use. */
function setUp(t: TestContext) {
  const path = join(base, randomBytes(6).toString('hex'))
  let time = 1_700_000_000_000
  const open = (): FolderBlobs => {
    const blobs = new FolderBlobs(path, { maxBytes: 100 * KIB, shared: true, now: () => time })
    t.after(() => blobs.close())
    return blobs
  }
  return { path, open, advance: (ms: number) => { time += ms } }
}

describe('FolderBlobs with maxBytes', () => {
  test('a put above the limit is rejected as full, and the stored blobs stay', async (t) => {
    const { path, open } = setUp(t)
    const blobs = open()
    await blobs.put('a', content(60), LATER)
    await assert.rejects(blobs.put('b', content(60), LATER), FULL)
    assert.equal((await readdir(path)).length, 1)
    assert.ok(await blobs.stat('a'))
    await blobs.put('b', content(30), LATER)
  })

  test('each blob counts 4 KiB in addition to its bytes', async (t) => {
    const blobs = setUp(t).open()
    let count = 0
    await assert.rejects(async () => {
      for (; count < 100; count++) await blobs.put(`empty ${String(count)}`, content(0), LATER)
    }, FULL)
    assert.equal(count, 24)
  })

  test('blobs that are written at the same time count together', async (t) => {
    const blobs = setUp(t).open()
    const puts = await Promise.allSettled(['a', 'b', 'c'].map((key) => blobs.put(key, content(45), LATER)))
    assert.ok(puts.some(({ status }) => status === 'rejected'))
    for (const put of puts)
      if (put.status === 'rejected') assert.equal((put.reason as { reason: string }).reason, 'full')
    await Promise.all(['a', 'b', 'c'].map((key) => blobs.delete(key)))
    await blobs.put('a', content(90), LATER)
  })

  test('the limit counts what the folder holds already, and soon counts what other processes write', async (t) => {
    const { open, advance } = setUp(t)
    const [first, second] = [open(), open()]
    await first.put('a', content(60), LATER)
    await assert.rejects(second.put('b', content(60), LATER), FULL)
    await second.put('b', content(20), LATER)
    advance(60_000)
    await assert.rejects(first.put('c', content(20), LATER), FULL)
    await first.delete('a')
    advance(60_000)
    await second.put('c', content(60), LATER)
  })

  test('unfinished blobs of another process count toward the limit', async (t) => {
    const { path, open } = setUp(t)
    const blobs = open()
    await writeFile(join(path, 'other.partial'), Buffer.alloc(60 * KIB))
    await assert.rejects(blobs.put('a', content(60), LATER), FULL)
  })

  test('a put that fails, is aborted or is replaced gives its bytes back', async (t) => {
    const blobs = setUp(t).open()
    for (let round = 0; round < 5; round++) {
      const broken = async function* () {
        yield* content(50)
        throw new Error('on purpose')
      }
      await assert.rejects(blobs.put('a', broken(), LATER), /on purpose/)
      const abort = new AbortController()
      const aborted = async function* () {
        yield* content(50)
        abort.abort()
        yield Buffer.alloc(1)
      }
      await assert.rejects(blobs.put('a', aborted(), { ...LATER, signal: abort.signal }), { name: 'AbortError' })
      await assert.rejects(blobs.put('a', content(200), LATER), FULL)
      await blobs.put('a', content(40), { ttlMs: round % 2 === 0 ? 0 : LATER.ttlMs })
    }
    await blobs.put('a', content(40), { ttlMs: 0 })
    await blobs.put('b', content(90), LATER)
  })

  test('a deleted blob frees its space at once', async (t) => {
    const blobs = setUp(t).open()
    for (let round = 0; round < 3; round++) {
      await blobs.put('a', content(90), LATER)
      await assert.rejects(blobs.put('b', content(20), LATER), FULL)
      assert.equal(await blobs.delete('a'), true)
      assert.equal(await blobs.delete('a'), false)
    }
    await blobs.put('b', content(90), LATER)
    await assert.rejects(blobs.put('c', content(20), LATER), FULL)
  })

  test('an expired blob is removed when its space is needed', async (t) => {
    const { path, open, advance } = setUp(t)
    const blobs = open()
    await blobs.put('a', content(80), { ttlMs: 10_000 })
    await assert.rejects(blobs.put('b', content(80), LATER), FULL)
    advance(60_000)
    await blobs.put('b', content(80), LATER)
    assert.equal((await readdir(path)).length, 1)
  })

  test('a put near the limit does not read the folder for each chunk', async (t) => {
    const blobs = setUp(t).open()
    const sweep = t.mock.method(blobs, 'sweep')
    await blobs.put('a', content(90), LATER)
    for (let round = 0; round < 5; round++) await assert.rejects(blobs.put('b', content(20), LATER), FULL)
    assert.equal(sweep.mock.callCount(), 1)
  })
})
