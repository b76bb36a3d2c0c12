// Sweeps with many unfinished tasks: which are checked first, how many at once, and how often.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { MemoryStore, MemoryTaskIndex } from '../../../../adapters/memory/index.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { NewTask } from '../../../../src/tasks/intake/new-task.js'
import { jobId } from '../../../../src/tasks/record/ids.js'
import { Ledger } from '../../../../src/tasks/record/ledger.js'
import { toTaskText } from '../../../../src/tasks/record/record.js'
import { StoreIdentity } from '../../../../src/tasks/record/store-identity.js'
import { Sweep } from '../../../../src/tasks/run/sweep.js'
import { HandQueue } from '../hand-queue.js'

const SWEEP_MS = 30_000
const HOUR = 3_600_000
const definition = defineTask({ name: 'work', run: () => 1 })

/** A queue that has jobs, and counts how many are looked for at once. */
class CountingQueue extends HandQueue {
  readonly ids = new Set<string>()
  readonly enqueued: string[] = []
  mostAtOnce = 0
  private asked = 0

  override async enqueue(job: { readonly id: string }) {
    this.ids.add(job.id)
    this.enqueued.push(job.id)
    return 'accepted' as const
  }

  override async has(id: string) {
    this.mostAtOnce = Math.max(this.mostAtOnce, ++this.asked)
    await new Promise(setImmediate)
    this.asked--
    return this.ids.has(id)
  }
}

async function setUp() {
  let now = 0
  const store = new MemoryStore({ maxBytes: 2 ** 30 })
  const index = new MemoryTaskIndex({ now: () => now })
  const queue = new CountingQueue(true)
  const ledger = new Ledger(store, undefined, index)
  const errors: unknown[] = []
  const takes: number[] = []
  const take = index.take.bind(index)
  index.take = (limit, againMs) => {
    takes.push(againMs)
    return take(limit, againMs)
  }
  const sweep = new Sweep({
    index, queue, ledger, sweepMs: SWEEP_MS, leases: undefined,
    identity: new StoreIdentity(store), definitions: new Map([[definition.name, definition]]),
    executor: { fail: () => assert.fail('a task was failed'), interrupt: () => assert.fail() },
    onError: (error) => { errors.push(error) }, onFinal: async () => undefined,
  })
  const accept = async (enqueuedLater: true | undefined, ageMs: number, afterMs: number) => {
    const task = new NewTask(definition, 1, { owner: undefined }, 7 * 24 * HOUR)
    const record = {
      ...task.toRecord(undefined, { holder: undefined, enqueuedLater }), createdAt: Date.now() - ageMs,
    }
    await ledger.create(record, { text: toTaskText(record), isFresh: true })
    index.add(jobId(record), afterMs)
    return jobId(record)
  }
  return {
    sweep, queue, takes, errors, accept,
    pass: (ms: number) => { now += ms },
    /** One sweep, as its timer starts it. */
    run: () => sweep['run'](),
    close: async () => {
      await sweep.close()
      await store.close()
    },
  }
}

describe('a sweep of 20,000 unfinished tasks that are all due', () => {
  test('enqueues a task of a transaction first, checks ten tasks at once, and slows down', async () => {
    const { accept, queue, run, takes, pass, errors, close } = await setUp()
    for (let n = 0; n < 20_000; n++) queue.ids.add(await accept(undefined, HOUR, 0))
    pass(HOUR)
    // Accepted last, by a process that died right after the commit.
    const intent = await accept(true, 5000, -86_400_000)
    let takesBefore: number | undefined
    const enqueue = queue.enqueue.bind(queue)
    queue.enqueue = async (job) => {
      takesBefore = takes.length
      return enqueue(job)
    }
    await run()
    assert.deepEqual([queue.enqueued, takesBefore], [[intent], 1])
    assert.equal(queue.mostAtOnce, 10)
    assert.equal(takes.length, 20, 'a sweep checks up to 10,000 tasks')
    assert.deepEqual(new Set(takes), new Set([SWEEP_MS]))
    await run()
    assert.equal(takes.at(-1), 2 * SWEEP_MS)
    // All were checked, so the pace recovers.
    for (let n = 0; n < 4; n++) await run()
    assert.equal(takes.at(-1), SWEEP_MS)
    assert.deepEqual(errors, [])
    await close()
  })
})

describe('a task that was accepted in a transaction a moment ago', () => {
  test('is left to the process that has accepted it, until the next sweep', async () => {
    const { accept, queue, run, close } = await setUp()
    const intent = await accept(true, 0, -86_400_000)
    await run()
    assert.deepEqual(queue.enqueued, [])
    await run()
    assert.deepEqual(queue.enqueued, [intent])
    await run()
    assert.deepEqual(queue.enqueued, [intent], 'once')
    await close()
  })
})
