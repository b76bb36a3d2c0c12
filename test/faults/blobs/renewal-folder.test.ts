// A renewal in a folder beside the sweep that deletes the blob. One of them wins, and the renewal
// says which.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { FolderBlobs } from 'longhaul/files'

const BEFORE = 1_700_000_000_000
const TTL_MS = 1000
/** The sweep's time: all blobs have expired, and are old enough to be deleted. */
const AFTER = BEFORE + 10_000
const LONG_MS = 3_600_000

async function* content(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text)
}

/**
 * Two processes on one folder. The first has read its clock before the expiry, and is slow; the
 * second sweeps after it.
 */
function slowAndSweeping(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-renewal-'))
  const slow = new FolderBlobs(folder, { shared: true, now: () => BEFORE })
  const sweeping = new FolderBlobs(folder, { shared: true, now: () => AFTER })
  t.after(async () => {
    await slow.close()
    await sweeping.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return { folder, slow, sweeping }
}

test('a renewal that is slower than the expiry either succeeds before the sweep or finds no blob', async (t) => {
  const { folder, slow, sweeping } = slowAndSweeping(t)
  let [won, lost] = [0, 0]
  for (let round = 0; round < 200 && (round < 10 || won === 0 || lost === 0); round++) {
    const keys = Array.from({ length: 40 }, (_, at) => `${round}-${at}`)
    for (const key of keys) await slow.put(key, content(key), { ttlMs: TTL_MS })
    // The sweep needs some time for the files before it comes to these.
    const swept = sweeping.sweep()
    const renewals = keys.map(async (key) => {
      for (let turns = Math.random() * 20; turns > 0; turns--) {
        await new Promise((resolve) => { setImmediate(resolve) })
      }
      return slow.renew(key, LONG_MS)
    })
    const infos = await Promise.all(renewals)
    await swept
    await sweeping.sweep()
    for (const [at, info] of infos.entries()) {
      const key = keys[at] as string
      if (info === undefined) {
        lost++
        continue
      }
      won++
      assert.deepEqual(await sweeping.stat(key), info, 'a blob that was renewed lives')
      const pieces: Uint8Array[] = []
      for await (const piece of await sweeping.open(key) ?? []) pieces.push(piece)
      assert.equal(Buffer.concat(pieces).toString(), key)
      await slow.delete(key)
    }
  }
  t.diagnostic(`${won} renewals won, ${lost} lost`)
  assert.ok(won > 0 && lost > 0, `${won} won, ${lost} lost`)
  assert.deepEqual((await readdir(folder)).filter((name) => name.endsWith('.partial')), [])
})

test('a sweep keeps a blob for a short time after its expiry, so that a slow renewal succeeds', async (t) => {
  const { folder, slow } = slowAndSweeping(t)
  const now = { value: BEFORE + TTL_MS }
  const next = new FolderBlobs(folder, { shared: true, now: () => now.value })
  t.after(() => next.close())
  const info = await slow.put('key', content('abc'), { ttlMs: TTL_MS })
  await next.sweep()
  assert.equal(await next.renew('key', LONG_MS), undefined, 'it has expired by this clock')
  assert.deepEqual(await slow.renew('key', LONG_MS), info, 'it has not when this renewal began')
  now.value = AFTER
  await next.sweep()
  assert.deepEqual(await next.stat('key'), info)
})

test('readers see a whole blob while it is renewed', async (t) => {
  const { slow, sweeping } = slowAndSweeping(t)
  const info = await slow.put('key', content('abc'), { ttlMs: TTL_MS })
  let isOver = false
  const renewed = (async () => {
    for (let more = 1; more <= 300; more++) assert.deepEqual(await slow.renew('key', LONG_MS + more), info)
    isOver = true
  })()
  while (!isOver) assert.deepEqual(await slow.stat('key'), info)
  await renewed
  assert.deepEqual(await sweeping.stat('key'), info)
})

test('a file that cannot be removed stops neither a sweep nor writes to an almost full folder', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-stuck-'))
  let now = BEFORE
  const blobs = new FolderBlobs(folder, { maxBytes: 44_000, now: () => now })
  t.after(async () => {
    await blobs.close()
    rmSync(folder, { recursive: true, force: true })
  })
  // Whatever the order in which the folder is read, some come after the stuck ones.
  const stuck = ['0', '7', 'f'].map((name) => join(folder, `${name.repeat(40)}.blob`))
  for (const path of stuck) mkdirSync(path)
  for (const key of ['a', 'b', 'c', 'd']) await blobs.put(key, content(key), { ttlMs: TTL_MS })
  now = AFTER
  await assert.rejects(blobs.sweep(), ({ cause }: Error) => (cause as NodeJS.ErrnoException).code === 'EISDIR')
  assert.deepEqual((await readdir(folder)).filter((name) => name.endsWith('.blob')).length, stuck.length)
  for (const key of ['a', 'b']) await blobs.put(key, content(key), { ttlMs: TTL_MS })
  assert.equal((await blobs.stat('a'))?.size, 1)
})
