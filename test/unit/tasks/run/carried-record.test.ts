// A job that leaves its process carries what is known of its record: the first run has no need to read it, and believes none of it.
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { describe, test, type TestContext } from 'node:test'
import { MemoryStore } from '../../../../adapters/memory/index.js'
import { QueueClosingError, type Job, type Queue, type RunJob } from '../../../../src/queues/queue.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { defineTask, type TaskContext } from '../../../../src/tasks/definition/define.js'
import { deferred, eventually, Spy, SpyStore } from '../kit.js'

/** A durable queue that keeps each job as text until the test runs it. */
class TextQueue implements Queue {
  readonly durable = true
  readonly jobs: string[] = []
  private run: RunJob | undefined
  async enqueue({ id, taskId, name, input, record }: Job) {
    this.jobs.push(JSON.stringify({ id, taskId, name, input, record }))
    return 'accepted' as const
  }

  process(run: RunJob) { this.run = run }
  async remove() { return false }
  async has() { return true }
  async close() { await Promise.resolve() }

  async work(attempt = 1, { signal } = new AbortController()): Promise<void> {
    await this.run?.(JSON.parse(this.jobs[0] ?? '') as Job, { attempt, lastAttempt: attempt === 2, signal })
  }
}

function setUp(t: TestContext, run: (input: unknown, context: TaskContext) => unknown = () => ({ message: 'done' })) {
  const spy = new Spy()
  const queue = new TextQueue()
  const ran: number[] = []
  const work = defineTask({
    name: 'work', maxPerOwner: 1, attempts: 2, run: (input, context) => {
      ran.push(context.attempt)
      return run(input, context)
    },
  })
  const store = new MemoryStore()
  const tasks = createTasks({ store: new SpyStore(store, spy, true), queue, definitions: [work], onError: () => undefined })
  t.after(() => tasks.close())
  /** What the store is asked for the record while `what` goes on. */
  const asked = async (what: () => Promise<unknown>) => {
    const before = spy.calls.length
    await what()
    return spy.calls.slice(before).filter((call) => call.includes(' task:')).map((call) => call.split(' ')[0])
  }
  return { tasks, store, queue, work, ran, asked }
}

describe('a job that carries a copy of its record', () => {
  test('is run without a read of the record, and writes all of it', async (t) => {
    const { tasks, queue, work, ran, asked } = setUp(t)
    const { taskId: id } = await tasks.submit(work, 1, { owner: 'ann' })
    const { createdAt } = await tasks.get(id) ?? {}
    assert.deepEqual(await asked(() => queue.work()), ['replace', 'replace'])
    assert.deepEqual(ran, [1])
    assert.equal(await tasks.ownedBy('bob').get(id), undefined, 'its owner got lost')
    const view = await tasks.ownedBy('ann').get(id)
    assert.deepEqual([view?.status, view?.task, view?.createdAt], ['completed', 'work', createdAt])
    await tasks.submit(work, 1, { owner: 'ann' })
  })

  test('is not run if the task was cancelled or deleted', async (t) => {
    for (const away of ['cancel', 'delete'] as const) {
      const { tasks, queue, work, ran } = setUp(t)
      const { taskId: id } = await tasks.submit(work, 1)
      await tasks.cancel(id)
      if (away === 'delete') assert.equal(await tasks.delete(id), true)
      await queue.work()
      assert.deepEqual([ran, (await tasks.get(id))?.status], [[], away === 'cancel' ? 'cancelled' : undefined])
    }
  })

  test('finds the record of an earlier run whose process died', async (t) => {
    let stuck = true
    const { tasks, queue, work, ran } = setUp(t, () => stuck ? new Promise(() => undefined) : { message: 'done' })
    const { taskId: id } = await tasks.submit(work, 1)
    void queue.work()
    await new Promise((resolve) => { setImmediate(resolve) })
    stuck = false
    await queue.work()
    assert.deepEqual([ran, (await tasks.get(id))?.status], [[1, 2], 'completed'])
  })

  test('is not run if its queue closes while its start is written', async (t) => {
    const { tasks, store, queue, work, ran } = setUp(t)
    const { taskId: id } = await tasks.submit(work, 1)
    const gate = deferred()
    const replace = store.replace.bind(store)
    t.mock.method(store, 'replace', (...args: Parameters<typeof replace>) => gate.promise.then(() => replace(...args)))
    const closing = new AbortController()
    const done = assert.rejects(queue.work(1, closing), 'it was not given back')
    await eventually(() => getEventListeners(closing.signal, 'abort').length > 0)
    closing.abort(new QueueClosingError())
    gate.resolve()
    await done
    assert.deepEqual([ran, (await tasks.get(id))?.status], [[], 'queued'])
  })

  test('is read anew for a later attempt', async (t) => {
    const { tasks, queue, work, ran, asked } = setUp(t, (_, { attempt }) => {
      if (attempt === 1) throw new Error('not yet')
      return { message: 'done' }
    })
    const { taskId: id } = await tasks.submit(work, 1)
    await assert.rejects(queue.work())
    assert.deepEqual(await asked(() => queue.work(2)), ['get', 'replace', 'replace'])
    assert.deepEqual([ran, (await tasks.get(id))?.status], [[1, 2], 'completed'])
  })
})
