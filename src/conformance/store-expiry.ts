import assert from 'node:assert/strict'
import { type Cases } from './runner.js'
import { type StoreBench } from './store-bench.js'

const DECADE = { ttlMs: 10 * 365 * 86_400_000 }
const NONE = { ttlMs: -1000 }

/** When entries go. */
export const expiry: Cases<StoreBench> = {
  'an entry is there before its expiry and gone after it': async (bench) => {
    const { key, life } = await bench.whileLive(async (key, life) => {
      await bench.created(key, 'x', life)
      assert.equal(await bench.value(key), 'x', 'the entry went before its expiry')
    })
    await bench.outlive(life)
    assert.equal(await bench.store.get(key), undefined, 'the entry outlived its expiry')
  },

  'replace of an expired entry finds nothing': async (bench) => {
    const revision = await bench.created(bench.key(), 'x', bench.soon)
    await bench.outlive(bench.soon)
    const outcome = await bench.store.replace(bench.key(), 'y', revision, bench.later)
    assert.deepEqual(outcome, { replaced: false, entry: undefined })
    assert.equal(await bench.store.get(bench.key()), undefined)
  },

  'delete of an expired entry removes nothing': async (bench) => {
    const revision = await bench.created(bench.key(), 'x', bench.soon)
    await bench.outlive(bench.soon)
    assert.equal(await bench.store.delete(bench.key(), revision), false)
    assert.equal(await bench.store.delete(bench.key()), false)
  },

  'create works after the expiry, under a new revision': async (bench) => {
    const old = await bench.created(bench.key(), 'x', bench.soon)
    await bench.outlive(bench.soon)
    const revision = await bench.created(bench.key(), 'new')
    assert.notEqual(revision, old)
    assert.equal((await bench.store.replace(bench.key(), 'late', old, bench.later)).replaced, false)
    assert.equal(await bench.value(bench.key()), 'new')
  },

  'replace can move the expiry further away': async (bench) => {
    const { key, life } = await bench.whileLive(async (key, life) => {
      const revision = await bench.created(key, 'x', life)
      const outcome = await bench.store.replace(key, 'y', revision, bench.later)
      assert.ok(outcome.replaced, 'the entry went before its expiry')
    })
    await bench.outlive(life)
    assert.equal(await bench.value(key), 'y', 'the entry went at its first expiry')
  },

  'replace can bring the expiry nearer': async (bench) => {
    const revision = await bench.created(bench.key(), 'x')
    assert.equal((await bench.store.replace(bench.key(), 'y', revision, bench.soon)).replaced, true)
    await bench.outlive(bench.soon)
    assert.equal(await bench.store.get(bench.key()), undefined)
  },

  'replace without a lifetime keeps the expiry': async (bench) => {
    const kept = await bench.created(bench.key('kept'), 'x')
    const { key, life } = await bench.whileLive(async (key, life) => {
      const revision = await bench.created(key, 'x', life)
      const outcome = await bench.store.replace(key, 'y', revision, {})
      assert.ok(outcome.replaced, 'the entry went before its expiry')
      assert.equal(await bench.value(key), 'y', 'the entry went before its expiry')
    })
    assert.equal((await bench.store.replace(bench.key('kept'), 'y', kept, {})).replaced, true)
    await bench.outlive(life)
    assert.equal(await bench.store.get(key), undefined, 'the entry outlived its expiry')
    assert.equal(await bench.value(bench.key('kept')), 'y', 'the entry went before its expiry')
  },

  'a create that lost does not move the expiry': async (bench) => {
    const { key, life } = await bench.whileLive(async (key, life) => {
      await bench.created(key, 'x', life)
      assert.equal((await bench.store.create(key, 'y', bench.later)).created, false, 'the entry went early')
    })
    await bench.outlive(life)
    assert.equal(await bench.store.get(key), undefined)
  },

  'a write without a lifetime counts as written and is gone at once': async (bench) => {
    assert.equal((await bench.store.create(bench.key(), 'x', NONE)).created, true)
    await bench.outlive({ ttlMs: 1 })
    assert.equal(await bench.store.get(bench.key()), undefined)
    const revision = await bench.created(bench.key(), 'y')
    assert.equal((await bench.store.replace(bench.key(), 'z', revision, NONE)).replaced, true)
    await bench.outlive({ ttlMs: 1 })
    assert.equal(await bench.store.get(bench.key()), undefined)
    await bench.created(bench.key(), 'free again')
  },

  'an expiry may be ten years away': async (bench) => {
    await bench.created(bench.key(), 'x', DECADE)
    assert.equal(await bench.value(bench.key()), 'x')
    const { resetMs } = await bench.store.increment(bench.key(), 1, DECADE)
    assert.ok(resetMs > DECADE.ttlMs - 60_000, `resetMs is ${resetMs}`)
  }
}
