import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoreUnavailableError } from '../../../../src/stores/store.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { bench, deferred } from '../kit.js'

test('the outcome of a run is kept while the store is away for minutes, and the task does not fail', async (t) => {
  const gate = deferred()
  const begun = deferred()
  let runs = 0
  const work = defineTask({ name: 'work', run: async () => {
    runs++
    begun.resolve()
    await gate.promise
    return { message: 'done' }
  } })
  const made = bench({ definitions: [work], shared: true })
  t.after(made.close)
  const { taskId: id } = await made.tasks.submit(work, 1)
  await begun.promise

  t.mock.timers.enable({ apis: ['setTimeout'] })
  let refused = 0
  made.spy.fault = (call) => {
    if (!call.startsWith('replace')) return undefined
    refused++
    return 'before'
  }
  gate.resolve()
  for (let seconds = 0; seconds < 120; seconds += 2) {
    await new Promise((resolve) => { setImmediate(resolve) })
    t.mock.timers.tick(2000)
  }
  assert.ok(refused > 50, `asked again after ${String(refused)} refusals`)
  made.spy.fault = () => undefined
  t.mock.timers.tick(2000)
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => { setImmediate(resolve) })
  assert.equal((await made.tasks.get(id))?.status, 'completed')
  assert.equal(runs, 1)
  assert.deepEqual(made.heard, [])
})

for (const shared of [true, false]) {
  test(`a store that is full is ${shared ? 'waited for where others can make room' : 'not waited for in memory'}`, async (t) => {
    const gate = deferred()
    const begun = deferred()
    const work = defineTask({ name: 'work', run: async () => {
      begun.resolve()
      await gate.promise
      return { message: 'done' }
    } })
    const made = bench({ definitions: [work], shared })
    t.after(made.close)
    const { taskId: id } = await made.tasks.submit(work, 1)
    await begun.promise
    await new Promise((resolve) => { setImmediate(resolve) })

    t.mock.timers.enable({ apis: ['setTimeout'] })
    const full = new StoreUnavailableError('full', { reason: 'full' })
    let refused = 0
    const replace = t.mock.method(made.store, 'replace', () => {
      refused++
      throw full
    })
    gate.resolve()
    const turns = async (): Promise<void> => { for (let turn = 0; turn < 30; turn++) await new Promise((resolve) => { setImmediate(resolve) }) }
    for (let tried = 0; tried < 10; tried++) {
      await turns()
      t.mock.timers.tick(2000)
    }
    assert.equal(refused > 5, shared, String(refused))
    replace.mock.restore()
    t.mock.timers.tick(2000)
    await turns()
    if (shared) assert.equal((await made.tasks.get(id))?.status, 'completed')
    assert.equal(made.heard.length > 0, !shared)
  })
}
