import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { MemoryStore } from '../../../adapters/memory/index.js'
import { QueueClosingError, type Job } from '../../../src/queues/queue.js'
import { StoreUnavailableError } from '../../../src/stores/store.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { defineTask, type AnyTaskDefinition } from '../../../src/tasks/definition/define.js'
import { HandQueue } from './hand-queue.js'
import { deferred, eventually, Spy, SpyStore } from './kit.js'
import { serviceOf } from '../../../src/tasks/service-of.js'

// Timers of the library let a process end.
const hold = setInterval(() => undefined, 60_000)
after(() => { clearInterval(hold) })

function setUp(work: AnyTaskDefinition, { durable = false, shared = false } = {}) {
  const store = new MemoryStore()
  const spy = new Spy()
  const queue = new HandQueue(durable)
  const heard: unknown[] = []
  const tasks = createTasks({ store: new SpyStore(store, spy, shared), queue, definitions: [work], onError: (error) => { heard.push(error) }, progressIntervalMs: 0 })
  return { store, spy, queue, heard, tasks }
}

describe('a job that is delivered twice', () => {
  for (const shared of [false, true]) {
    test(`while its first run continues (shared store: ${String(shared)}): the late run writes nothing, and is aborted`, async () => {
      const gates = [deferred<string>(), deferred<string>()]
      const signals: AbortSignal[] = []
      const reports: ((done: number) => void)[] = []
      const work = defineTask({
        name: 'work', run: async (_, { signal, progress, attempt }) => {
          signals.push(signal)
          reports.push(progress)
          return { message: await (gates[attempt - 1] ?? assert.fail()).promise }
        },
      })
      const { tasks, queue, spy } = setUp(work, { shared })
      const { taskId: id } = await tasks.submit(work, 1)
      const first = queue.deliver()
      await eventually(() => signals.length === 1)
      const second = queue.deliver()
      await eventually(() => signals.length === 2)
      reports[0]?.(50)
      await eventually(() => signals[0]?.aborted === true)
      assert.equal(signals[1]?.aborted, false)
      gates[0]?.resolve('late')
      assert.equal(await first, true)
      assert.deepEqual([(await tasks.get(id))?.status, (await tasks.get(id))?.progress], ['processing', undefined])
      assert.equal((await tasks.health()).running, 1)
      await tasks.cancel(id)
      assert.equal(signals[1]?.aborted, true)
      gates[1]?.resolve('right')
      assert.equal(await second, true)
      assert.equal((await tasks.get(id))?.status, 'cancelled')
      assert.equal((await tasks.health()).running, 0)
      assert.ok(spy.calls.length < 40)
    })
  }

  test('after its end: nothing runs, and the cleanup of the record is completed', async () => {
    let runs = 0
    const work = defineTask({ name: 'work', maxPerOwner: 1, run: () => { runs++ } })
    const { tasks, queue, spy, store } = setUp(work)
    const { taskId: id } = await tasks.submit(work, 1, { owner: 'ann' })
    // The process dies between the end of the task and freeing its place.
    spy.fault = (call) => (call.startsWith('get slot') ? 'before' : undefined)
    assert.equal(await queue.deliver(), true)
    spy.fault = () => undefined
    assert.equal(store.usage().entries, 2)
    const before = await tasks.get(id)
    assert.equal(await queue.deliver(), true)
    assert.equal(store.usage().entries, 1)
    assert.deepEqual(await tasks.get(id), before)
    assert.equal(runs, 1)
  })

  test('for a task without a record: nothing runs', async () => {
    let runs = 0
    const work = defineTask({ name: 'work', run: () => { runs++ } })
    const { tasks, queue, store } = setUp(work)
    const { taskId: id } = await tasks.submit(work, 1)
    await store.delete(`task:${id}`)
    assert.equal(await queue.deliver(), true)
    await queue.die('attempts')
    assert.equal(runs, 0)
    assert.equal(store.usage().entries, 0)
  })
})

describe('a job that the queue gives up on', () => {
  for (const [reason, code] of [['attempts', 'task_failed'], ['stalled', 'task_interrupted'], ['closed', 'task_interrupted']] as const) {
    test(`${reason}: its record is failed, ${code}, unless it was final`, async () => {
      const work = defineTask({ name: 'work', run: () => undefined })
      const { tasks, queue, spy } = setUp(work)
      const { taskId: id } = await tasks.submit(work, 1)
      let left = 2
      spy.fault = (call) => (/^(get|replace) task/.test(call) && left-- > 0 ? 'before' : undefined)
      await queue.die(reason)
      assert.deepEqual([(await tasks.get(id))?.status, (await tasks.get(id))?.error?.code], ['failed', code])
      const other = await tasks.submit(work, 1)
      queue.jobs.shift()
      await queue.deliver()
      await queue.die(reason)
      assert.equal((await tasks.get(other.taskId))?.status, 'completed')
    })
  }

  test('a store that stays away is reported to onError, and nothing hangs', async (t) => {
    const real = setTimeout
    t.mock.method(globalThis, 'setTimeout', (work: () => void) => real(work, 1))
    const work = defineTask({ name: 'work', run: () => undefined })
    const { tasks, queue, spy, heard } = setUp(work)
    await tasks.submit(work, 1)
    spy.fault = () => 'before'
    assert.equal(await queue.deliver(), false)
    await assert.rejects(queue.die('attempts'), 'an engine that keeps its dead asks again')
    assert.equal(heard.length, 2)
    assert.ok(heard.every((error) => error instanceof StoreUnavailableError))
  })
})

describe('a worker that closes', () => {
  for (const durable of [false, true]) {
    test(`${durable ? 'hands a durable job back as queued' : 'fails a job that nobody will run again'}`, async () => {
      const started = deferred()
      const work = defineTask({ name: 'work', run: (_, { signal }) => new Promise((_, reject) => { started.resolve(); signal.addEventListener('abort', () => { reject(signal.reason as Error) }) }) })
      const { tasks, queue, heard } = setUp(work, { durable, shared: true })
      const { taskId: id } = await tasks.submit(work, 1)
      const closing = new AbortController()
      const delivered = queue.deliver(1, false, closing.signal)
      await started.promise
      closing.abort(new QueueClosingError())
      assert.equal(await delivered, !durable)
      assert.equal((await serviceOf(tasks).read(id))?.state, durable ? 'queued' : 'failed')
      assert.deepEqual(heard, [])
    })
  }
})

test('a kind of work that this process does not know fails its task', async () => {
  const work = defineTask({ name: 'work', run: () => undefined })
  const { tasks, queue } = setUp(work)
  const { taskId: id } = await tasks.submit(work, 1)
  queue.jobs[0] = { ...queue.jobs[0] as Job, name: 'other' }
  assert.equal(await queue.deliver(), true)
  assert.equal((await tasks.get(id))?.error?.code, 'unknown_task')
})

test('a final record is evictable, another is not', async () => {
  let pinned = 0
  const work = defineTask({ name: 'work', run: () => { pinned = store.usage().pinned } })
  const { tasks, queue, store } = setUp(work)
  await tasks.submit(work, 1)
  assert.equal(store.usage().pinned, 1)
  await queue.deliver()
  assert.equal(pinned, 1)
  assert.deepEqual([store.usage().pinned, store.usage().entries], [0, 1])
})
