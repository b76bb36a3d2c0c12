import assert from 'node:assert/strict'
import { type Cases } from './runner.js'
import { type StoreContext } from './store-context.js'

/** Tests of counters without concurrent callers. store-races.ts tests concurrent ones. */
export const counters: Cases<StoreContext> = {
  'a counter starts at 0 and adds what it is told': async (context) => {
    const add = async (by: number) =>
      (await context.store.increment(context.key(), by, context.later)).value
    assert.deepEqual(
      [await add(1), await add(2), await add(-5), await add(0), await add(1_000_000_000_000)],
      [1, 3, -2, -2, 999_999_999_998],
    )
  },

  'a counter can start below 0': async (context) => {
    assert.equal((await context.store.increment(context.key(), -3, context.later)).value, -3)
  },

  'the first writer sets the lifetime, later ones do not change it': async (context) => {
    const { key, life } = await context.whileLive(async (key, life) => {
      const first = await context.store.increment(key, 1, life)
      assert.equal(first.value, 1)
      assert.ok(
        first.resetMs > 0 && first.resetMs <= life.ttlMs,
        `resetMs is ${first.resetMs} of ${life.ttlMs}`,
      )
      for (const ttlMs of [life.ttlMs + 600_000, 1]) {
        const { resetMs } = await context.store.increment(key, 1, { ttlMs })
        assert.ok(resetMs > 0 && resetMs <= life.ttlMs, `resetMs is ${resetMs} of ${life.ttlMs}`)
      }
      assert.equal((await context.store.increment(key, 1, life)).value, 4)
    })
    await context.outlive(life)
    assert.equal(
      (await context.store.increment(key, 1, context.later)).value,
      1,
      'the counter outlived its expiry',
    )
  },

  'after its expiry a counter starts anew, with a new lifetime': async (context) => {
    await context.store.increment(context.key(), 5, context.soon)
    await context.outlive(context.soon)
    const { value, resetMs } = await context.store.increment(context.key(), 2, context.later)
    assert.equal(value, 2)
    assert.ok(
      resetMs > context.later.ttlMs / 2 && resetMs <= context.later.ttlMs,
      `resetMs is ${resetMs}`,
    )
  },

  'a counter without a lifetime counts once and leaves nothing': async (context) => {
    assert.equal((await context.store.increment(context.key(), 4, { ttlMs: -1000 })).value, 4)
    await context.outlive({ ttlMs: 1 })
    assert.equal((await context.store.increment(context.key(), 1, context.later)).value, 1)
  },

  'counters and entries do not meet': async (context) => {
    await context.store.increment(context.key(), 7, context.later)
    assert.equal(await context.store.get(context.key()), undefined)
    await context.created(context.key(), 'entry')
    assert.equal((await context.store.increment(context.key(), 1, context.later)).value, 8)
    assert.equal(await context.value(context.key()), 'entry')
    assert.equal(await context.store.delete(context.key()), true)
    assert.equal((await context.store.increment(context.key(), 1, context.later)).value, 9)
  },

  'counters do not meet each other': async (context) => {
    await context.store.increment(context.key('a'), 1, context.later)
    assert.equal((await context.store.increment(context.key('b'), 1, context.later)).value, 1)
  }
}
