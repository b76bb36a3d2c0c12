import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { afterShort, type Short } from '../../../src/tasks/run/after-short.js'

class Run implements Short {
  over = false
  told = 0
  outlast(): void { this.told++ }
}

describe('afterShort', () => {
  test('tells those that go on once, 20 to 40 ms after they began, and nobody that has ended', (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const [early, late, ended, endedLater] = [new Run(), new Run(), new Run(), new Run()]
    const all = [early, late, ended, endedLater]
    const told = () => all.map((run) => run.told)
    for (const run of [early, ended, endedLater]) afterShort(run)
    t.mock.timers.tick(10)
    ended.over = true
    t.mock.timers.tick(9)
    afterShort(late)
    t.mock.timers.tick(1)
    assert.deepEqual(told(), [0, 0, 0, 0], 'one of them began a moment ago')
    endedLater.over = true
    t.mock.timers.tick(20)
    assert.deepEqual(told(), [1, 1, 0, 0])
    t.mock.timers.tick(1000)
    assert.deepEqual(told(), [1, 1, 0, 0])
  })

  test('begins anew when there was nobody to tell', (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const [short, long] = [new Run(), new Run()]
    afterShort(short)
    short.over = true
    t.mock.timers.tick(20)
    afterShort(long)
    t.mock.timers.tick(20)
    t.mock.timers.tick(20)
    assert.deepEqual([short.told, long.told], [0, 1])
  })

  test('goes on after fake timers that were taken away before theirs had come', async (t) => {
    let now = performance.now()
    t.mock.method(performance, 'now', () => now)
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const [before, after] = [new Run(), new Run()]
    afterShort(before)
    t.mock.timers.reset()
    now += 1001
    // The shared timer keeps no process, so this one has to.
    const kept = setTimeout(() => undefined, 10_000)
    await new Promise<void>((resolve) => {
      after.outlast = resolve
      afterShort(after)
    })
    clearTimeout(kept)
    assert.equal(before.told, 1)
  })
})
