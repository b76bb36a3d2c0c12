import assert from 'node:assert/strict'
import { type Cases } from './runner.js'
import { type StoreBench } from './store-bench.js'

/** Counters, alone; store-races.ts has the crowds. */
export const counters: Cases<StoreBench> = {
  'a counter starts at 0 and adds what it is told': async (bench) => {
    const { expiresAt } = bench.later
    const add = async (by: number) => (await bench.store.increment(bench.key(), by, { expiresAt })).value
    assert.deepEqual([await add(1), await add(2), await add(-5), await add(0), await add(1_000_000_000_000)], [1, 3, -2, -2, 999_999_999_998])
  },

  'a counter can start below 0': async (bench) => {
    assert.equal((await bench.store.increment(bench.key(), -3, bench.later)).value, -3)
  },

  'the first writer sets the expiry, later ones do not move it': async (bench) => {
    const { key, expiresAt } = await bench.whileLive(async (key, expiresAt) => {
      assert.equal((await bench.store.increment(key, 1, { expiresAt })).expiresAt, expiresAt)
      assert.equal((await bench.store.increment(key, 1, { expiresAt: expiresAt + 600_000 })).expiresAt, expiresAt)
      assert.equal((await bench.store.increment(key, 1, { expiresAt: expiresAt - 1 })).expiresAt, expiresAt)
    })
    await bench.past(expiresAt)
    assert.equal((await bench.store.increment(key, 1, bench.later)).value, 1, 'the counter outlived its expiry')
  },

  'after its expiry a counter starts anew, with a new expiry': async (bench) => {
    const { expiresAt } = bench.soon
    await bench.store.increment(bench.key(), 5, { expiresAt })
    await bench.past(expiresAt)
    const { expiresAt: later } = bench.later
    assert.deepEqual({ ...await bench.store.increment(bench.key(), 2, { expiresAt: later }) }, { value: 2, expiresAt: later })
  },

  'a counter whose expiry is past counts once and leaves nothing': async (bench) => {
    const expiresAt = bench.now() - 10 * bench.tolerance - 1000
    assert.equal((await bench.store.increment(bench.key(), 4, { expiresAt })).value, 4)
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
