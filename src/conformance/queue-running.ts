import assert from 'node:assert/strict'
import { type QueueContext } from './queue-context.js'
import { type Cases } from './runner.js'
import { Latch, pause, rejects, together } from './waiting.js'

/** Tests of successful runs. */
export const running: Cases<QueueContext> = {
  'a job runs once, with all its data': async (context) => {
    context.process()
    const input = {
      text: 'caf\u00e9 \u{1f600} \u2028',
      list: [1, null, true, { deep: [[]] }],
      number: -1.5e-7,
      empty: {},
    }
    const job = { ...context.job('data', input), context: { traceparent: '00-ab-cd-01' } }
    await context.accepted(job)
    await context.ran(1)
    await context.quiet()
    assert.equal(context.runs.length, 1)
    assert.deepEqual(context.runs[0]?.job, job)
    assert.deepEqual([context.runs[0]?.attempt, context.runs[0]?.lastAttempt], [1, true])
    assert.deepEqual(context.dead, [])
  },

  'what it is told of the record comes back as it was, or not at all': async (context) => {
    context.process()
    const record = 'caf\u00e9-1 ["queued",1,0,"\u{1f600}"]'
    await context.accepted({ ...context.job(), record })
    await context.ran(1)
    const { job } = context.runs[0] ?? {}
    if (job?.record !== undefined) assert.equal(job.record, record)
    assert.deepEqual({ ...job, record }, { ...context.job(), record })
  },

  'any JSON value may be the input': async (context) => {
    const inputs = [null, 0, '', false, [], 'text', { a: { b: [] } }]
    for (const [i, input] of inputs.entries()) {
      await context.accepted(context.job(i, input), { attempts: (i % 2) + 1 })
    }
    context.process()
    await context.ran(inputs.length)
    for (const [i, input] of inputs.entries()) {
      assert.deepEqual(
        context.runs.find((ran) => ran.job.id === context.job(i).id)?.job,
        JSON.parse(JSON.stringify(context.job(i, input))),
      )
    }
  },

  'text and the order of members come back as they were': async (context) => {
    const input = { z: 'a\u0000b', a: '\ud800', é: '\\u0000', '\u0000': 1e300, list: [{ y: 1, x: -1.5e-9 }] }
    const job = await context.accepted(context.job('text', input))
    let seen: unknown
    context.process(({ input: found }) => { seen = found })
    await context.ran(1)
    assert.equal(JSON.stringify(seen), JSON.stringify(job.input))
  },

  'a run may fail with any text': async (context) => {
    context.process(() => { throw new Error('fails with a\u0000b and \ud800, on purpose') })
    const once = await context.accepted(context.job('once'))
    const twice = await context.accepted(context.job('twice'), { attempts: 2 })
    await context.eventually(() => context.dead.length === 2, 'both jobs are reported dead')
    assert.deepEqual([context.count(once), context.count(twice)], [1, 2])
  },

  'what was enqueued before process() runs': async (context) => {
    const job = await context.accepted(context.job())
    await context.quiet()
    context.process()
    await context.ran(1)
    assert.equal(context.count(job), 1)
  },

  'run is not called inside enqueue': async (context) => {
    let enqueuing = false
    let inside = false
    context.process(() => { inside ||= enqueuing })
    enqueuing = true
    const accepted = context.producer.enqueue(context.job())
    enqueuing = false
    assert.equal(await accepted, 'accepted')
    await context.ran(1)
    assert.equal(inside, false)
  },

  'of many jobs each runs once, never more at a time than the concurrency': async (context) => {
    let now = 0
    let most = 0
    context.process(async () => {
      most = Math.max(most, ++now)
      await pause(5)
      now--
    }, { concurrency: 4 })
    await together(40, (i) => context.accepted(context.job(i)))
    await context.eventually(() => context.runs.length >= 40 && now === 0, 'forty jobs run')
    await context.quiet()
    assert.equal(new Set(context.runs.map((ran) => ran.job.id)).size, 40)
    assert.equal(context.runs.length, 40)
    assert.ok(most <= 4, `${most} jobs ran at a time, 4 may`)
    assert.ok(most >= 2, 'no two jobs ran at a time')
  },

  'jobs that fail keep no place of those that run': async (context) => {
    context.process((job) => {
      if (job.input === 'bad') throw new Error('fails, on purpose')
    }, { concurrency: 2 })
    for (let i = 0; i < 6; i++) await context.accepted(context.job(`bad-${i}`, 'bad'))
    const good = await context.accepted(context.job('good', 'good'))
    await context.eventually(() => context.count(good) === 1, 'the job behind those that fail runs')
    await context.eventually(() => context.dead.length === 6, 'those that fail are reported')
  },

  'an id that waits or runs is taken once; one that ended is taken anew': async (context) => {
    const latch = new Latch()
    const job = context.job('twice')
    await together(20, () => context.accepted(job))
    context.process(() => latch.opened, { concurrency: 3 })
    await context.ran(1)
    await together(3, () => context.accepted(job))
    await context.quiet()
    assert.equal(context.count(job), 1, 'the job ran more than once')
    latch.open()
    await context.eventually(async () => {
      await context.accepted(job)
      return context.count(job) > 1
    }, 'the id can be enqueued again after its job ended')
  },

  'a delayed job runs after its delay, and does not hold up others': async (context) => {
    context.process()
    const start = performance.now()
    const late = await context.accepted(context.job('late'), { delayMs: 4 * context.delay })
    const prompt = await context.accepted(context.job('prompt'))
    await context.ran(2)
    assert.deepEqual(context.runs.map((ran) => ran.job.id), [prompt.id, late.id])
    const waited = (context.runs[1]?.at ?? 0) - start
    assert.ok(
      waited >= 4 * context.delay - context.toleranceMs,
      `the delayed job ran after ${waited} ms`,
    )
  },

  'misuse rejects with a TypeError and takes nothing': async (context) => {
    context.process()
    await rejects(context.producer.enqueue(context.job(1), { attempts: 0 }), TypeError)
    await rejects(context.producer.enqueue(context.job(2), { attempts: 1.5 }), TypeError)
    await rejects(context.producer.enqueue(context.job(3), { delayMs: -1 }), TypeError)
    await rejects(context.producer.enqueue(context.job(4), { delayMs: NaN }), TypeError)
    await rejects(
      context.producer.enqueue(context.job(5), {
        attempts: 2,
        backoff: { type: 'fixed', delayMs: -1 },
      }),
      TypeError,
    )
    await rejects(
      context.producer.enqueue(context.job(6), {
        attempts: 2,
        backoff: { type: 'fixed', delayMs: 1, jitter: 2 },
      }),
      TypeError,
    )
    await context.quiet()
    assert.deepEqual(context.runs, [])
  }
}
