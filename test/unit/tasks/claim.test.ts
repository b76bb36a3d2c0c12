import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { taskKey } from '../../../src/tasks/ledger.js'
import { createTasks, defineTask, type TaskContext, type Tasks } from '../../../src/tasks/index.js'
import { deferred, ended, eventually } from './kit.js'

/** Tasks over memory with nothing between, which is where a short run begins without a write. */
function setUp(run: (input: unknown, context: TaskContext) => unknown) {
  const { store, queue } = memory()
  const values: string[] = []
  const replace = store.replace.bind(store)
  store.replace = (key, value, revision, options) => {
    values.push(value)
    return replace(key, value, revision, options)
  }
  const work = defineTask({ name: 'work', run })
  const tasks: Tasks = createTasks({ store, queue, definitions: [work] })
  const close = async () => {
    await tasks.close({ drainMs: 0 })
    await store.close()
  }
  return { store, values, work, tasks, close }
}

describe('a run that begins without a write', () => {
  test('is written once when it ends in the turn that it began in, and says when it began', async (t) => {
    const { values, work, tasks, close } = setUp(async () => ({ message: 'done' }))
    t.after(close)
    const { id } = await tasks.submit(work, 1)
    const view = await ended(tasks, id)
    assert.equal(view.status, 'completed')
    assert.ok(view.startedAt !== undefined && view.finishedAt !== undefined && view.startedAt <= view.finishedAt)
    assert.deepEqual(values.map((value) => value.slice(2, value.indexOf('"', 2))), ['completed'])
  })

  test('is known to have begun before anything else happens, when it lasts', async (t) => {
    const gate = deferred()
    let seen: string | undefined
    const { store, work, tasks, close } = setUp(async (_, { taskId = '' }) => {
      // The next event of the loop: nobody else can look any sooner.
      setImmediate(() => { seen = (store.get(taskKey(taskId)) as { value: string }).value })
      await gate.promise
    })
    t.after(close)
    const { id } = await tasks.submit(work, 1)
    await eventually(() => seen !== undefined)
    assert.match(seen ?? '', /^\["processing".*\n.*"startedAt":/)
    gate.resolve()
    assert.equal((await ended(tasks, id)).status, 'completed')
  })

  test('never begins for a task that was cancelled while it waited', async (t) => {
    let runs = 0
    const { store, work, tasks, close } = setUp(async () => { runs++ })
    // Cancels by the record alone: the job stays in its queue.
    const others = createTasks({ store, queue: memory().queue, definitions: [work] })
    t.after(async () => {
      await others.close({ drainMs: 0 })
      await close()
    })
    const { id } = await tasks.submit(work, 1)
    assert.equal((await others.cancel(id))?.moved, true)
    await new Promise(setImmediate)
    await new Promise(setImmediate)
    assert.equal(runs, 0)
    assert.equal((await tasks.get(id))?.status, 'cancelled')
  })

  test('is cancelled in the very turn that it began in: the cancel stands', async (t) => {
    const { work, tasks, close } = setUp(async (_, { taskId = '', signal }) => {
      await tasks.cancel(taskId)
      return { message: `aborted: ${String(signal.aborted)}` }
    })
    t.after(close)
    const { id } = await tasks.submit(work, 1)
    assert.equal((await ended(tasks, id)).status, 'cancelled')
  })

  test('ends well when somebody touches the waiting record meanwhile', async (t) => {
    const { store, work, tasks, close } = setUp(async (_, { taskId = '' }) => {
      const entry = await store.get(taskKey(taskId))
      if (entry) await store.replace(taskKey(taskId), entry.value, entry.revision, {})
      return { message: 'done' }
    })
    t.after(close)
    const { id } = await tasks.submit(work, 1)
    const view = await ended(tasks, id)
    assert.equal(view.status, 'completed')
    assert.ok(view.startedAt)
  })

  test('keeps what it reports of its progress', async (t) => {
    const gate = deferred()
    const { work, tasks, close } = setUp(async (_, { progress }) => {
      progress(1, 2)
      await gate.promise
    })
    t.after(close)
    const { id } = await tasks.submit(work, 1)
    await eventually(async () => (await tasks.get(id))?.progress?.done === 1)
    gate.resolve()
    assert.equal((await ended(tasks, id)).status, 'completed')
  })
})
