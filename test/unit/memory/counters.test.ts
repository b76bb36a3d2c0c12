import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Counters } from '../../../adapters/memory/store.js'
import { shortest } from '../kit/growth.js'

describe('Counters', () => {
  test('are not slower after a time with very many of them', () => {
    const withFormer = (count: number) => {
      const counters = new Counters(1_000_000)
      for (let i = 0; i < count; i++) counters.add(`k${i}`, 1, 1, 0)
      for (const isRemoved of counters.sweep(() => 2)) assert.ok(isRemoved)
      assert.equal(counters.size, 0)
      return counters
    }
    const timeOf = (counters: Counters) => shortest(() => {
      for (let i = 0; i < 500; i++) {
        counters.add('one', 1, 1, 0)
        for (const isRemoved of counters.sweep(() => 2)) assert.ok(isRemoved)
        assert.equal(counters.size, 0)
      }
    })
    const small = timeOf(withFormer(1))
    const large = timeOf(withFormer(200_000))
    // Without the new cache, each round clears 200,000 slots instead of one.
    assert.ok(large < 20 * small, `${large} ms instead of ${small} ms`)
  })

  test('can change during a sweep, which ends', () => {
    const counters = new Counters(1000)
    for (let i = 0; i < 100; i++) counters.add(`k${i}`, 1, i % 3 === 0 ? 1 : 1000, 0)
    let steps = 0
    for (const isRemoved of counters.sweep(() => 2)) {
      assert.ok(++steps <= 100, 'the sweep goes on for ever')
      if (isRemoved) continue
      counters.add(`k${(steps * 7) % 100}`, 1, 1000, 2)
      if (steps < 50) counters.add(`new${steps}`, 1, 1000, 2)
    }
    assert.ok(steps > 10, `${steps} steps`)
  })
})
