import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { callbacks, httpSender, type CallbackOptions } from '../../../src/callbacks/index.js'
import { MemoryQueue, MemoryStore } from '../../../adapters/memory/index.js'
import type { Job, ProcessOptions, Queue, RunJob } from '../../../src/queues/queue.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import type { Callbacks } from '../../../src/tasks/record/callbacks.js'
import { serviceOf } from '../../../src/tasks/service-of.js'

// Timers of the library let a process end.
const hold = setInterval(() => undefined, 60_000)
after(() => { clearInterval(hold) })

const work = defineTask({ name: 'work', run: () => 1 })
const secrets = () => ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw']
const sender = { check: () => undefined, send: async () => ({ status: 200 }) }

/** A queue that says what it was asked for, and runs nothing. */
class Line implements Queue {
  concurrency = 0
  readonly drains: (number | undefined)[] = []
  constructor(readonly durable = false, private readonly told: string[] = [], private readonly name = '') {}
  enqueue() { return 'accepted' as const }
  process(_: unknown, { concurrency }: ProcessOptions) { this.concurrency = concurrency }
  async remove() { return false }
  async has() { return false }
  async close({ drainMs }: { drainMs?: number } = {}) {
    this.drains.push(drainMs)
    this.told.push(this.name)
  }
}

/** Runs tasks when it closes, and has no room for callbacks. */
class Full implements Queue {
  readonly durable = false
  refused = 0
  private run: RunJob | undefined
  private readonly jobs: Job[] = []
  enqueue(job: Job) {
    if (job.name !== 'work') {
      this.refused++
      return 'full' as const
    }
    this.jobs.push(job)
    return 'accepted' as const
  }

  process(run: RunJob) { this.run = run }
  async remove() { return false }
  async has() { return false }
  async close() {
    for (const job of this.jobs.splice(0)) await this.run?.(job, { attempt: 1, lastAttempt: true, signal: new AbortController().signal })
  }
}

/** A store that other processes see, as far as anybody can tell. */
class Shared extends MemoryStore {
  override readonly shared = true as never
}

const make = (made: unknown, { queue = new Line(), store = new MemoryStore() }: { queue?: Queue, store?: MemoryStore } = {}) => (
  createTasks({ store, queue, definitions: [work], concurrency: 10, callbacks: made as Callbacks })
)

describe('callbacks()', () => {
  test('refuses each invalid option, and names it', () => {
    const wrong: [options: object, says: RegExp][] = [
      [{}, /secrets must be a function/], [{ sender }, /secrets must be a function/], [{ secrets: 'whsec_' }, /secrets must be a function/],
      [{ secrets, sender: null }, /sender must be a CallbackSender, such as httpSender\(\)/], [{ secrets, sender: {} }, /sender must be/],
      [{ secrets, sender: { send: sender.send } }, /sender must be/], [{ secrets, sender: { check: sender.check } }, /sender must be/],
      ...['attempts', 'maxInFlight', 'maxPerHost', 'maxPerOwner', 'maxWaiting', 'maxWaitingPerOwner'].flatMap((name) => (
        [0, 1.5, -1, '2', null, NaN].map((value): [object, RegExp] => [{ secrets, [name]: value }, new RegExp(`${name} must be a whole number from 1`)])
      )),
      [{ secrets, backoff: { type: 'x', delayMs: 1 } }, /backoff.type/], [{ secrets, backoff: { type: 'fixed', delayMs: -1 } }, /backoff.delayMs/],
    ]
    for (const [options, says] of wrong) {
      assert.throws(() => callbacks(options as CallbackOptions), (error: unknown) => error instanceof TypeError && says.test(error.message), JSON.stringify(options))
    }
  })

  test('uses the default of each option that is undefined', () => {
    make(callbacks({ secrets, sender, ...{ queue: undefined, attempts: undefined, backoff: undefined, maxInFlight: undefined, maxPerHost: undefined } } as never))
  })

  test('sends over HTTP to public addresses, unless another sender is named', async () => {
    const tasks = make(callbacks({ secrets }))
    assert.equal(await serviceOf(tasks).checkCallback('https://example.com/hook', 'ann'), 'https://example.com/hook')
    await assert.rejects(serviceOf(tasks).checkCallback('http://127.0.0.1/', 'ann'), { code: 'callback_url_forbidden', message: /httpSender\(\{ allow \}\)/ })
    const open = make(callbacks({ secrets, sender: httpSender({ allow: ['127.0.0.1'] }) }))
    assert.equal(await serviceOf(open).checkCallback('http://127.0.0.1/', 'ann'), 'http://127.0.0.1/')
  })
})

describe('httpSender()', () => {
  test('refuses invalid entries of allow, and invalid times', () => {
    for (const allow of ['10.0.0.0/33', '1.2.3', 'a b', '999.1.1.1', '*']) assert.throws(() => httpSender({ allow: [allow] }), TypeError, allow)
    for (const timeoutMs of [0, -1, 600_001, NaN]) assert.throws(() => httpSender({ timeoutMs }), TypeError, String(timeoutMs))
    assert.throws(() => httpSender({ maxAnswerBytes: -1 }), TypeError)
  })
})

describe('createTasks', () => {
  test('says what to write if it gets options in place of callbacks()', () => {
    const write = /^TypeError: createTasks: callbacks must be what callbacks\(\) of longhaul\/callbacks makes: write callbacks: callbacks\(\{ secrets, … \}\)/
    for (const old of [{ sender, secrets }, { secrets }, callbacks, true]) assert.throws(() => make(old), write)
  })

  test('refuses queues and stores that do not fit', () => {
    const store = new Shared()
    const lost = callbacks({ secrets, queue: new Line() })
    assert.throws(() => make(lost, { store, queue: new Line(true) }), /^TypeError: createTasks: the queue of the callbacks is not durable, but the queue of the tasks is/)
    const wide = callbacks({ secrets, queue: new Line(true) })
    assert.throws(() => make(wide), /^TypeError: createTasks: several processes share the queue of the callbacks, but the store is for one/)
    make(wide, { store })
    make(wide, { store, queue: new Line(true) })
    make(lost)
  })

  test('runs twice maxConcurrent callbacks in their own queue, and none beside the tasks in a shared one', () => {
    for (const [options, expected] of [[{}, 40], [{ maxInFlight: 3 }, 6]] as const) {
      const [queue, own] = [new Line(), new Line()]
      make(callbacks({ secrets, queue: own, ...options }), { queue })
      assert.deepEqual([queue.concurrency, own.concurrency], [10, expected])
      make(callbacks({ secrets, queue, ...options }), { queue })
      assert.equal(queue.concurrency, 10, 'taken for one of its own')
    }
    const own = new Line()
    createTasks({ store: new MemoryStore(), queue: new Line(), definitions: [work], worker: false, callbacks: callbacks({ secrets, queue: own }) })
    assert.equal(own.concurrency, 0, 'a process that runs no tasks makes no callbacks')
  })

  test('closes the queue of callbacks after that of the tasks, and a shared one once', async () => {
    const told: string[] = []
    await make(callbacks({ secrets, queue: new Line(false, told, 'callbacks') }), { queue: new Line(false, told, 'tasks') }).close()
    assert.deepEqual(told, ['tasks', 'callbacks'])
    await make(callbacks({ secrets }), { queue: new Line(false, told, 'shared') }).close()
    assert.deepEqual(told, ['tasks', 'callbacks', 'shared'])
  })

  test('gives the queue of callbacks the rest of the drain time', async () => {
    for (const [drainMs, least, most] of [[5, 0, 0], [60_000, 50_000, 59_999]] as const) {
      const own = new Line()
      const queue = new Line()
      queue.close = () => new Promise((resolve) => { setTimeout(resolve, 20) })
      await make(callbacks({ secrets, queue: own }), { queue }).close({ drainMs })
      const [left = NaN] = own.drains
      assert.ok(left >= least && left <= most, String(left))
    }
  })

  test('waits for room in an open queue, and not in one that closes', async (t) => {
    const real = setTimeout
    t.mock.method(globalThis, 'setTimeout', (run: () => void) => real(run, 1))
    for (const [shared, asked, fault] of [[true, 1, 'interrupted'], [false, 5, 'no_room']] as const) {
      const queue = new Full()
      const own = shared ? queue : new Full()
      const tasks = make(callbacks({ secrets, sender, queue: own }), { queue })
      const { taskId: id } = await tasks.submit(work, 1, { callbackUrl: 'https://example.com/' })
      await tasks.close()
      assert.equal(own.refused, asked)
      assert.deepEqual((await tasks.get(id))?.callback, { state: 'failed', attempts: 0, fault })
    }
  })

  test('accepts one callbacks() for several createTasks, each with its own queue', async (t) => {
    const made = callbacks({ secrets, sender })
    for (const queue of [new MemoryQueue(), new MemoryQueue()]) {
      const tasks = make(made, { queue })
      t.after(() => tasks.close({ drainMs: 0 }))
      const { taskId: id } = await tasks.submit(work, 1, { callbackUrl: 'https://example.com/' })
      let state: string | undefined
      for (let tries = 0; tries < 500 && state !== 'delivered'; tries++) {
        await new Promise((resolve) => { setTimeout(resolve, 10) })
        state = (await tasks.get(id))?.callback?.state
      }
      assert.equal(state, 'delivered')
    }
  })
})
