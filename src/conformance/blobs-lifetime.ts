import assert from 'node:assert/strict'
import { isStoreUnavailable } from '../stores/store.js'
import { chunks, type BlobsContext } from './blobs-context.js'
import { type Cases } from './runner.js'
import { together } from './waiting.js'

/** Tests of expiry, renewal, `close` and shared data. */
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

  'renew prolongs a life, and changes neither bytes nor entity tag': async (context) => {
    const { result: info, life, key } = await context.beforeExpiry(async (life, key) => {
      const info = await context.blobs.put(key, chunks('abc'), life)
      assert.deepEqual(await context.second.renew(key, context.later.ttlMs), info)
      return info
    })
    await context.outlive(life)
    assert.deepEqual(await context.blobs.stat(key), info)
    assert.equal(await context.text(key, { start: 1, etag: info.etag }), 'bc')
  },

  'a renewed blob expires at the end of its new life': async (context) => {
    const { life, key } = await context.beforeExpiry(async (life, key) => {
      await context.blobs.put(key, chunks('abc'), life)
      assert.ok(await context.blobs.renew(key, 2 * life.ttlMs))
    })
    await context.outlive({ ttlMs: 2 * life.ttlMs })
    assert.equal(await context.blobs.stat(key), undefined)
    assert.equal(await context.blobs.renew(key, 1000), undefined, 'an expired blob stays away')
    assert.equal(await context.blobs.open(key), undefined)
  },

  'renew never shortens a life': async (context) => {
    const info = await context.blobs.put(context.key(), chunks('abc'), context.later)
    for (const ttlMs of [1, 0, -1000]) {
      assert.deepEqual(await context.blobs.renew(context.key(), ttlMs), info)
    }
    await context.outlive({ ttlMs: 1 })
    assert.deepEqual(await context.blobs.stat(context.key()), info)
  },

  'renew finds no blob that was never written or is deleted': async (context) => {
    assert.equal(await context.blobs.renew(context.key(), 1000), undefined)
    await context.blobs.put(context.key(), chunks('abc'), context.later)
    await context.blobs.delete(context.key())
    assert.equal(await context.blobs.renew(context.key(), 1000), undefined)
    assert.equal(await context.blobs.stat(context.key()), undefined)
  },

  'renew refuses a lifetime that is no number, and a key that is not valid': async (context) => {
    await context.blobs.put(context.key(), chunks('abc'), context.later)
    for (const ttlMs of [NaN, Infinity, '1' as unknown as number]) {
      await assert.rejects(context.blobs.renew(context.key(), ttlMs), TypeError)
    }
    await assert.rejects(context.blobs.renew('', 1000), TypeError)
  },

  'renew at the same time as delete brings nothing back': async (context) => {
    for (let round = 0; round < 5; round++) {
      const key = context.key(`deleted-${round}`)
      const info = await context.blobs.put(key, chunks('abc'), context.later)
      const outcomes = await together(8, async (index) => (
        index === 4 ? context.second.delete(key) : context.blobs.renew(key, 900_000)
      ))
      assert.equal(outcomes[4], true)
      for (const outcome of outcomes) {
        if (typeof outcome === 'object') assert.deepEqual(outcome, info)
      }
      assert.equal(await context.blobs.stat(key), undefined)
      assert.equal(await context.blobs.open(key), undefined)
    }
  },

  'renew at the same time as put renews one of the blobs, and keeps the new one': async (
    context,
  ) => {
    for (let round = 0; round < 5; round++) {
      const key = context.key(`replaced-${round}`)
      const old = await context.blobs.put(key, chunks('old'), context.later)
      const outcomes = await together(8, async (index) => (
        index === 4 ? context.second.put(key, chunks('new'), context.later)
          : context.blobs.renew(key, 900_000)
      ))
      const written = outcomes[4]
      for (const outcome of outcomes) {
        assert.ok(outcome?.etag === old.etag || outcome?.etag === written?.etag)
      }
      assert.deepEqual(await context.blobs.stat(key), written)
      assert.equal(await context.text(key), 'new')
    }
  },

  'after close every call rejects with a StoreUnavailableError': async (context) => {
    const { blobs } = context
    await blobs.put(context.key(), chunks('x'), context.later)
    await blobs.close()
    const calls: Record<string, () => Promise<unknown>> = {
      put: () => blobs.put(context.key('new'), chunks('x'), context.later),
      stat: () => blobs.stat(context.key()),
      open: () => blobs.open(context.key()),
      renew: () => blobs.renew(context.key(), 1000),
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
