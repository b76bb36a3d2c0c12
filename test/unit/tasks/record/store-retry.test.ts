import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memory } from '../../../../adapters/memory/index.js'
import { StoreUnavailableError } from '../../../../src/stores/store.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { HandEngine } from '../../kit/hand-engine.js'
import { bench, Spy, SpyStore } from '../../kit/tasks.js'
import { deferred } from '../../../kit/wait.js'

test('the outcome of a run is kept while the store is unavailable for minutes, and the task does not fail', async (t) => {
  const gate = deferred()
  const begun = deferred()
  let runs = 0
  const work = defineTask({ name: 'work', run: async () => {
    runs++
    begun.resolve()
    await gate.promise
    return { message: 'done' }
  } })
  const made = bench({ definitions: [work] })
  t.after(made.close)
  const { taskId: id } = await made.tasks.submit(work, 1)
  await begun.promise

  t.mock.timers.enable({ apis: ['setTimeout'] })
  let refused = 0
  made.spy.fault = (call) => {
    if (!call.startsWith('change')) return undefined
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
  test(`a full engine lets a run ${shared ? 'wait, because other processes can make space' : 'end without a wait in memory'}`, async (t) => {
    const gate = deferred()
    const begun = deferred()
    const work = defineTask({
      name: 'work',
      run: async () => {
        begun.resolve()
        await gate.promise
        return { message: 'done' }
      },
    })
    const engine = new HandEngine(shared)
    const heard: unknown[] = []
    const tasks = createTasks({
      store: new SpyStore(memory().store, new Spy(), true),
      engine,
      definitions: [work],
      onError: (error) => {
        heard.push(error)
      },
    })
    t.after(() => tasks.close({ drainMs: 0 }))
    const { taskId: id } = await tasks.submit(work, 1)
    const run = engine.deliver(id)
    await begun.promise

    t.mock.timers.enable({ apis: ['setTimeout'] })
    let refused = 0
    const change = t.mock.method(engine, 'change', () => {
      refused++
      return Promise.reject(new StoreUnavailableError('full', { reason: 'full' }))
    })
    gate.resolve()
    const turns = async (): Promise<void> => {
      for (let turn = 0; turn < 30; turn++)
        await new Promise((resolve) => {
          setImmediate(resolve)
        })
    }
    for (let tried = 0; tried < 10; tried++) {
      await turns()
      t.mock.timers.tick(2000)
    }
    assert.equal(refused > 5, shared, String(refused))
    change.mock.restore()
    t.mock.timers.tick(2000)
    await run
    assert.equal((await tasks.get(id))?.status, shared ? 'completed' : 'processing')
    assert.equal(heard.length > 0, !shared)
  })
}
