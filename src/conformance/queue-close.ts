import assert from 'node:assert/strict'
import { isQueueClosing } from '../queues/queue.js'
import { type QueueContext } from './queue-context.js'
import { type Cases } from './runner.js'
import { Latch, pause } from './waiting.js'

/** Tests of `close`. */
export const closing: Cases<QueueContext> = {
  'close of an idle queue resolves, and again': async (context) => {
    context.process()
    await context.inTime(context.queue.close(), 'close() resolves')
    await context.inTime(context.queue.close(), 'a second close() resolves')
  },

  'close resolves where process() was never called': async (context) => {
    await context.accepted(context.job())
    await context.inTime(context.queue.close({ drainMs: 0 }), 'close() resolves')
  },

  'after close nothing is taken': async (context) => {
    context.process()
    const closed = context.queue.close()
    assert.equal(await context.queue.enqueue(context.job(1)), 'closing')
    await closed
    assert.equal(await context.queue.enqueue(context.job(2)), 'closing')
    await context.quiet()
    assert.deepEqual(context.runs, [])
  },

  'a run may end within drainMs, and is not aborted': async (context) => {
    const latch = new Latch()
    let aborted = false
    let finished = false
    context.process(async (_job, { signal }) => {
      signal.addEventListener('abort', () => { aborted = true })
      await latch.opened
      finished = true
    })
    const job = await context.accepted(context.job())
    await context.ran(1)
    let closed = false
    const closing = context.queue.close({ drainMs: context.timeoutMs }).then(() => {
      closed = true
    })
    await context.quiet()
    assert.equal(closed, false, 'close() resolved while a job ran')
    latch.open()
    await context.inTime(closing, 'close() resolves once the run ended')
    assert.deepEqual([finished, aborted, context.deaths(job)], [true, false, []])
  },

  'a run that is left after drainMs is aborted, with a QueueClosingError': async (context) => {
    const reasons: unknown[] = []
    context.process((_job, { signal }) => new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => {
        reasons.push(signal.reason)
        reject(signal.reason as Error)
      })
    }))
    const job = await context.accepted(context.job(), { attempts: 3 })
    await context.ran(1)
    await context.inTime(context.queue.close({ drainMs: 10 }), 'close() resolves after the abort')
    assert.ok(
      reasons.length === 1 && isQueueClosing(reasons[0]),
      'the reason of the abort is no QueueClosingError',
    )
    assert.deepEqual(context.deaths(job), context.queue.durable ? [] : ['closed'])
    assert.equal(context.count(job), 1)
  },

  'a signal that is asked for after the abort is aborted': async (context) => {
    let late: AbortSignal | undefined
    context.process(async (_job, attempt) => {
      await closed.opened
      await pause(20)
      late = attempt.signal
    })
    const closed = new Latch()
    await context.accepted(context.job())
    await context.ran(1)
    const closing = context.queue.close({ drainMs: 0 })
    closed.open()
    await context.inTime(closing, 'close() resolves')
    await context.eventually(() => late !== undefined, 'the run asks for its signal')
    assert.equal(late?.aborted, true)
    assert.equal(isQueueClosing(late?.reason), true)
  },

  'a run that resolves on the abort is done': async (context) => {
    context.process(
      (_job, { signal }) =>
        new Promise((resolve) => signal.addEventListener('abort', () => resolve())),
    )
    const job = await context.accepted(context.job())
    await context.ran(1)
    await context.inTime(context.queue.close({ drainMs: 10 }), 'close() resolves after the abort')
    await context.quiet()
    assert.deepEqual(context.deaths(job), [])
  },

  'a run that ignores its signal does not hold up close, and is reported once': async (context) => {
    const latch = new Latch()
    context.process(async () => {
      await latch.opened
      throw new Error('fails late, on purpose')
    })
    const job = await context.accepted(context.job(), { attempts: 2 })
    await context.ran(1)
    await context.inTime(
      context.queue.close({ drainMs: 10 }),
      'close() resolves soon after the abort',
    )
    const reported = context.queue.durable ? [] : ['closed']
    assert.deepEqual(context.deaths(job), reported)
    latch.open()
    await context.quiet()
    assert.deepEqual(context.deaths(job), reported)
    assert.equal(context.count(job), 1)
  },

  'what waits is run while there is time, unless another process can': async (context) => {
    if (context.queue.durable) return
    context.process(() => pause(5))
    for (let i = 0; i < 5; i++) await context.accepted(context.job(i))
    await context.ran(1)
    await context.inTime(
      context.queue.close({ drainMs: context.timeoutMs }),
      'close() resolves once all ran',
    )
    assert.equal(context.runs.length, 5)
    assert.deepEqual(context.dead, [])
  },

  'what is left undone is reported, each job once': async (context) => {
    if (context.queue.durable) return
    context.process((_job, { signal }) => new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(new Error('aborted')))
    }))
    const jobs = [
      await context.accepted(context.job('runs')),
      await context.accepted(context.job('waits')),
      await context.accepted(context.job('is delayed'), { delayMs: 1000 * context.timeoutMs })
    ]
    await context.ran(1)
    await context.inTime(context.queue.close({ drainMs: 20 }), 'close() resolves')
    await context.quiet()
    for (const job of jobs) {
      assert.deepEqual(
        context.deaths(job),
        ['closed'],
        `${job.id} was reported ${context.deaths(job).length} times`,
      )
    }
    assert.equal(context.runs.length, 1)
  },

  'a job that fails while the queue drains is tried again or reported': async (context) => {
    if (context.queue.durable) return
    const latch = new Latch()
    context.process(async (_job, { attempt }) => {
      await latch.opened
      if (attempt === 1) throw new Error('fails, on purpose')
    }, { concurrency: 2 })
    const soon = await context.accepted(context.job('soon'), { attempts: 2 })
    const late = await context.accepted(context.job('late'), {
      attempts: 2,
      backoff: { type: 'fixed', delayMs: 100 * context.timeoutMs },
    })
    await context.ran(2)
    const closed = context.queue.close({ drainMs: context.timeoutMs })
    latch.open()
    await context.inTime(closed, 'close() does not wait for an attempt that comes too late')
    assert.equal(context.count(soon), 2)
    assert.deepEqual([context.deaths(soon), context.deaths(late)], [[], ['closed']])
  },

  'close waits for onDead': async (context) => {
    if (context.queue.durable) return
    let reported = false
    context.process(() => new Promise(() => undefined), {
      onDead: async () => {
        await pause(20)
        reported = true
      }
    })
    await context.accepted(context.job())
    await context.ran(1)
    await context.inTime(context.queue.close({ drainMs: 0 }), 'close() resolves')
    assert.equal(reported, true, 'close() resolved before onDead did')
  }
}
