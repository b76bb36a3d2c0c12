import assert from 'node:assert/strict'
import { type Backoff } from '../queues/queue.js'
import { type QueueContext } from './queue-context.js'
import { type Cases } from './runner.js'

const fails = (): never => {
  throw new Error('fails, on purpose')
}

/** Tests of failed runs. */
export const retries: Cases<QueueContext> = {
  'a job that fails is tried as often as it may be, then reported once': async (context) => {
    context.process(fails)
    const job = await context.accepted(context.job(), { attempts: 3 })
    await context.eventually(() => context.dead.length > 0, 'the job is reported dead')
    await context.quiet()
    assert.deepEqual(
      context.runs.map((ran) => [ran.attempt, ran.lastAttempt]),
      [
        [1, false],
        [2, false],
        [3, true],
      ],
    )
    assert.deepEqual(context.deaths(job), ['attempts'])
  },

  'without attempts a job is tried once': async (context) => {
    context.process(fails)
    const job = await context.accepted(context.job())
    await context.eventually(() => context.dead.length > 0, 'the job is reported dead')
    await context.quiet()
    assert.equal(context.count(job), 1)
    assert.deepEqual(context.deaths(job), ['attempts'])
  },

  'a job that succeeds at last is not tried again and not reported': async (context) => {
    context.process((_job, { attempt }) => {
      if (attempt < 3) fails()
    })
    const job = await context.accepted(context.job(), { attempts: 5 })
    await context.ran(3)
    await context.quiet()
    assert.equal(context.count(job), 3)
    assert.deepEqual(context.dead, [])
  },

  'a run that throws at once, or rejects with nothing, has failed': async (context) => {
    context.queue.process((job) => {
      context.runs.push({ job, attempt: 1, lastAttempt: true, at: 0 })
      if (job.input === 'throw') throw new Error('not a promise, on purpose')
      return new Promise<void>((_resolve, reject) => queueMicrotask(reject))
    }, { concurrency: 1, onDead: (job, reason) => { context.dead.push({ id: job.id, reason }) } })
    const first = await context.accepted(context.job(1, 'throw'))
    const second = await context.accepted(context.job(2, 'reject'))
    await context.eventually(() => context.dead.length === 2, 'both jobs are reported dead')
    assert.deepEqual([context.deaths(first), context.deaths(second)], [['attempts'], ['attempts']])
  },

  'each attempt gets the input as it was enqueued': async (context) => {
    const seen: number[][] = []
    context.process((job) => {
      const { list } = job.input as { list: number[] }
      seen.push([...list])
      list.push(2)
      fails()
    })
    await context.accepted(context.job('fresh', { list: [1] }), { attempts: 3 })
    await context.eventually(() => context.dead.length > 0, 'the job is reported dead')
    assert.deepEqual(seen, [[1], [1], [1]])
  },

  'a fixed back-off waits the same time before each attempt': async (context) => {
    const gaps = await gapsOf(context, { type: 'fixed', delayMs: context.delay }, 3)
    for (const gap of gaps) {
      const least = context.delay - context.toleranceMs
      assert.ok(gap >= least, `waited ${gap} ms instead of ${context.delay}`)
    }
  },

  'an exponential back-off doubles': async (context) => {
    const gaps = await gapsOf(context, { type: 'exponential', delayMs: context.delay }, 3)
    assert.ok(
      (gaps[0] ?? 0) >= context.delay - context.toleranceMs,
      `waited ${gaps[0]} ms instead of ${context.delay}`,
    )
    assert.ok(
      (gaps[1] ?? 0) >= 2 * context.delay - context.toleranceMs,
      `waited ${gaps[1]} ms instead of ${2 * context.delay}`,
    )
  },

  'maxDelayMs bounds the back-off': async (context) => {
    const gaps = await gapsOf(
      context,
      { type: 'exponential', delayMs: 100 * context.timeoutMs, maxDelayMs: context.delay },
      3,
    )
    for (const gap of gaps) {
      assert.ok(
        gap >= context.delay - context.toleranceMs,
        `waited ${gap} ms instead of ${context.delay}`,
      )
    }
  },

  'jitter only shortens': async (context) => {
    const gaps = await gapsOf(
      context,
      { type: 'fixed', delayMs: 2 * context.delay, jitter: 0.5 },
      3,
    )
    for (const gap of gaps) {
      assert.ok(
        gap >= context.delay - context.toleranceMs,
        `waited ${gap} ms instead of ${context.delay} or more`,
      )
    }
  },

  'a job that waits for its next attempt holds up nobody, and its id is taken': async (context) => {
    context.process((job, { attempt }) => {
      if (job.input === 'bad' && attempt === 1) fails()
    })
    const bad = await context.accepted(context.job('bad', 'bad'), {
      attempts: 2,
      backoff: { type: 'fixed', delayMs: 4 * context.delay },
    })
    await context.ran(1)
    const good = await context.accepted(context.job('good', 'good'))
    await context.accepted(bad)
    await context.ran(3)
    await context.quiet()
    assert.deepEqual(context.runs.map((ran) => ran.job.id), [bad.id, good.id, bad.id])
  },

  'an onDead that throws or rejects harms nobody': async (context) => {
    context.process((job) => {
      if (job.input !== 'good') fails()
    }, {
      onDead: (job, reason) => {
        context.dead.push({ id: job.id, reason })
        if (job.input === 'throw') fails()
        return Promise.reject(new Error('rejects, on purpose'))
      }
    })
    await context.accepted(context.job(1, 'throw'))
    await context.accepted(context.job(2, 'reject'))
    const good = await context.accepted(context.job(3, 'good'))
    await context.eventually(() => context.count(good) === 1, 'the job behind them runs')
    // A queue may repeat a report that failed.
    assert.equal(new Set(context.dead.map(({ id }) => id)).size, 2, 'each dead job is told of')
  }
}

/** Returns the milliseconds between the attempts of a job that always fails. */
async function gapsOf(
  context: QueueContext,
  backoff: Backoff,
  attempts: number,
): Promise<number[]> {
  context.process(fails)
  await context.accepted(context.job(), { attempts, backoff })
  await context.ran(attempts)
  return context.runs.slice(1).map((ran, i) => ran.at - (context.runs[i]?.at ?? 0))
}
