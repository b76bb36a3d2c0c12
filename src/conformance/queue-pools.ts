import assert from 'node:assert/strict'
import type { Queue } from '../queues/queue.js'
import type { QueueContext } from './queue-context.js'
import type { Cases } from './runner.js'
import { Latch, pause } from './waiting.js'

/** Tests of `priority`, `pool`, `counts` and `now`. */
export const pools: Cases<QueueContext> = {
  'jobs start by priority, and in their order within one': async (context) => {
    const priorities = [2, 0, 1, 1_000_000, 1, 0]
    for (const [at, priority] of priorities.entries()) {
      await context.accepted(context.job(at), { priority })
    }
    context.process()
    await context.ran(priorities.length)
    const expected = [1, 5, 2, 4, 0, 3].map((at) => context.job(at).id)
    assert.deepEqual(context.runs.map((ran) => ran.job.id), expected)
  },

  'a job keeps its priority after its delay': async (context) => {
    const latch = new Latch()
    context.process((job) => job.input === 'first' ? latch.opened : undefined)
    await context.accepted(context.job('first', 'first'))
    await context.ran(1)
    await context.accepted(context.job('later'), { priority: 9, delayMs: context.delay })
    await context.accepted(context.job('mark'), { delayMs: context.delay + context.toleranceMs })
    await pause(context.delay + 2 * context.toleranceMs)
    latch.open()
    await context.ran(3)
    assert.deepEqual(
      context.runs.map((ran) => ran.job.id),
      ['first', 'mark', 'later'].map((name) => context.job(name).id),
    )
  },

  'a priority that makes no sense is a TypeError': async (context) => {
    for (const priority of [-1, 1.5, NaN, 1_000_001]) {
      const enqueued = (async () => context.producer.enqueue(context.job(), { priority }))()
      await assert.rejects(enqueued, TypeError)
    }
  },

  'a full pool does not delay another': async (context) => {
    const heavy = poolOf(context.queue, 'heavy')
    if (!heavy) return
    const latch = new Latch()
    const ran: string[] = []
    heavy.process(async ({ id }) => {
      ran.push(id)
      await latch.opened
    }, { concurrency: 1, onDead: () => undefined })
    context.process()
    const producer = poolOf(context.producer, 'heavy')
    for (const n of [1, 2]) {
      assert.equal(await producer?.enqueue(context.job(`heavy-${String(n)}`)), 'accepted')
    }
    await context.eventually(() => ran.length === 1, 'the first job of the pool runs')
    await context.accepted(context.job('light'))
    await context.ran(1)
    assert.equal(ran.length, 1, 'the pool runs more jobs at once than its concurrency')
    latch.open()
    await context.eventually(() => ran.length === 2, 'the second job of the pool runs')
    assert.equal(context.runs.length, 1, 'a job of the pool ran outside of it')
  },

  'pools have jobs of their own': async (context) => {
    const heavy = poolOf(context.producer, 'heavy')
    if (!heavy) return
    const job = context.job()
    assert.equal(await heavy.enqueue(job), 'accepted')
    assert.deepEqual([await heavy.has(job.id), await context.producer.has(job.id)], [true, false])
    assert.equal(await context.producer.remove(job.id), false)
    assert.equal(await poolOf(context.producer, 'other')?.remove(job.id), false)
    assert.equal(await heavy.remove(job.id), true)
  },

  'a pool is the same queue each time, and default is the queue itself': async ({ queue }) => {
    if (!queue.pool) return
    assert.equal(queue.pool('default'), queue)
    assert.equal(queue.pool('heavy'), queue.pool('heavy'))
    assert.notEqual(queue.pool('heavy'), queue.pool('light'))
    for (const name of ['', 'a b', 'a.b', 'a:b', 'x'.repeat(65)]) {
      assert.throws(() => queue.pool?.(name), TypeError)
    }
  },

  'close of the queue closes its pools': async (context) => {
    const heavy = poolOf(context.queue, 'heavy')
    if (!heavy) return
    await context.inTime(context.queue.close({ drainMs: 0 }), 'close() resolves')
    assert.equal(await heavy.enqueue(context.job()), 'closing')
  },

  'counts tells what waits, is delayed and runs': async (context) => {
    const { producer } = context
    if (!producer.counts) return
    assert.deepEqual(await producer.counts(), { running: 0, waiting: 0, delayed: 0 })
    await context.accepted(context.job('delayed'), { delayMs: 1000 * context.timeoutMs })
    const soon = await context.accepted(context.job('soon'), { priority: 3, delayMs: 1 })
    const latch = new Latch()
    context.process(() => latch.opened)
    await context.ran(1)
    assert.equal(context.count(soon), 1)
    for (const priority of [5, 0, 7]) await context.accepted(context.job(priority), { priority })
    await context.quiet()
    await context.accepted(context.job('youngest'), { priority: 1 })
    const { oldestWaitingMs = NaN, ...numbers } = await producer.counts()
    assert.deepEqual(numbers, { running: 1, waiting: 4, delayed: 1 })
    assert.ok(
      oldestWaitingMs >= context.toleranceMs / 2 && oldestWaitingMs < context.timeoutMs,
      `the oldest job waits for ${String(oldestWaitingMs)} ms`,
    )
    latch.open()
    await context.ran(5)
    await context.eventually(async () => {
      const counts = await producer.counts?.()
      return counts?.waiting === 0 && counts.running === 0 && counts.oldestWaitingMs === undefined
    }, 'nothing waits or runs')
  },

  'now is the present time': async ({ queue, timeoutMs }) => {
    if (!queue.now) return
    const difference = await queue.now() - Date.now()
    assert.ok(Math.abs(difference) < timeoutMs, `it differs by ${String(difference)} ms`)
  },
}

function poolOf(queue: Queue, name: string): Queue | undefined {
  return queue.pool?.(name)
}
