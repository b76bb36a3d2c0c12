// Runs where others write to the store, or the queue is durable: what they do when they were overtaken, and that each write is tried again.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { MemoryStore } from '../../../../adapters/memory/index.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { defineTask, type TaskContext } from '../../../../src/tasks/definition/define.js'
import { HandQueue } from '../hand-queue.js'
import { eventually, Spy, SpyStore } from '../kit.js'
import { serviceOf } from '../../../../src/tasks/service-of.js'

// Timers of the library let a process end.
const hold = setInterval(() => undefined, 60_000)
after(() => { clearInterval(hold) })

/** Tasks with a durable queue over a shared store, which fails when the test says so. */
function setUp(run: (context: TaskContext & { taskId: string }) => unknown) {
  const store = new MemoryStore()
  const spy = new Spy()
  const queue = new HandQueue(true)
  const heard: unknown[] = []
  const released: string[] = []
  const work = defineTask({
    name: 'work', maxPerOwner: 1, attempts: 3, keeps: { of: () => 'a file', release: (name) => released.push(name) },
    run: (_, context) => run(context as TaskContext & { taskId: string }),
  })
  const options = { store: new SpyStore(store, spy, true), definitions: [work], onError: (error: unknown) => { heard.push(error) } }
  const tasks = createTasks({ ...options, queue })
  /** Another process: what it cancels is seen by the record alone. */
  const others = createTasks({ ...options, queue: new HandQueue(true) })
  return { store, spy, queue, heard, released, work, tasks, others }
}

/** Runs until its signal aborts; `signals` of all runs in the order in which they began. */
function lasting() {
  const signals: AbortSignal[] = []
  const run = ({ signal }: TaskContext) => new Promise<never>((_, reject) => {
    signals.push(signal)
    signal.addEventListener('abort', () => { reject(signal.reason as Error) })
  })
  return { signals, run }
}

describe('a run that was overtaken', () => {
  test('by a later run is aborted, writes nothing, and releases nothing that the later run needs', async () => {
    const { signals, run } = lasting()
    const { store, queue, released, heard, work, tasks, spy } = setUp(run)
    await tasks.submit(work, 1, { owner: 'ann' })
    const first = queue.deliver(1, false)
    await eventually(() => signals.length === 1)
    const second = queue.deliver(1, false)
    await eventually(() => signals.length === 2)
    // One for each beginning: the first is written long since.
    assert.equal(spy.calls.filter((call) => call.startsWith('replace task')).length, 2)
    await eventually(() => signals[0]?.aborted === true)
    assert.equal(await first, true)
    assert.deepEqual([released, heard, signals[1]?.aborted], [[], [], false])
    assert.equal(store.usage().entries, 3, 'record, slot and the identity of the store')
    await tasks.cancel(queue.jobs[0]?.taskId ?? '')
    assert.equal(await second, true)
    assert.equal(store.usage().entries, 2, 'the slot is free')
    assert.deepEqual(released, [], 'a retry may need it')
  })

  test('by the end of its record is aborted, and is not a failure', async () => {
    const { signals, run } = lasting()
    const { store, queue, released, heard, work, tasks } = setUp(run)
    const { taskId: id } = await tasks.submit(work, 1)
    const done = queue.deliver(1, false)
    await eventually(() => signals.length === 1)
    await store.delete(`task:${id}`)
    await eventually(() => signals[0]?.aborted === true)
    assert.equal(await done, true)
    assert.deepEqual([released, heard], [[], []])
  })
})

describe('a run that fails, with attempts left', () => {
  for (const what of ['cancelled', 'deleted'] as const) {
    test(`is not retried if its record was ${what} before it was notified`, async () => {
      const { store, queue, heard, work, tasks, others } = setUp(async ({ taskId }) => {
        if (what === 'cancelled') await others.cancel(taskId)
        else await store.delete(`task:${taskId}`)
        throw new Error('not yet')
      })
      const { taskId: id } = await tasks.submit(work, 1)
      assert.equal(await queue.deliver(1, false), true)
      assert.equal((await tasks.get(id))?.status, what === 'cancelled' ? 'cancelled' : undefined)
      assert.ok(heard.every((error) => error instanceof Error && error.message === 'not yet'))
    })
  }

  test('is handed back, with its progress, also if the store is away for a moment', async () => {
    const { queue, heard, spy, work, tasks } = setUp(({ progress }) => {
      progress(1)
      progress(2)
      let left = 3
      spy.fault = (call) => (call.startsWith('replace task') && left-- > 0 ? 'before' : undefined)
      throw new Error('not yet')
    })
    const { taskId: id } = await tasks.submit(work, 1)
    assert.equal(await queue.deliver(1, false), false)
    assert.deepEqual([(await serviceOf(tasks).read(id))?.state, (await tasks.get(id))?.progress?.done], ['queued', 2])
    assert.deepEqual(heard.map((error) => (error as Error).message), ['not yet'])
  })
})

describe('a job that the queue gives up on', () => {
  test('is written as failed also when the store refuses that at first', async () => {
    const { queue, spy, heard, released, work, tasks } = setUp(() => undefined)
    const { taskId: id } = await tasks.submit(work, 1)
    let left = 2
    spy.fault = (call) => (call.startsWith('replace task') && left-- > 0 ? 'before' : undefined)
    await queue.die('attempts')
    assert.deepEqual([(await tasks.get(id))?.error?.code, heard, released], ['task_failed', [], []])
  })

  test('is not a failure if its record is deleted at that moment', async () => {
    const { store, queue, spy, heard, work, tasks } = setUp(() => undefined)
    const { taskId: id } = await tasks.submit(work, 1)
    spy.fault = (call) => {
      if (call.startsWith('replace task')) void store.delete(`task:${id}`)
      return undefined
    }
    await queue.die('attempts')
    assert.deepEqual(heard, [])
  })
})
