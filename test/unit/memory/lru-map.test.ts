import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { LruMap } from '../../../adapters/memory/lru-map.js'

describe('LruMap', () => {
  test('a former large size does not slow it down', () => {
    const list = new LruMap<object>(1_000_000, () => 1)
    for (let i = 0; i < 200_000; i++) list.set(`k${i}`, {})
    for (let i = 0; i < 200_000; i++) list.delete(`k${i}`)
    assert.equal(list.size, 0)
    assert.equal(list.weight, 0)
    const start = performance.now()
    for (let i = 0; i < 2000; i++) {
      list.set('one', {})
      assert.equal(list.delete('one'), true)
    }
    // Without the new cache: some 2000 times 200,000 slots are cleared, a second or more.
    assert.ok(performance.now() - start < 400, `${performance.now() - start} ms`)
  })

  test('a key is deleted only by itself', () => {
    const list = new LruMap<object>(10_000, () => 1)
    for (let i = 0; i < 5000; i++) list.set(`k${i}`, {})
    for (let i = 1; i < 5000; i++) list.delete(`k${i}`)
    assert.equal(list.delete('other'), false)
    assert.equal(list.size, 1)
    assert.equal(list.delete('k0'), true)
    assert.equal(list.size, 0)
  })

  test('an iteration survives changes, and ends', () => {
    const list = new LruMap<{ n: number }>(1000, () => 1)
    for (let i = 0; i < 100; i++) list.set(`k${i}`, { n: i })
    let steps = 0
    for (const [key, { n }] of list.entries()) {
      assert.ok(++steps <= 100, 'the walk goes on for ever')
      if (n % 3 === 0) list.delete(key)
      else if (n % 3 === 1) list.get(`k${(n * 7) % 100}`)
      else if (steps < 50) list.set(`new${steps}`, { n: 1 })
    }
    assert.ok(steps > 10, `${steps} steps`)
  })

  test('reports evicted entries, and not deleted or replaced ones', () => {
    const evicted: string[] = []
    const list = new LruMap<object>(2, () => 1, (key) => evicted.push(key))
    list.set('a', {})
    list.set('a', {})
    list.delete('a')
    for (const key of ['b', 'c', 'd']) list.set(key, {})
    list.evict()
    assert.deepEqual(evicted, ['b', 'c'])
  })
})
