import assert from 'node:assert/strict'
import { HandBackError } from '../queues/queue.js'
import { type QueueContext } from './queue-context.js'
import { type Cases } from './runner.js'

/** Tests of `HandBackError`. */
export const handBack: Cases<QueueContext> = {
  'a job that is handed back runs again after the delay, and no attempt is used up': async (
    context,
  ) => {
    context.process(() => {
      if (context.runs.length < 4) throw new HandBackError(context.delay)
    })
    const job = await context.accepted(context.job())
    await context.ran(4)
    await context.quiet()
    assert.deepEqual(
      context.runs.map((ran) => [ran.attempt, ran.lastAttempt]),
      [
        [1, true],
        [1, true],
        [1, true],
        [1, true],
      ],
    )
    assert.deepEqual(context.deaths(job), [])
    for (const [at, ran] of context.runs.slice(1).entries()) {
      const waited = ran.at - (context.runs[at]?.at ?? 0)
      assert.ok(
        waited >= context.delay - context.toleranceMs,
        `it ran again after ${waited} ms, not ${context.delay}`,
      )
    }
  },

  'a job that was handed back has all its attempts left': async (context) => {
    context.process(() => {
      if (context.runs.length <= 2) throw new HandBackError(0)
      throw new Error('fails, on purpose')
    })
    const job = await context.accepted(context.job(), { attempts: 2 })
    await context.eventually(() => context.dead.length > 0, 'the job is reported dead')
    await context.quiet()
    assert.deepEqual(
      context.runs.map((ran) => ran.attempt),
      [1, 1, 1, 2],
    )
    assert.deepEqual(context.deaths(job), ['attempts'])
  },

  'a job that was handed back holds up nobody, and can be removed': async (context) => {
    context.process((job) => {
      if (job.input === 'back') throw new HandBackError(100 * context.timeoutMs)
    })
    const job = await context.accepted(context.job('back', 'back'))
    await context.ran(1)
    const next = await context.accepted(context.job('next'))
    await context.eventually(() => context.count(next) === 1, 'the next job runs')
    await context.eventually(() => context.producer.remove(job.id), 'the job can be removed')
    assert.deepEqual(context.deaths(job), [])
  },
}
