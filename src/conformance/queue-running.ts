import assert from 'node:assert/strict'
import { type QueueBench } from './queue-bench.js'
import { type Cases } from './runner.js'
import { Gate, pause, rejects, together } from './waiting.js'

/** How jobs get to `run`. */
export const running: Cases<QueueBench> = {
  'a job runs once, with all its data': async (bench) => {
    bench.process()
    const input = { text: 'caf\u00e9 \u{1f600} \u2028', list: [1, null, true, { deep: [[]] }], number: -1.5e-7, empty: {} }
    const job = { ...bench.job('data', input), context: { traceparent: '00-ab-cd-01' } }
    await bench.accepted(job)
    await bench.ran(1)
    await bench.quiet()
    assert.equal(bench.runs.length, 1)
    assert.deepEqual(bench.runs[0]?.job, job)
    assert.deepEqual([bench.runs[0]?.attempt, bench.runs[0]?.lastAttempt], [1, true])
    assert.deepEqual(bench.dead, [])
  },

  'what it is told of the record comes back as it was, or not at all': async (bench) => {
    bench.process()
    const record = 'caf\u00e9-1 ["queued",1,0,"\u{1f600}"]'
    await bench.accepted({ ...bench.job(), record })
    await bench.ran(1)
    const { job } = bench.runs[0] ?? {}
    if (job?.record !== undefined) assert.equal(job.record, record)
    assert.deepEqual({ ...job, record }, { ...bench.job(), record })
  },

  'any JSON value may be the input': async (bench) => {
    const inputs = [null, 0, '', false, [], 'text', { a: { b: [] } }]
    for (const [i, input] of inputs.entries()) await bench.accepted(bench.job(i, input), { attempts: i % 2 + 1 })
    bench.process()
    await bench.ran(inputs.length)
    for (const [i, input] of inputs.entries()) {
      assert.deepEqual(bench.runs.find((ran) => ran.job.id === bench.job(i).id)?.job, JSON.parse(JSON.stringify(bench.job(i, input))))
    }
  },

  'what was enqueued before process() runs': async (bench) => {
    const job = await bench.accepted(bench.job())
    await bench.quiet()
    bench.process()
    await bench.ran(1)
    assert.equal(bench.count(job), 1)
  },

  'run is not called inside enqueue': async (bench) => {
    let enqueuing = false
    let inside = false
    bench.process(() => { inside ||= enqueuing })
    enqueuing = true
    const accepted = bench.producer.enqueue(bench.job())
    enqueuing = false
    assert.equal(await accepted, 'accepted')
    await bench.ran(1)
    assert.equal(inside, false)
  },

  'of many jobs each runs once, never more at a time than the concurrency': async (bench) => {
    let now = 0
    let most = 0
    bench.process(async () => {
      most = Math.max(most, ++now)
      await pause(5)
      now--
    }, { concurrency: 4 })
    await together(40, (i) => bench.accepted(bench.job(i)))
    await bench.eventually(() => bench.runs.length >= 40 && now === 0, 'forty jobs run')
    await bench.quiet()
    assert.equal(new Set(bench.runs.map((ran) => ran.job.id)).size, 40)
    assert.equal(bench.runs.length, 40)
    assert.ok(most <= 4, `${most} jobs ran at a time, 4 may`)
    assert.ok(most >= 2, 'no two jobs ran at a time')
  },

  'jobs that fail keep no place of those that run': async (bench) => {
    bench.process((job) => {
      if (job.input === 'bad') throw new Error('fails, on purpose')
    }, { concurrency: 2 })
    for (let i = 0; i < 6; i++) await bench.accepted(bench.job(`bad-${i}`, 'bad'))
    const good = await bench.accepted(bench.job('good', 'good'))
    await bench.eventually(() => bench.count(good) === 1, 'the job behind those that fail runs')
    await bench.eventually(() => bench.dead.length === 6, 'those that fail are reported')
  },

  'an id that waits or runs is taken once; one that ended is taken anew': async (bench) => {
    const gate = new Gate()
    const job = bench.job('twice')
    await together(20, () => bench.accepted(job))
    bench.process(() => gate.opened, { concurrency: 3 })
    await bench.ran(1)
    await together(3, () => bench.accepted(job))
    await bench.quiet()
    assert.equal(bench.count(job), 1, 'the job ran more than once')
    gate.open()
    await bench.eventually(async () => {
      await bench.accepted(job)
      return bench.count(job) > 1
    }, 'the id can be enqueued again after its job ended')
  },

  'a delayed job runs after its delay, and does not hold up others': async (bench) => {
    bench.process()
    const start = performance.now()
    const late = await bench.accepted(bench.job('late'), { delayMs: 4 * bench.delay })
    const prompt = await bench.accepted(bench.job('prompt'))
    await bench.ran(2)
    assert.deepEqual(bench.runs.map((ran) => ran.job.id), [prompt.id, late.id])
    const waited = (bench.runs[1]?.at ?? 0) - start
    assert.ok(waited >= 4 * bench.delay - bench.tolerance, `the delayed job ran after ${waited} ms`)
  },

  'misuse rejects with a TypeError and takes nothing': async (bench) => {
    bench.process()
    await rejects(bench.producer.enqueue(bench.job(1), { attempts: 0 }), TypeError)
    await rejects(bench.producer.enqueue(bench.job(2), { attempts: 1.5 }), TypeError)
    await rejects(bench.producer.enqueue(bench.job(3), { delayMs: -1 }), TypeError)
    await rejects(bench.producer.enqueue(bench.job(4), { delayMs: NaN }), TypeError)
    await rejects(bench.producer.enqueue(bench.job(5), { attempts: 2, backoff: { type: 'fixed', delayMs: -1 } }), TypeError)
    await rejects(bench.producer.enqueue(bench.job(6), { attempts: 2, backoff: { type: 'fixed', delayMs: 1, jitter: 2 } }), TypeError)
    await bench.quiet()
    assert.deepEqual(bench.runs, [])
  }
}
