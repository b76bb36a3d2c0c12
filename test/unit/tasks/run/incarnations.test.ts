// One id, several tasks after each other: what is left of an earlier one does nothing to a later one.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { MemoryStore } from '../../../../adapters/memory/index.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { HandQueue } from '../hand-queue.js'
import { bench, deferred, ended, eventually, Spy, SpyStore } from '../kit.js'

describe('an id of the host\'s own is used again (15.4)', () => {
  test('after cancel and delete, while the old run continues: the new task runs', async (t) => {
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

  test('after its end and delete, at once: the new task runs', async (t) => {
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

/** Two incarnations of the task `mine`; the job of the first is still in the queue. */
async function setUp(run: (input: unknown) => unknown = () => undefined) {
  const store = new MemoryStore()
  const spy = new Spy()
  const queue = new HandQueue(true)
  const ran: unknown[] = []
  const work = defineTask({ name: 'work', attempts: 3, run: (input) => {
    ran.push(input)
    return run(input)
  } })
  const tasks = createTasks({ store: new SpyStore(store, spy, true), queue, definitions: [work], onError: () => undefined })
  const submit = async (input: string) => {
    assert.equal((await tasks.submit(work, input, { id: 'mine' })).created, true)
  }
  const again = async (input: string) => {
    await tasks.cancel('mine')
    assert.equal(await tasks.delete('mine'), true)
    await submit(input)
  }
  await submit('old')
  return { tasks, queue, ran, again }
}

describe('leftovers of an earlier task of an id', () => {
  test('a job that comes late does not run and changes nothing', async () => {
    const { tasks, queue, ran, again } = await setUp()
    await again('new')
    assert.notEqual(queue.jobs[0]?.id, queue.jobs[1]?.id)
    const before = await tasks.get('mine')
    for (const attempt of [1, 2]) assert.equal(await queue.deliver(attempt), true)
    await queue.die('stalled')
    assert.deepEqual([ran, await tasks.get('mine')], [[], before])
    queue.jobs.shift()
    await queue.deliver()
    assert.deepEqual([ran, (await tasks.get('mine'))?.status], [['new'], 'completed'])
  })

  for (const end of ['completed', 'failed'] as const) {
    test(`a run that continues writes nothing to the later task, which runs at the same attempt (${end})`, async () => {
      const gates = { old: deferred(), new: deferred() }
      const { tasks, queue, ran, again } = await setUp(async (input) => {
        await gates[input as 'old'].promise
        if (input === 'old' && end === 'failed') throw new Error('of the old run, on purpose')
        return { message: String(input) }
      })
      const old = queue.deliver(1, false)
      await eventually(() => ran.length === 1)
      await again('new')
      queue.jobs.shift()
      const late = queue.deliver(1, false)
      await eventually(() => ran.length === 2)
      gates.old.resolve()
      assert.equal(await old, true)
      assert.equal((await tasks.get('mine'))?.status, 'processing')
      gates.new.resolve()
      assert.equal(await late, true)
      assert.deepEqual((await tasks.get('mine'))?.result, { message: 'new' })
    })
  }
})
