// One id, several tasks after each other: what is left of an earlier one does nothing to a later one.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memory } from '../../../../adapters/memory/index.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { HandEngine } from '../../kit/hand-engine.js'
import { bench, ended, Spy, SpyStore } from '../../kit/tasks.js'
import { deferred, eventually } from '../../../kit/wait.js'

describe('a new task with an id that is used again (15.4)', () => {
  test('runs after cancel and delete, while the old run continues', async (t) => {
    const gate = deferred()
    const inputs: unknown[] = []
    const work = defineTask({ name: 'work', run: async (input) => {
      inputs.push(input)
      if (input === 'old') await gate.promise
      return { message: String(input) }
    } })
    const { tasks, close } = bench({ definitions: [work] })
    t.after(close)
    await tasks.submit(work, 'old', { id: '5' })
    await eventually(() => inputs.length === 1)
    await tasks.cancel('5')
    assert.equal(await tasks.delete('5'), true)
    const { taskId, created } = await tasks.submit(work, 'new', { id: '5' })
    assert.deepEqual([taskId, created], ['5', true])
    assert.deepEqual((await ended(tasks, '5')).result, { message: 'new' })
    gate.resolve()
    await new Promise((resolve) => { setImmediate(resolve) })
    assert.deepEqual([inputs, (await tasks.get('5'))?.result], [['old', 'new'], { message: 'new' }])
  })

  test('runs at once after the old task has ended and was deleted', async (t) => {
    const work = defineTask({ name: 'work', run: (input) => ({ message: String(input) }) })
    const { tasks, close } = bench({ definitions: [work] })
    t.after(close)
    for (const input of ['one', 'two', 'three']) {
      assert.equal((await tasks.submit(work, input, { id: 'mine' })).created, true)
      assert.deepEqual((await ended(tasks, 'mine')).result, { message: input })
      assert.equal(await tasks.delete('mine'), true)
    }
  })
})

for (const end of ['completed', 'failed'] as const) {
  test(`a run of an earlier task with an id writes nothing to the later task, whose run has the same number (${end})`, async (t) => {
    const gates = { old: deferred(), new: deferred() }
    const ran: unknown[] = []
    const work = defineTask({
      name: 'work',
      attempts: 3,
      run: async (input) => {
        ran.push(input)
        await gates[input as 'old'].promise
        if (input === 'old' && end === 'failed') throw new Error('of the old run, on purpose')
        return { message: String(input) }
      },
    })
    const hand = new HandEngine()
    const tasks = createTasks({
      store: new SpyStore(memory().store, new Spy(), true),
      engine: hand,
      definitions: [work],
      onError: () => undefined,
    })
    t.after(() => tasks.close({ drainMs: 0 }))
    await tasks.submit(work, 'old', { id: 'mine' })
    const old = hand.deliver('mine')
    await eventually(() => ran.length === 1)
    await tasks.cancel('mine')
    assert.equal(await tasks.delete('mine'), true)
    assert.equal((await tasks.submit(work, 'new', { id: 'mine' })).created, true)
    const late = hand.deliver('mine')
    await eventually(() => ran.length === 2)
    gates.old.resolve()
    await old
    assert.equal((await tasks.get('mine'))?.status, 'processing')
    gates.new.resolve()
    await late
    assert.deepEqual((await tasks.get('mine'))?.result, { message: 'new' })
  })
}
