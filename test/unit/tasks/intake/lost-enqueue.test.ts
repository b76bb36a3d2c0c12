// An enqueue whose answer was lost, and whose job lands later (15.6).
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { MemoryStore, MemoryTaskIndex } from '../../../../adapters/memory/index.js'
import type { Job } from '../../../../src/queues/queue.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { HandQueue } from '../hand-queue.js'
import { eventually, Spy, SpyStore } from '../kit.js'

interface Upload { readonly blob: string }

/** A queue that takes jobs although it says that it failed, when told to. */
class LateQueue extends HandQueue {
  lost = false
  override async enqueue(job: Job) {
    const { id } = job
    if (!await this.has(id)) await super.enqueue(job)
    if (this.lost) throw new Error('the answer was lost')
    return 'accepted' as const
  }
}

function setUp({ sweepMs }: { readonly sweepMs?: number } = {}) {
  const inner = new MemoryStore()
  const spy = new Spy()
  const queue = new LateQueue(true)
  const blobs = new Set<string>()
  const ran: string[] = []
  const work = defineTask({
    name: 'work', keeps: { of: ({ blob }: Upload) => blob, release: (blob) => blobs.delete(blob) },
    run: ({ blob }: Upload) => {
      assert.ok(blobs.has(blob), `${blob} is gone`)
      ran.push(blob)
      return { message: blob }
    },
  })
  const index = Object.assign(new MemoryTaskIndex(), { shared: true })
  const tasks = createTasks({
    store: new SpyStore(inner, spy, true), queue, definitions: [work], onError: () => undefined, ...sweepMs !== undefined && { index, sweepMs },
  })
  const upload = (blob: string) => {
    blobs.add(blob)
    return tasks.submit(work, { blob }, { id: 'one' })
  }
  const deliverAll = async () => {
    while (queue.jobs.length > 0) {
      assert.equal(await queue.deliver(), true)
      queue.jobs.shift()
    }
  }
  return { tasks, queue, spy, blobs, ran, upload, deliverAll, index }
}

describe('an enqueue whose answer was lost', () => {
  test('and whose job lands: the retry is a task that runs on its own upload, and the late job does nothing', async () => {
    const { tasks, queue, blobs, ran, upload, deliverAll } = setUp()
    queue.lost = true
    await assert.rejects(upload('first'), { status: 503, code: 'service_unavailable' })
    assert.deepEqual([[...blobs], queue.jobs.length], [[], 1], 'its record is gone for certain, and so is what it kept')
    queue.lost = false
    assert.equal((await upload('second')).created, true)
    await deliverAll()
    assert.deepEqual([ran, (await tasks.get('one'))?.status], [['second'], 'completed'])
    assert.deepEqual([...blobs], [])
  })

  test('keeps what the task needs while nobody knows whether its record is there; the job that lands runs on it', async () => {
    const { tasks, queue, spy, blobs, ran, upload, deliverAll } = setUp()
    queue.lost = true
    spy.fault = (call) => (call.startsWith('delete task') ? 'before' : undefined)
    await assert.rejects(upload('first'), { status: 503 })
    assert.deepEqual([...blobs], ['first'])
    spy.fault = () => undefined
    queue.lost = false
    assert.equal((await upload('second')).created, false, 'the retry finds the task')
    assert.deepEqual([...blobs], ['first'], 'its own upload is not needed')
    await deliverAll()
    assert.deepEqual([ran, (await tasks.get('one'))?.status], [['first'], 'completed'])
  })

  test('and whose job never lands, with a record that could not be taken back: the sweep enqueues it', async (t) => {
    const { tasks, queue, spy, ran, upload, deliverAll } = setUp({ sweepMs: 30 })
    t.after(() => tasks.close({ drainMs: 0 }))
    queue.lost = true
    spy.fault = (call) => (call.startsWith('delete task') ? 'before' : undefined)
    await assert.rejects(upload('first'), { status: 503 })
    queue.jobs.length = 0
    queue.lost = false
    await eventually(() => queue.jobs.length > 0)
    await deliverAll()
    assert.deepEqual([ran, (await tasks.get('one'))?.status], [['first'], 'completed'])
  })

  test('a queue that is full leaves no record, no entry and no upload', async () => {
    const { tasks, queue, blobs, upload, index } = setUp({ sweepMs: 60_000 })
    queue.enqueue = async () => 'full' as never
    await assert.rejects(upload('first'), { code: 'queue_full' })
    assert.deepEqual([await tasks.get('one'), [...blobs], index.usage.checks], [undefined, [], 0])
    await tasks.close({ drainMs: 0 })
  })
})

describe('the sweep', () => {
  test('leaves a task whose job waits, and finishes what a dead process left of one that has ended', async (t) => {
    const { tasks, queue, spy, blobs, upload, index, deliverAll } = setUp({ sweepMs: 20 })
    t.after(() => tasks.close({ drainMs: 0 }))
    await upload('first')
    await new Promise((resolve) => { setTimeout(resolve, 100) })
    assert.equal(queue.jobs.length, 1, 'enqueued twice')
    await deliverAll()
    assert.deepEqual([[...blobs], index.usage.checks], [[], 0])
    assert.ok(spy.calls.length > 0)
  })

  test('removes the entry of a task that has gone', async (t) => {
    const { tasks, index } = setUp({ sweepMs: 20 })
    t.after(() => tasks.close({ drainMs: 0 }))
    index.add('never~was', 0)
    await eventually(() => index.usage.checks === 0)
  })
})
