import assert from 'node:assert/strict'
import { isStoreUnavailable } from '../stores/store.js'
import { chunks, type BlobsContext } from './blobs-context.js'
import { type Cases } from './runner.js'

/** Tests of expiry, `close` and shared data. */
export const lifetime: Cases<BlobsContext> = {
  'an expired blob is gone': async (context) => {
    await context.blobs.put(context.key('other'), chunks('def'), context.later)
    const { life, key } = await context.beforeExpiry(async (life, key) => {
      await context.blobs.put(key, chunks('abc'), life)
      assert.equal(await context.text(key), 'abc')
    })
    await context.outlive(life)
    assert.equal(await context.blobs.stat(key), undefined)
    assert.equal(await context.blobs.open(key), undefined)
    assert.equal(await context.blobs.delete(key), false)
    assert.equal(await context.text(context.key('other')), 'def')
    await context.blobs.put(key, chunks('again'), context.later)
    assert.equal(await context.text(key), 'again')
  },

  'a blob without a lifetime counts as written and expired': async (context) => {
    await context.blobs.put(context.key(), chunks('old'), context.later)
    assert.equal((await context.blobs.put(context.key(), chunks('late'), { ttlMs: -1000 })).size, 4)
    assert.equal(await context.blobs.stat(context.key()), undefined)
    assert.equal(await context.blobs.open(context.key()), undefined)
  },

  'after close every call rejects with a StoreUnavailableError': async (context) => {
    const { blobs } = context
    await blobs.put(context.key(), chunks('x'), context.later)
    await blobs.close()
    const calls: Record<string, () => Promise<unknown>> = {
      put: () => blobs.put(context.key('new'), chunks('x'), context.later),
      stat: () => blobs.stat(context.key()),
      open: () => blobs.open(context.key()),
      delete: () => blobs.delete(context.key()),
    }
    for (const [verb, call] of Object.entries(calls)) {
      await assert.rejects(
        context.inTime(call(), `${verb}() after close rejects`),
        isStoreUnavailable,
        `${verb}() after close`,
      )
    }
    await context.inTime(blobs.close(), 'a second close() resolves')
  },

  'shared blobs show what another writes; close ends only itself': async (context) => {
    if (!context.blobs.shared) {
      assert.equal(
        context.hasSecond,
        false,
        'the factory gives second blobs on the same data, so `shared` should be true',
      )
      return
    }
    assert.ok(
      context.hasSecond,
      'the factory has to give `second` blobs on the same data, because `shared` is true',
    )
    const info = await context.blobs.put(context.key(), chunks('abc'), context.later)
    assert.deepEqual(await context.second.stat(context.key()), info)
    assert.equal(
      await context.text(context.key(), { start: 1, etag: info.etag }, context.second),
      'bc',
    )
    await context.second.put(context.key(), chunks('def'), context.later)
    assert.equal(await context.text(context.key()), 'def')
    await context.blobs.close()
    assert.equal(await context.text(context.key(), {}, context.second), 'def')
    assert.equal(await context.second.delete(context.key()), true)
  },
}
