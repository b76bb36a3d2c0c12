import assert from 'node:assert/strict'
import { type Backoff } from '../queues/queue.js'
import { type QueueBench } from './queue-bench.js'
import { type Cases } from './runner.js'

const fails = (): never => {
  throw new Error('fails, on purpose')
}

/** What happens when `run` fails. */
export const retries: Cases<QueueBench> = {
  'a job that fails is tried as often as it may be, then reported once': async (bench) => {
    bench.process(fails)
    const job = await bench.accepted(bench.job(), { attempts: 3 })
    await bench.eventually(() => bench.dead.length > 0, 'the job is reported dead')
    await bench.quiet()
    assert.deepEqual(bench.runs.map((ran) => [ran.attempt, ran.lastAttempt]), [[1, false], [2, false], [3, true]])
    assert.deepEqual(bench.deaths(job), ['attempts'])
  },

  'without attempts a job is tried once': async (bench) => {
    bench.process(fails)
    const job = await bench.accepted(bench.job())
    await bench.eventually(() => bench.dead.length > 0, 'the job is reported dead')
    await bench.quiet()
    assert.equal(bench.count(job), 1)
    assert.deepEqual(bench.deaths(job), ['attempts'])
  },

  'a job that succeeds at last is not tried again and not reported': async (bench) => {
    bench.process((_job, { attempt }) => {
      if (attempt < 3) fails()
    })
    const job = await bench.accepted(bench.job(), { attempts: 5 })
    await bench.ran(3)
    await bench.quiet()
    assert.equal(bench.count(job), 3)
    assert.deepEqual(bench.dead, [])
  },

  'a run that throws at once, or rejects with nothing, has failed': async (bench) => {
    bench.queue.process((job) => {
      bench.runs.push({ job, attempt: 1, lastAttempt: true, at: 0 })
      if (job.input === 'throw') throw new Error('not a promise, on purpose')
      return new Promise<void>((_resolve, reject) => queueMicrotask(reject))
    }, { concurrency: 1, onDead: (job, reason) => { bench.dead.push({ id: job.id, reason }) } })
    const first = await bench.accepted(bench.job(1, 'throw'))
    const second = await bench.accepted(bench.job(2, 'reject'))
    await bench.eventually(() => bench.dead.length === 2, 'both jobs are reported dead')
    assert.deepEqual([bench.deaths(first), bench.deaths(second)], [['attempts'], ['attempts']])
  },

  'each attempt gets the input as it was enqueued': async (bench) => {
    const seen: number[][] = []
    bench.process((job) => {
      const { list } = job.input as { list: number[] }
      seen.push([...list])
      list.push(2)
      fails()
    })
    await bench.accepted(bench.job('fresh', { list: [1] }), { attempts: 3 })
    await bench.eventually(() => bench.dead.length > 0, 'the job is reported dead')
    assert.deepEqual(seen, [[1], [1], [1]])
  },

  'a fixed back-off waits the same time before each attempt': async (bench) => {
    const gaps = await gapsOf(bench, { type: 'fixed', delayMs: bench.delay }, 3)
    for (const gap of gaps) assert.ok(gap >= bench.delay - bench.tolerance, `waited ${gap} ms instead of ${bench.delay}`)
  },

  'an exponential back-off doubles': async (bench) => {
    const gaps = await gapsOf(bench, { type: 'exponential', delayMs: bench.delay }, 3)
    assert.ok((gaps[0] ?? 0) >= bench.delay - bench.tolerance, `waited ${gaps[0]} ms instead of ${bench.delay}`)
    assert.ok((gaps[1] ?? 0) >= 2 * bench.delay - bench.tolerance, `waited ${gaps[1]} ms instead of ${2 * bench.delay}`)
  },

  'maxDelayMs bounds the back-off': async (bench) => {
    const gaps = await gapsOf(bench, { type: 'exponential', delayMs: 100 * bench.patience, maxDelayMs: bench.delay }, 3)
    for (const gap of gaps) assert.ok(gap >= bench.delay - bench.tolerance, `waited ${gap} ms instead of ${bench.delay}`)
  },

  'jitter only shortens': async (bench) => {
    const gaps = await gapsOf(bench, { type: 'fixed', delayMs: 2 * bench.delay, jitter: 0.5 }, 3)
    for (const gap of gaps) assert.ok(gap >= bench.delay - bench.tolerance, `waited ${gap} ms instead of ${bench.delay} or more`)
  },

  'a job that waits for its next attempt holds up nobody, and its id is taken': async (bench) => {
    bench.process((job, { attempt }) => {
      if (job.input === 'bad' && attempt === 1) fails()
    })
    const bad = await bench.accepted(bench.job('bad', 'bad'), { attempts: 2, backoff: { type: 'fixed', delayMs: 4 * bench.delay } })
    await bench.ran(1)
    const good = await bench.accepted(bench.job('good', 'good'))
    await bench.accepted(bad)
    await bench.ran(3)
    await bench.quiet()
    assert.deepEqual(bench.runs.map((ran) => ran.job.id), [bad.id, good.id, bad.id])
  },

  'an onDead that throws or rejects harms nobody': async (bench) => {
    bench.process((job) => {
      if (job.input !== 'good') fails()
    }, {
      onDead: (job, reason) => {
        bench.dead.push({ id: job.id, reason })
        if (job.input === 'throw') fails()
        return Promise.reject(new Error('rejects, on purpose'))
      }
    })
    await bench.accepted(bench.job(1, 'throw'))
    await bench.accepted(bench.job(2, 'reject'))
    const good = await bench.accepted(bench.job(3, 'good'))
    await bench.eventually(() => bench.count(good) === 1, 'the job behind them runs')
    // A queue may tell again what was not heard.
    assert.equal(new Set(bench.dead.map(({ id }) => id)).size, 2, 'each dead job is told of')
  }
}

/** Milliseconds between the attempts of a job that always fails. */
async function gapsOf(bench: QueueBench, backoff: Backoff, attempts: number): Promise<number[]> {
  bench.process(fails)
  await bench.accepted(bench.job(), { attempts, backoff })
  await bench.ran(attempts)
  return bench.runs.slice(1).map((ran, i) => ran.at - (bench.runs[i]?.at ?? 0))
}
