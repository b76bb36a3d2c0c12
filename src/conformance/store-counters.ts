import assert from 'node:assert/strict'
import { type Cases } from './runner.js'
import { type StoreBench } from './store-bench.js'

/** Counters, alone; store-races.ts has the crowds. */
export const counters: Cases<StoreBench> = {
  'a counter starts at 0 and adds what it is told': async (bench) => {
    const add = async (by: number) => (await bench.store.increment(bench.key(), by, bench.later)).value
    assert.deepEqual([await add(1), await add(2), await add(-5), await add(0), await add(1_000_000_000_000)], [1, 3, -2, -2, 999_999_999_998])
  },

  'a counter can start below 0': async (bench) => {
    assert.equal((await bench.store.increment(bench.key(), -3, bench.later)).value, -3)
  },

  'the first writer sets the lifetime, later ones do not change it': async (bench) => {
    const { key, life } = await bench.whileLive(async (key, life) => {
      const first = await bench.store.increment(key, 1, life)
      assert.equal(first.value, 1)
      assert.ok(first.resetMs > 0 && first.resetMs <= life.ttlMs, `resetMs is ${first.resetMs} of ${life.ttlMs}`)
      for (const ttlMs of [life.ttlMs + 600_000, 1]) {
        const { resetMs } = await bench.store.increment(key, 1, { ttlMs })
        assert.ok(resetMs > 0 && resetMs <= life.ttlMs, `resetMs is ${resetMs} of ${life.ttlMs}`)
      }
      assert.equal((await bench.store.increment(key, 1, life)).value, 4)
    })
    await bench.outlive(life)
    assert.equal((await bench.store.increment(key, 1, bench.later)).value, 1, 'the counter outlived its expiry')
  },

  'after its expiry a counter starts anew, with a new lifetime': async (bench) => {
    await bench.store.increment(bench.key(), 5, bench.soon)
    await bench.outlive(bench.soon)
    const { value, resetMs } = await bench.store.increment(bench.key(), 2, bench.later)
    assert.equal(value, 2)
    assert.ok(resetMs > bench.later.ttlMs / 2 && resetMs <= bench.later.ttlMs, `resetMs is ${resetMs}`)
  },

  'a counter without a lifetime counts once and leaves nothing': async (bench) => {
    assert.equal((await bench.store.increment(bench.key(), 4, { ttlMs: -1000 })).value, 4)
    await bench.outlive({ ttlMs: 1 })
    assert.equal((await bench.store.increment(bench.key(), 1, bench.later)).value, 1)
  },

  'counters and entries do not meet': async (bench) => {
    await bench.store.increment(bench.key(), 7, bench.later)
    assert.equal(await bench.store.get(bench.key()), undefined)
    await bench.created(bench.key(), 'entry')
    assert.equal((await bench.store.increment(bench.key(), 1, bench.later)).value, 8)
    assert.equal(await bench.value(bench.key()), 'entry')
    assert.equal(await bench.store.delete(bench.key()), true)
    assert.equal((await bench.store.increment(bench.key(), 1, bench.later)).value, 9)
  },

  'counters do not meet each other': async (bench) => {
    await bench.store.increment(bench.key('a'), 1, bench.later)
    assert.equal((await bench.store.increment(bench.key('b'), 1, bench.later)).value, 1)
  }
}
