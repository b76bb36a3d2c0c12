import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ExpiryScanner } from '../../../adapters/memory/expiry-scanner.js'
import { MemoryStore } from '../../../adapters/memory/store.js'

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

describe('ExpiryScanner', () => {
  test('works in slices, so that a million steps do not block the event loop', async () => {
    let steps = 0
    const stretches: number[] = []
    let entered = 0
    const scanner = new ExpiryScanner(function* () {
      for (; steps < 300_000; steps++) {
        const now = performance.now()
        // A new slice: the caller was away for longer than a step takes.
        if (now - entered > 1) stretches.push(0)
        entered = now
        stretches[stretches.length - 1] = (stretches.at(-1) ?? 0) + 1
        yield true
      }
    }, 5)
    scanner.start()
    while (steps < 300_000) await wait(10)
    scanner.stop()
    assert.ok(stretches.length > 5, `${stretches.length} slices`)
  })

  test('stops its timer when there are no entries, and starts it again later', async () => {
    let walks = 0
    let held = 3
    const scanner = new ExpiryScanner(function* () {
      walks++
      while (held > 0) {
        held--
        yield true
      }
    }, 2)
    scanner.start()
    scanner.start()
    while (walks < 2) await wait(2)
    await wait(30)
    assert.equal(walks, 2)
    scanner.start()
    while (walks < 3) await wait(2)
    scanner.stop()
  })

  test('starts again after mocked timers were reset', async (t) => {
    let walked: () => void = () => undefined
    const scanner = new ExpiryScanner(function* () {
      walked()
      yield false
    }, 2)
    t.mock.timers.enable()
    scanner.start()
    t.mock.timers.reset()
    // Its timer keeps no process, so this one has to.
    const kept = setTimeout(() => undefined, 10_000)
    await new Promise<void>((resolve) => {
      walked = resolve
      scanner.start()
    })
    clearTimeout(kept)
    scanner.stop()
  })

  test('stops at once after stop', async () => {
    let walks = 0
    const scanner = new ExpiryScanner(function* () {
      walks++
      yield false
    }, 2)
    scanner.start()
    scanner.stop()
    await wait(20)
    assert.equal(walks, 0)
  })

  test('makes at most one round and at most the given number of steps in advance()', () => {
    let steps = 0
    const scanner = new ExpiryScanner(function* () {
      for (let i = 0; i < 100; i++) {
        steps++
        yield false
      }
    })
    scanner.advance(10)
    assert.equal(steps, 10)
    scanner.advance(1000)
    assert.equal(steps, 200)
    const empty = new ExpiryScanner(function* () { /* nothing is held */ })
    empty.advance(1_000_000_000)
  })

  test('does not block the event loop for long if 200,000 entries expire together', async () => {
    let time = 1000
    const store = new MemoryStore({ now: () => time })
    for (let i = 0; i < 200_000; i++) void store.create(`k${i}`, 'v', { ttlMs: 1000, evictable: i % 2 === 0 })
    await store.get('k0')
    time = 2000
    let last = process.cpuUsage()
    const gaps: number[] = []
    while (store.usage().entries > 0) {
      await wait(1)
      const { user, system } = process.cpuUsage(last)
      gaps.push((user + system) / 1000)
      last = process.cpuUsage()
    }
    gaps.sort((a, b) => a - b)
    // CPU and not time, because the machine may be busy. A slice takes 2 ms, one walk through all
    // would take 50 or more.
    const typical = gaps[Math.floor(gaps.length * 0.9)] ?? Infinity
    assert.ok(typical < 15, `9 of 10 turns of the loop took ${typical} ms or less`)
    assert.ok(gaps.length > 20, `${gaps.length} turns`)
    await store.close()
  })
})
