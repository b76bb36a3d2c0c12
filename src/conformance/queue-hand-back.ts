import assert from 'node:assert/strict'
import { HandBackError } from '../queues/queue.js'
import { type QueueBench } from './queue-bench.js'
import { type Cases } from './runner.js'

/** Jobs that a process hands back because another one may be able to run them. */
export const handBack: Cases<QueueBench> = {
  'a job that is handed back runs again after the delay, and no attempt is used up': async (bench) => {
    bench.process(() => {
      if (bench.runs.length < 4) throw new HandBackError(bench.delay)
    })
    const job = await bench.accepted(bench.job())
    await bench.ran(4)
    await bench.quiet()
    assert.deepEqual(bench.runs.map((ran) => [ran.attempt, ran.lastAttempt]), [[1, true], [1, true], [1, true], [1, true]])
    assert.deepEqual(bench.deaths(job), [])
    for (const [at, ran] of bench.runs.slice(1).entries()) {
      const waited = ran.at - (bench.runs[at]?.at ?? 0)
      assert.ok(waited >= bench.delay - bench.tolerance, `it ran again after ${waited} ms, not ${bench.delay}`)
    }
  },

  'a job that was handed back has all its attempts left': async (bench) => {
    bench.process(() => {
      if (bench.runs.length <= 2) throw new HandBackError(0)
      throw new Error('fails, on purpose')
    })
    const job = await bench.accepted(bench.job(), { attempts: 2 })
    await bench.eventually(() => bench.dead.length > 0, 'the job is reported dead')
    await bench.quiet()
    assert.deepEqual(bench.runs.map((ran) => ran.attempt), [1, 1, 1, 2])
    assert.deepEqual(bench.deaths(job), ['attempts'])
  },

  'a job that was handed back holds up nobody, and can be removed': async (bench) => {
    bench.process((job) => {
      if (job.input === 'back') throw new HandBackError(100 * bench.patience)
    })
    const job = await bench.accepted(bench.job('back', 'back'))
    await bench.ran(1)
    const next = await bench.accepted(bench.job('next'))
    await bench.eventually(() => bench.count(next) === 1, 'the next job runs')
    await bench.eventually(() => bench.producer.remove(job.id), 'the job can be removed')
    assert.deepEqual(bench.deaths(job), [])
  },
}
