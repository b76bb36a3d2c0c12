// What a durable queue makes of a process that stops between any two writes.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { callbacks, type CallbackReply, type CallbackRequest } from '../../../src/callbacks/index.js'
import { MemoryStore } from '../../../adapters/memory/index.js'
import type { EnqueueOptions, Job, ProcessOptions, Queue, RunJob } from '../../../src/queues/queue.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { HandQueue } from '../tasks/hand-queue.js'
import { Spy, SpyStore } from '../tasks/kit.js'

// Timers of the library let a process end.
const hold = setInterval(() => undefined, 60_000)
after(() => { clearInterval(hold) })

/** Keeps each job until the test runs it; takes an id once while it is there, as a broker does. */
/** A job's id without the name of the job, which is random: the task's id, or `callback~{task}~{attempt}`. */
const short = (id: string): string => id.replace(/^(callback~)?([^~]+)~[^~]+/, '$1$2')

class ScriptQueue implements Queue {
  /** By their short ids. */
  readonly durable = true
  readonly jobs = new Map<string, { job: Job, options: EnqueueOptions }>()
  down = false
  private run: RunJob | undefined
  private options: ProcessOptions | undefined
  async enqueue(job: Job, options: EnqueueOptions = {}) {
    if (this.down) throw new Error('the broker is away')
    if (!this.jobs.has(short(job.id))) this.jobs.set(short(job.id), { job: JSON.parse(JSON.stringify(job)) as Job, options })
    return 'accepted' as const
  }

  process(run: RunJob, options: ProcessOptions) { [this.run, this.options] = [run, options] }
  async remove(id: string) { return this.jobs.delete(short(id)) }
  async has(id: string) { return this.jobs.has(short(id)) }
  async close() { await Promise.resolve() }

  get ids(): string[] { return [...this.jobs.keys()] }

  /** Runs a job. It is acknowledged, and gone, only when the run resolves and `crash` is not said. */
  async work(id: string, { crash = false } = {}): Promise<boolean> {
    const held = this.jobs.get(id)
    assert.ok(held && this.run, `${id} is not in the queue: ${this.ids.join()}`)
    const done = await this.run(held.job, { attempt: 1, lastAttempt: true, signal: new AbortController().signal }).then(() => true, () => false)
    if (done && !crash) this.jobs.delete(id)
    return done
  }

  async die(id: string) { await this.options?.onDead(this.jobs.get(id)?.job as Job, 'stalled') }
}

function setUp(replies: (CallbackReply | Promise<CallbackReply>)[] = []) {
  const spy = new Spy()
  const queue = new ScriptQueue()
  const sent: CallbackRequest[] = []
  const work = defineTask({ name: 'work', run: () => ({ message: 'done' }) })
  const store = new SpyStore(new MemoryStore(), spy, true)
  const tasks = createTasks({
    store, queue, definitions: [work], onError: () => undefined,
    callbacks: callbacks({
      secrets: () => ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
      sender: { check: () => undefined, send: async (request) => { sent.push(request); return replies.shift() ?? { status: 200 } } },
      backoff: { type: 'fixed', delayMs: 7000 }, attempts: 3,
    }),
  })
  const submit = async () => (await tasks.submit(work, 1, { callbackUrl: 'https://example.com/hook' })).taskId
  return { tasks, store, work, queue, sent, spy, submit }
}

const callback = async (tasks: ReturnType<typeof createTasks>, id: string) => (await tasks.get(id))?.callback

describe('a crash', () => {
  test('between the final write and the callback: the task\'s job is not acknowledged, and its rerun enqueues just that', async (t) => {
    const { tasks, queue, submit } = setUp()
    const real = setTimeout
    t.mock.method(globalThis, 'setTimeout', (run: () => void) => real(run, 1))
    const id = await submit()
    queue.down = true
    assert.equal(await queue.work(id), false, 'acknowledged although nobody will be told')
    const view = await tasks.get(id)
    assert.deepEqual([view?.status, view?.callback], ['completed', { state: 'pending', attempts: 0 }], 'not due with the final write')
    await assert.rejects(queue.die(id), 'an engine that buries it has to ask again')
    queue.down = false
    assert.equal(await queue.work(id), true, 'the rerun failed')
    assert.deepEqual(queue.ids, [`callback~${id}~1`], 'the callback is not in the queue')
  })

  test('after the callback was enqueued, before the task was acknowledged: it is enqueued once', async () => {
    const { queue, sent, submit } = setUp()
    const id = await submit()
    await queue.work(id, { crash: true })
    await queue.work(id, { crash: true })
    assert.deepEqual(queue.ids, [id, `callback~${id}~1`], 'not once')
    await queue.work(`callback~${id}~1`)
    await queue.work(id)
    assert.deepEqual(queue.ids, [], 'told of again')
    assert.equal(sent.length, 1, 'sent again')
  })

  test('after an attempt was recorded, before it was acknowledged: it is not repeated', async () => {
    const { tasks, queue, sent, submit } = setUp([{ status: 500 }])
    const id = await submit()
    await queue.work(id)
    await queue.work(`callback~${id}~1`, { crash: true })
    await queue.work(`callback~${id}~1`)
    assert.deepEqual([sent.length, queue.ids], [1, [`callback~${id}~2`]], 'made again')
    assert.equal(queue.jobs.get(`callback~${id}~2`)?.options.delayMs, 7000, 'not after the back-off')
    const view = await callback(tasks, id)
    assert.deepEqual([view?.state, view?.attempts, view?.lastStatus, view?.fault], ['pending', 1, 500, 'status'], 'not shown')
  })

  test('before an attempt was recorded: it is repeated with the same id, and one further attempt follows', async (t) => {
    // The store is asked again for minutes.
    const real = setTimeout
    t.mock.method(globalThis, 'setTimeout', (work: () => void) => real(work, 1))
    const { queue, sent, spy, submit } = setUp([{ status: 500 }, { status: 500 }])
    const id = await submit()
    await queue.work(id)
    spy.fault = (call) => (call.startsWith('replace') ? 'before' : undefined)
    assert.equal(await queue.work(`callback~${id}~1`), false, 'acknowledged although it was not noted')
    spy.fault = () => undefined
    await queue.work(`callback~${id}~1`)
    assert.deepEqual(queue.ids, [`callback~${id}~2`], 'not one next')
    assert.deepEqual([sent.length, sent[0]?.headers['webhook-id'] === sent[1]?.headers['webhook-id'], sent[0]?.body === sent[1]?.body], [2, true, true], 'not the same message')
  })

  test('that was only presumed, of a worker that continues: its late record changes nothing', async () => {
    let end: ((reply: CallbackReply) => void) | undefined
    const { tasks, queue, submit } = setUp([new Promise((resolve) => { end = resolve }), { status: 500 }, { status: 502 }])
    const id = await submit()
    await queue.work(id)
    const late = queue.work(`callback~${id}~1`, { crash: true })
    await queue.work(`callback~${id}~1`)
    await queue.work(`callback~${id}~2`)
    end?.({ status: 404 })
    assert.equal(await late, true, 'the late one has to be run again')
    const view = await callback(tasks, id)
    assert.deepEqual([view?.state, view?.attempts, view?.lastStatus], ['pending', 2, 502], 'taken back')
  })

  test('after the callback was sent: a process without callbacks can end the job', async () => {
    const { store, work, queue, submit } = setUp()
    const id = await submit()
    await queue.work(id, { crash: true })
    const other = new ScriptQueue()
    createTasks({ store, queue: other, definitions: [work] })
    await other.enqueue(queue.jobs.get(id)?.job as Job)
    assert.equal(await other.work(id), false, 'acknowledged before anybody was told')
    await queue.work(`callback~${id}~1`)
    assert.equal(await other.work(id), true, 'there is nothing left to tell')
  })

  test('of the process that cancelled, before it sent the callback: the remaining job sends it', async (t) => {
    const { tasks, queue, submit } = setUp()
    const real = setTimeout
    t.mock.method(globalThis, 'setTimeout', (run: () => void) => real(run, 1))
    const id = await submit()
    queue.down = true
    await assert.rejects(tasks.cancel(id), 'the caller is to know')
    queue.down = false
    await queue.work(id)
    assert.deepEqual(queue.ids, [`callback~${id}~1`], 'nobody is told')
  })
})

describe('a callback', () => {
  test('outlives its record', async () => {
    const { tasks, queue, sent, submit } = setUp([{ fault: 'timeout' }])
    const id = await submit()
    await queue.work(id)
    assert.equal(await tasks.delete(id), true, 'not deleted')
    await queue.work(`callback~${id}~1`)
    await queue.work(`callback~${id}~2`)
    assert.equal(sent.length, 2, 'lost with its record')
    assert.match(sent[0]?.body ?? '', /"type":"task.completed".*"message":"done"/, 'wrong message')
  })

  test('waits at least as long as Retry-After asks, a day at the most', async () => {
    for (const [field, ms] of [['60', 60_000], ['1', 7000], ['999999999', 86_400_000], ['soon', 7000], [new Date(Date.now() + 600_000).toUTCString(), 600_000]] as const) {
      const { queue, submit } = setUp([{ status: 429, retryAfter: field }])
      const id = await submit()
      await queue.work(id)
      await queue.work(`callback~${id}~1`)
      const delay = queue.jobs.get(`callback~${id}~2`)?.options.delayMs ?? 0
      assert.ok(delay <= ms && delay > ms - 5000 && (field.length > 12 || delay === ms), `${field}: ${String(delay)}`)
    }
  })

  test('that its engine gives up is failed, and can be redelivered', async () => {
    const { tasks, queue, submit } = setUp()
    const id = await submit()
    await queue.work(id)
    await queue.die(`callback~${id}~1`)
    queue.jobs.delete(`callback~${id}~1`)
    assert.deepEqual(await callback(tasks, id), { state: 'failed', attempts: 1, fault: 'interrupted' }, 'not shown')
    assert.equal(await tasks.redeliver(id), true, 'not redelivered')
    await queue.work(`callback~${id}~2`)
    assert.equal((await callback(tasks, id))?.state, 'delivered', 'not delivered')
  })

  test('that waits for its next attempt is sent at once if it is redelivered', async () => {
    const { tasks, queue, submit } = setUp([{ status: 500 }])
    const id = await submit()
    assert.equal(await tasks.redeliver(id), false, 'there is nothing to tell of yet')
    await queue.work(id)
    await queue.work(`callback~${id}~1`)
    await tasks.redeliver(id)
    assert.equal(queue.jobs.get(`callback~${id}~2`)?.options.delayMs, 0, 'it still waits')
  })
})

test('the callback of a later task of an id is a separate job, and does not get the outcome of an earlier one', async () => {
  const queue = new HandQueue(true)
  const sent: CallbackRequest[] = []
  const work = defineTask({ name: 'work', run: (input) => ({ message: String(input) }) })
  const tasks = createTasks({
    store: new SpyStore(new MemoryStore(), new Spy(), true), queue, definitions: [work],
    callbacks: callbacks({
      secrets: () => ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
      sender: { check: () => undefined, send: async (request) => { sent.push(request); return { status: 200 } } },
    }),
  })
  const ids: string[] = []
  /** Runs the first job, and takes it out of the queue. */
  const next = async () => {
    assert.equal(await queue.deliver(), true)
    ids.push(queue.jobs.shift()?.id ?? '')
  }
  await tasks.submit(work, 'one', { id: 'mine', callbackUrl: 'https://example.com/hook' })
  await next()
  const created = (await tasks.get('mine'))?.createdAt.getTime()
  assert.equal(await tasks.delete('mine'), true)
  // Two tasks of one id are told apart from a retry by their times of creation, in milliseconds.
  while (Date.now() === created) await new Promise(setImmediate)
  await tasks.submit(work, 'two', { id: 'mine', callbackUrl: 'https://example.com/hook' })
  queue.jobs.push(...queue.jobs.splice(0, 1))
  await next()
  assert.equal(queue.jobs.length, 2, 'the callbacks of both wait')
  await next()
  assert.deepEqual([sent.length, (await callback(tasks, 'mine'))?.state], [1, 'pending'])
  await next()
  assert.deepEqual([sent.length, (await callback(tasks, 'mine'))?.state], [2, 'delivered'])
  assert.equal(new Set(ids).size, 4)
})
