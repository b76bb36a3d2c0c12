import assert from 'node:assert/strict'
import { isStoreUnavailable } from '../stores/store.js'
import { chunks, type BlobsBench } from './blobs-bench.js'
import { type Cases } from './runner.js'

/** Expiry, the end, and what two of them share. */
export const lifetime: Cases<BlobsBench> = {
  'an expired blob is gone': async (bench) => {
    await bench.blobs.put(bench.key('other'), chunks('def'), bench.later)
    const { life, key } = await bench.beforeExpiry(async (life, key) => {
      await bench.blobs.put(key, chunks('abc'), life)
      assert.equal(await bench.text(key), 'abc')
    })
    await bench.outlive(life)
    assert.equal(await bench.blobs.stat(key), undefined)
    assert.equal(await bench.blobs.open(key), undefined)
    assert.equal(await bench.blobs.delete(key), false)
    assert.equal(await bench.text(bench.key('other')), 'def')
    await bench.blobs.put(key, chunks('again'), bench.later)
    assert.equal(await bench.text(key), 'again')
  },

  'a blob without a lifetime counts as written and expired': async (bench) => {
    await bench.blobs.put(bench.key(), chunks('old'), bench.later)
    assert.equal((await bench.blobs.put(bench.key(), chunks('late'), { ttlMs: -1000 })).size, 4)
    assert.equal(await bench.blobs.stat(bench.key()), undefined)
    assert.equal(await bench.blobs.open(bench.key()), undefined)
  },

  'after close every call rejects with a StoreUnavailableError': async (bench) => {
    const { blobs } = bench
    await blobs.put(bench.key(), chunks('x'), bench.later)
    await blobs.close()
    const calls: Record<string, () => Promise<unknown>> = {
      put: () => blobs.put(bench.key('new'), chunks('x'), bench.later),
      stat: () => blobs.stat(bench.key()),
      open: () => blobs.open(bench.key()),
      delete: () => blobs.delete(bench.key()),
    }
    for (const [verb, call] of Object.entries(calls)) {
      await assert.rejects(bench.inTime(call(), `${verb}() after close rejects`), isStoreUnavailable, `${verb}() after close`)
    }
    await bench.inTime(blobs.close(), 'a second close() resolves')
  },

  'shared blobs show what another writes; close ends only itself': async (bench) => {
    if (!bench.blobs.shared) {
      assert.equal(bench.hasSecond, false, 'the factory gives second blobs on the same data, so `shared` should be true')
      return
    }
    assert.ok(bench.hasSecond, 'the factory has to give `second` blobs on the same data, because `shared` is true')
    const info = await bench.blobs.put(bench.key(), chunks('abc'), bench.later)
    assert.deepEqual(await bench.second.stat(bench.key()), info)
    assert.equal(await bench.text(bench.key(), { start: 1, etag: info.etag }, bench.second), 'bc')
    await bench.second.put(bench.key(), chunks('def'), bench.later)
    assert.equal(await bench.text(bench.key()), 'def')
    await bench.blobs.close()
    assert.equal(await bench.text(bench.key(), {}, bench.second), 'def')
    assert.equal(await bench.second.delete(bench.key()), true)
  },
}
