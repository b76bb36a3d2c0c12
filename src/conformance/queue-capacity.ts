import assert from 'node:assert/strict'
import { type QueueContext } from './queue-context.js'
import { type Cases } from './runner.js'
import { Latch } from './waiting.js'

/** Tests of `remove`, `has` and a full queue. */
export const capacity: Cases<QueueContext> = {
  'remove takes a waiting job out, once': async (context) => {
    const gone = await context.accepted(context.job('gone'))
    const stays = await context.accepted(context.job('stays'))
    assert.equal(await context.producer.remove(gone.id), true)
    assert.equal(await context.producer.remove(gone.id), false)
    assert.equal(await context.producer.remove('never-was'), false)
    context.process()
    await context.eventually(() => context.count(stays) === 1, 'the other job runs')
    await context.quiet()
    assert.equal(context.count(gone), 0)
    assert.deepEqual(context.dead, [])
  },

  'remove takes one out of the middle of many': async (context) => {
    const jobs = []
    for (let i = 0; i < 5; i++) jobs.push(await context.accepted(context.job(i)))
    for (const i of [2, 0, 4]) assert.equal(await context.producer.remove(jobs[i]?.id ?? ''), true)
    context.process()
    await context.ran(2)
    await context.quiet()
    assert.deepEqual(context.runs.map((ran) => ran.job.id).sort(), [jobs[1]?.id, jobs[3]?.id])
  },

  'remove takes a delayed job out': async (context) => {
    context.process()
    const job = await context.accepted(context.job(), { delayMs: context.delay })
    assert.equal(await context.producer.remove(job.id), true)
    await context.accepted(context.job('mark'), { delayMs: context.delay + context.toleranceMs })
    await context.ran(1)
    await context.quiet()
    assert.equal(context.count(job), 0)
  },

  'remove leaves a job that runs, and one that ended': async (context) => {
    const latch = new Latch()
    let finished = 0
    context.process(async () => {
      await latch.opened
      finished++
    })
    const job = await context.accepted(context.job())
    await context.ran(1)
    assert.equal(await context.producer.remove(job.id), false)
    latch.open()
    await context.eventually(() => finished === 1, 'the job ends')
    await context.quiet()
    assert.equal(await context.producer.remove(job.id), false)
  },

  'remove takes out a job between two attempts, which is not reported': async (context) => {
    context.process((job) => {
      if (job.input === 'bad') throw new Error('fails, on purpose')
    })
    const job = await context.accepted(context.job('bad', 'bad'), {
      attempts: 2,
      backoff: { type: 'fixed', delayMs: 4 * context.delay },
    })
    await context.ran(1)
    await context.eventually(() => context.producer.remove(job.id), 'the job can be removed')
    await context.accepted(context.job('mark'), { delayMs: 5 * context.delay })
    await context.ran(2)
    await context.quiet()
    assert.equal(context.count(job), 1)
    assert.deepEqual(context.dead, [])
  },

  'a job that was removed can be enqueued again': async (context) => {
    const job = await context.accepted(context.job())
    assert.equal(await context.producer.remove(job.id), true)
    await context.accepted(job)
    context.process()
    await context.ran(1)
    await context.quiet()
    assert.equal(context.count(job), 1)
  },

  'has knows a job that waits, is delayed, runs or waits for its next attempt, and none that has gone':
    async (context) => {
      const { producer } = context
      const waits = await context.accepted(context.job('waits'), {
        attempts: 2,
        backoff: { type: 'fixed', delayMs: 2 * context.delay },
      })
      const delayed = await context.accepted(context.job('delayed'), {
        delayMs: 1000 * context.timeoutMs,
      })
      assert.deepEqual(
        [
          await producer.has(waits.id),
          await producer.has(delayed.id),
          await producer.has('never-was'),
        ],
        [true, true, false],
      )
      const latch = new Latch()
      context.process(async (_job, { attempt }) => {
        if (attempt === 1) await latch.opened
        if (attempt === 1) throw new Error('fails, on purpose')
      })
      await context.ran(1)
      assert.equal(await producer.has(waits.id), true, 'it runs')
      latch.open()
      await context.quiet()
      if (context.runs.length === 1) {
        assert.equal(await producer.has(waits.id), true, 'it waits for its next attempt')
      }
      await context.ran(2)
      await context.eventually(async () => !(await producer.has(waits.id)), 'what was done is gone')
      await producer.remove(delayed.id)
      assert.equal(await producer.has(delayed.id), false, 'what was removed is gone')
    },

  'has knows a dead job until onDead has settled': async (context) => {
    const latch = new Latch()
    let heard = false
    context.process(
      () => {
        throw new Error('fails, on purpose')
      },
      {
        onDead: async () => {
          heard = true
          await latch.opened
        },
      },
    )
    const job = await context.accepted(context.job())
    await context.eventually(() => heard, 'the job is reported dead')
    assert.equal(await context.producer.has(job.id), true)
    latch.open()
    await context.eventually(
      async () => !(await context.producer.has(job.id)),
      'it is gone once it was heard',
    )
  },

  'ids that an engine may not take, or may take for another, are jobs of their own': async (
    context,
  ) => {
    const ids = [
      'delayed',
      'meta',
      'wait',
      'id',
      '5',
      'id-5',
      '~5',
      '~~5',
      '-5',
      '0',
      '0:1',
      'NaN',
      'a:b',
      'a%3Ab',
      '~a%3Ab',
      'é',
    ]
    for (const id of ids) await context.accepted({ ...context.job(), id })
    context.process()
    await context.ran(ids.length)
    await context.quiet()
    assert.deepEqual(context.runs.map((ran) => ran.job.id).sort(), [...ids].sort())
  },

  'a full queue says so, takes nothing, and has room again later': async (context) => {
    const { capacity } = context
    if (capacity === undefined) return
    for (let i = 0; i < capacity; i++) await context.accepted(context.job(i))
    const refused = context.job('refused')
    assert.equal(await context.producer.enqueue(refused), 'full')
    assert.equal(
      await context.producer.enqueue(context.job(0)),
      'accepted',
      'an id that waits is taken, however full the queue is',
    )
    assert.equal(await context.producer.remove(context.job(0).id), true)
    await context.accepted(context.job('in its place'))
    assert.equal(await context.producer.enqueue(refused), 'full')
    context.process()
    await context.ran(capacity)
    await context.quiet()
    assert.equal(context.count(refused), 0, 'a refused job ran')
    await context.accepted(refused)
    await context.eventually(() => context.count(refused) === 1, 'there is room again')
  },

  'a retry finds its place in a full queue': async (context) => {
    const { capacity } = context
    if (capacity === undefined) return
    const first = new Latch()
    context.process(async (job, { attempt }) => {
      await first.opened
      if (job.input === 'again' && attempt === 1) throw new Error('fails, on purpose')
    })
    const job = await context.accepted(context.job('again', 'again'), { attempts: 2 })
    await context.ran(1)
    let taken = 0
    while ((await context.producer.enqueue(context.job(taken))) === 'accepted') {
      taken++
      assert.ok(taken <= 10 * capacity + 10, 'the queue takes far more than its capacity')
    }
    first.open()
    await context.eventually(() => context.count(job) === 2, 'the job is tried again')
    await context.ran(taken + 2)
    assert.deepEqual(context.dead, [])
  },
}
