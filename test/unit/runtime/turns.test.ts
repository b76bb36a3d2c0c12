import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { Turns } from '../../../src/runtime/timers.js'

test('a turn ends after 10 ms, and the next turn starts after other work', async () => {
  let now = 1000
  const clock = mock.method(performance, 'now', () => now)
  try {
    const turns = new Turns()
    const due = [0, 9.99, 0.01, 5].map((more) => {
      now += more
      return turns.due
    })
    assert.deepEqual(due, [false, false, true, true])
    let others = false
    setImmediate(() => { others = true })
    await turns.next()
    assert.deepEqual([others, turns.due], [true, false])
    now += 10
    assert.equal(turns.due, true)
  } finally {
    clock.mock.restore()
  }
})
