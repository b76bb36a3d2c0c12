import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryStore } from '../../../../adapters/memory/index.js'
import { elapsed } from '../../../../src/tasks/record/elapsed.js'

test('the clock of the store, and not those of processes, measures how long no process could run a task (15.9)', async (t) => {
  let now = 0
  const store = new MemoryStore({ now: () => now })
  t.after(() => store.close())
  t.mock.timers.enable({ apis: ['Date'], now: 1_000_000_000 })
  assert.equal(await elapsed(store, 'job', 1000), 0)
  // Another process, whose clock is hours ahead.
  t.mock.timers.setTime(1_010_000_000)
  assert.equal(await elapsed(store, 'job', 1000), 0)
  now = 400
  assert.equal(await elapsed(store, 'job', 1000), 400)
  assert.equal(await elapsed(store, 'another', 1000), 0)
  now = 1000
  assert.equal(await elapsed(store, 'job', 1000), 1000)
  assert.equal(await elapsed(store, 'job', 1000), 0, 'the limit was reached, so whoever asked has acted')
})
