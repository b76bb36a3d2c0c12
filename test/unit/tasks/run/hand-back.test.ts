// Jobs that this process cannot run, while another one may.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { MemoryStore } from '../../../../adapters/memory/index.js'
import { httpError } from '../../../../src/http/errors.js'
import { isHandBack, type Job, type RunJob } from '../../../../src/queues/queue.js'
import { jsonSchema } from '../../../../src/schema/json-schema.js'
import { createTasks, type Tasks } from '../../../../src/tasks/tasks.js'
import { defineTask, type AnyTaskDefinition } from '../../../../src/tasks/definition/define.js'
import { HandQueue } from '../hand-queue.js'
import { Spy, SpyStore } from '../kit.js'

const HOUR = 3_600_000
const any = defineTask({ name: 'work', run: () => ({ message: 'done' }) })
const other = defineTask({ name: 'other', run: () => undefined })
const strict = defineTask({
  name: 'work', input: jsonSchema({ type: 'object', properties: { year: { type: 'integer' } }, additionalProperties: false }), run: () => ({ message: 'done' }),
})

class CarryingQueue extends HandQueue {
  override async enqueue(job: Job) {
    const { record } = job
    this.jobs.push({ ...JSON.parse(JSON.stringify(job)) as Job, record })
    return 'accepted' as const
  }
}

/** A process of the old version, one of the new one, and a queue and a store between them. */
function setUp(old: AnyTaskDefinition, { unknownTaskMs = HOUR, now = () => performance.now() } = {}) {
  const inner = new MemoryStore({ now })
  const store = new SpyStore(inner, new Spy(), true)
  const queue = new CarryingQueue(true)
  const heard: { message: string, taskId: string }[] = []
  const web = createTasks({ store, queue, definitions: [any], worker: false })
  const worker = (definitions: AnyTaskDefinition[]): { tasks: Tasks, take: () => Promise<unknown> } => {
    let run: RunJob | undefined
    const own = Object.assign(new HandQueue(true), { process: (given: RunJob) => { run = given } })
    const tasks = createTasks({
      store, queue: own, definitions, unknownTaskMs, onError: (error, { taskId }) => { heard.push({ message: (error as Error).message, taskId }) },
    })
    const take = async () => {
      const [job] = queue.jobs
      assert.ok(job && run)
      return run(JSON.parse(JSON.stringify(job)) as typeof job, { attempt: 1, lastAttempt: true, signal: new AbortController().signal }).then(() => 'done', (error: unknown) => error)
    }
    return { tasks, take }
  }
  return { web, old: worker([old]), fresh: worker([any]), heard, queue, store: inner }
}

for (const [what, old, code] of [['a definition that it does not know', other, 'unknown_task'], ['a schema that refuses the input', strict, 'invalid_input']] as const) {
  describe(`a worker with ${what} (15.7)`, () => {
    test('hands the job back, calls onError once, and leaves the task to a worker that can run it', async () => {
      const { web, old: { take }, fresh, heard } = setUp(old)
      const { taskId: id } = await web.submit(any, { month: 1 })
      for (let times = 0; times < 3; times++) {
        const error = await take()
        assert.ok(isHandBack(error), String(error))
        assert.ok(error.delayMs >= 500 && error.delayMs < 60_000, String(error.delayMs))
      }
      assert.deepEqual(heard.map(({ taskId }) => taskId), [id])
      assert.match(heard[0]?.message ?? '', /work.*handed back/)
      const waiting = await web.get(id)
      assert.deepEqual([waiting?.status, waiting?.attempt], ['queued', undefined])
      assert.equal(await fresh.take(), 'done')
      assert.deepEqual([(await web.get(id))?.status, (await web.get(id))?.attempt], ['completed', 1])
    })

    test('fails the task once no process could run it for unknownTaskMs, however long it had waited before', async () => {
      let now = 0
      const { web, old: { take } } = setUp(old, { now: () => now })
      const { taskId: id } = await web.submit(any, { month: 1 })
      now = 5 * HOUR
      assert.ok(isHandBack(await take()))
      now += HOUR - 1000
      assert.ok(isHandBack(await take()))
      now += 1001
      assert.equal(await take(), 'done')
      const task = await web.get(id)
      assert.deepEqual([task?.status, task?.error?.code], ['failed', code])
    })

    test('drops a job whose task is final or deleted', async () => {
      const { web, old: { take }, heard } = setUp(old)
      const { taskId: id } = await web.submit(any, { month: 1 })
      await web.cancel(id)
      assert.equal(await take(), 'done')
      await web.delete(id)
      assert.equal(await take(), 'done')
      assert.deepEqual(heard, [])
    })
  })
}

test('counts a schema that throws as a failed attempt', async () => {
  const broken = defineTask({ name: 'work', input: { '~standard': { version: 1, vendor: 'x', validate: () => { throw httpError('bad_gateway') } } }, run: () => undefined })
  const { web, old: { take } } = setUp(broken)
  const { taskId: id } = await web.submit(any, 1)
  assert.equal(await take(), 'done')
  assert.deepEqual([(await web.get(id))?.error?.code, (await web.get(id))?.attempt], ['bad_gateway', 1])
})

describe('a job whose record is in another store (15.8)', () => {
  test('is handed back and reported, also when it is late, and never fails its task', async () => {
    const here = setUp(any)
    const there = setUp(any)
    await here.web.submit(any, 1)
    there.queue.jobs.push(...here.queue.jobs)
    assert.ok(isHandBack(await there.old.take()))
    assert.ok(isHandBack(await there.old.take()))
    assert.equal(there.heard.length, 1)
    assert.match(there.heard[0]?.message ?? '', /another store/)
    assert.equal(await here.old.take(), 'done')
    assert.equal((await here.web.get(here.queue.jobs[0]?.taskId ?? ''))?.status, 'completed')
  })

  test('is run if its record is found here, also after the store was emptied and has another identity', async () => {
    const { web, old: { take }, store, queue } = setUp(any)
    const first = await web.submit(any, 1)
    await store.delete('identity')
    await store.delete(`task:${first.taskId}`)
    const { taskId: id } = await web.submit(any, 2)
    const [leftover] = queue.jobs.splice(0, 1)
    assert.equal(await take(), 'done')
    assert.equal((await web.get(id))?.status, 'completed')
    assert.ok(leftover)
  })

  test('is dropped once its record must have expired', async (t) => {
    const here = setUp(any)
    const there = setUp(any)
    await here.web.submit(any, 1)
    there.queue.jobs.push(...here.queue.jobs)
    const late = Date.now() + 8 * 24 * HOUR
    t.mock.method(Date, 'now', () => late)
    assert.equal(await there.old.take(), 'done')
  })
})
