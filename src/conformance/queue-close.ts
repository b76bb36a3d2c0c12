import assert from 'node:assert/strict'
import { isQueueClosing } from '../queues/queue.js'
import { type QueueBench } from './queue-bench.js'
import { type Cases } from './runner.js'
import { Gate, pause } from './waiting.js'

/** The end of a queue. */
export const closing: Cases<QueueBench> = {
  'close of an idle queue resolves, and again': async (bench) => {
    bench.process()
    await bench.inTime(bench.queue.close(), 'close() resolves')
    await bench.inTime(bench.queue.close(), 'a second close() resolves')
  },

  'close resolves where process() was never called': async (bench) => {
    await bench.accepted(bench.job())
    await bench.inTime(bench.queue.close({ drainMs: 0 }), 'close() resolves')
  },

  'after close nothing is taken': async (bench) => {
    bench.process()
    const closed = bench.queue.close()
    assert.equal(await bench.queue.enqueue(bench.job(1)), 'full')
    await closed
    assert.equal(await bench.queue.enqueue(bench.job(2)), 'full')
    await bench.quiet()
    assert.deepEqual(bench.runs, [])
  },

  'a run may end within drainMs, and is not aborted': async (bench) => {
    const gate = new Gate()
    let aborted = false
    let finished = false
    bench.process(async (_job, { signal }) => {
      signal.addEventListener('abort', () => { aborted = true })
      await gate.opened
      finished = true
    })
    const job = await bench.accepted(bench.job())
    await bench.ran(1)
    let closed = false
    const closing = bench.queue.close({ drainMs: bench.patience }).then(() => { closed = true })
    await bench.quiet()
    assert.equal(closed, false, 'close() resolved while a job ran')
    gate.open()
    await bench.inTime(closing, 'close() resolves once the run ended')
    assert.deepEqual([finished, aborted, bench.deaths(job)], [true, false, []])
  },

  'a run that is left after drainMs is aborted, with a QueueClosingError': async (bench) => {
    const reasons: unknown[] = []
    bench.process((_job, { signal }) => new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => {
        reasons.push(signal.reason)
        reject(signal.reason as Error)
      })
    }))
    const job = await bench.accepted(bench.job(), { attempts: 3 })
    await bench.ran(1)
    await bench.inTime(bench.queue.close({ drainMs: 10 }), 'close() resolves after the abort')
    assert.ok(reasons.length === 1 && isQueueClosing(reasons[0]), 'the reason of the abort is no QueueClosingError')
    assert.deepEqual(bench.deaths(job), bench.queue.durable ? [] : ['closed'])
    assert.equal(bench.count(job), 1)
  },

  'a signal that is asked for after the abort is aborted': async (bench) => {
    let late: AbortSignal | undefined
    bench.process(async (_job, attempt) => {
      await closed.opened
      await pause(20)
      late = attempt.signal
    })
    const closed = new Gate()
    await bench.accepted(bench.job())
    await bench.ran(1)
    const closing = bench.queue.close({ drainMs: 0 })
    closed.open()
    await bench.inTime(closing, 'close() resolves')
    await bench.eventually(() => late !== undefined, 'the run asks for its signal')
    assert.equal(late?.aborted, true)
    assert.equal(isQueueClosing(late?.reason), true)
  },

  'a run that resolves on the abort is done': async (bench) => {
    bench.process((_job, { signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve())))
    const job = await bench.accepted(bench.job())
    await bench.ran(1)
    await bench.inTime(bench.queue.close({ drainMs: 10 }), 'close() resolves after the abort')
    await bench.quiet()
    assert.deepEqual(bench.deaths(job), [])
  },

  'a run that ignores its signal does not hold up close, and is reported once': async (bench) => {
    const gate = new Gate()
    bench.process(async () => {
      await gate.opened
      throw new Error('fails late, on purpose')
    })
    const job = await bench.accepted(bench.job(), { attempts: 2 })
    await bench.ran(1)
    await bench.inTime(bench.queue.close({ drainMs: 10 }), 'close() resolves soon after the abort')
    const reported = bench.queue.durable ? [] : ['closed']
    assert.deepEqual(bench.deaths(job), reported)
    gate.open()
    await bench.quiet()
    assert.deepEqual(bench.deaths(job), reported)
    assert.equal(bench.count(job), 1)
  },

  'what waits is run while there is time, unless another process can': async (bench) => {
    if (bench.queue.durable) return
    bench.process(() => pause(5))
    for (let i = 0; i < 5; i++) await bench.accepted(bench.job(i))
    await bench.ran(1)
    await bench.inTime(bench.queue.close({ drainMs: bench.patience }), 'close() resolves once all ran')
    assert.equal(bench.runs.length, 5)
    assert.deepEqual(bench.dead, [])
  },

  'what is left undone is reported, each job once': async (bench) => {
    if (bench.queue.durable) return
    bench.process((_job, { signal }) => new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(new Error('aborted')))
    }))
    const jobs = [
      await bench.accepted(bench.job('runs')),
      await bench.accepted(bench.job('waits')),
      await bench.accepted(bench.job('is delayed'), { delayMs: 1000 * bench.patience })
    ]
    await bench.ran(1)
    await bench.inTime(bench.queue.close({ drainMs: 20 }), 'close() resolves')
    await bench.quiet()
    for (const job of jobs) assert.deepEqual(bench.deaths(job), ['closed'], `${job.id} was reported ${bench.deaths(job).length} times`)
    assert.equal(bench.runs.length, 1)
  },

  'a job that fails while the queue drains is tried again or reported': async (bench) => {
    if (bench.queue.durable) return
    const gate = new Gate()
    bench.process(async (_job, { attempt }) => {
      await gate.opened
      if (attempt === 1) throw new Error('fails, on purpose')
    }, { concurrency: 2 })
    const soon = await bench.accepted(bench.job('soon'), { attempts: 2 })
    const late = await bench.accepted(bench.job('late'), { attempts: 2, backoff: { type: 'fixed', delayMs: 100 * bench.patience } })
    await bench.ran(2)
    const closed = bench.queue.close({ drainMs: bench.patience })
    gate.open()
    await bench.inTime(closed, 'close() does not wait for an attempt that comes too late')
    assert.equal(bench.count(soon), 2)
    assert.deepEqual([bench.deaths(soon), bench.deaths(late)], [[], ['closed']])
  },

  'close waits for onDead': async (bench) => {
    if (bench.queue.durable) return
    let reported = false
    bench.process(() => new Promise(() => undefined), {
      onDead: async () => {
        await pause(20)
        reported = true
      }
    })
    await bench.accepted(bench.job())
    await bench.ran(1)
    await bench.inTime(bench.queue.close({ drainMs: 0 }), 'close() resolves')
    assert.equal(reported, true, 'close() resolved before onDead did')
  }
}
