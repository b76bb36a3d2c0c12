import assert from 'node:assert/strict'
import { type QueueBench } from './queue-bench.js'
import { type Cases } from './runner.js'
import { Gate } from './waiting.js'

/** Taking jobs out, and having no room for more. */
export const room: Cases<QueueBench> = {
  'remove takes a waiting job out, once': async (bench) => {
    const gone = await bench.accepted(bench.job('gone'))
    const stays = await bench.accepted(bench.job('stays'))
    assert.equal(await bench.producer.remove(gone.id), true)
    assert.equal(await bench.producer.remove(gone.id), false)
    assert.equal(await bench.producer.remove('never-was'), false)
    bench.process()
    await bench.eventually(() => bench.count(stays) === 1, 'the other job runs')
    await bench.quiet()
    assert.equal(bench.count(gone), 0)
    assert.deepEqual(bench.dead, [])
  },

  'remove takes one out of the middle of many': async (bench) => {
    const jobs = []
    for (let i = 0; i < 5; i++) jobs.push(await bench.accepted(bench.job(i)))
    for (const i of [2, 0, 4]) assert.equal(await bench.producer.remove(jobs[i]?.id ?? ''), true)
    bench.process()
    await bench.ran(2)
    await bench.quiet()
    assert.deepEqual(bench.runs.map((ran) => ran.job.id).sort(), [jobs[1]?.id, jobs[3]?.id])
  },

  'remove takes a delayed job out': async (bench) => {
    bench.process()
    const job = await bench.accepted(bench.job(), { delayMs: bench.delay })
    assert.equal(await bench.producer.remove(job.id), true)
    await bench.accepted(bench.job('mark'), { delayMs: bench.delay + bench.tolerance })
    await bench.ran(1)
    await bench.quiet()
    assert.equal(bench.count(job), 0)
  },

  'remove leaves a job that runs, and one that ended': async (bench) => {
    const gate = new Gate()
    let finished = 0
    bench.process(async () => {
      await gate.opened
      finished++
    })
    const job = await bench.accepted(bench.job())
    await bench.ran(1)
    assert.equal(await bench.producer.remove(job.id), false)
    gate.open()
    await bench.eventually(() => finished === 1, 'the job ends')
    await bench.quiet()
    assert.equal(await bench.producer.remove(job.id), false)
  },

  'remove takes out a job between two attempts, which is not reported': async (bench) => {
    bench.process((job) => {
      if (job.input === 'bad') throw new Error('fails, on purpose')
    })
    const job = await bench.accepted(bench.job('bad', 'bad'), { attempts: 2, backoff: { type: 'fixed', delayMs: 4 * bench.delay } })
    await bench.ran(1)
    await bench.eventually(() => bench.producer.remove(job.id), 'the job can be removed')
    await bench.accepted(bench.job('mark'), { delayMs: 5 * bench.delay })
    await bench.ran(2)
    await bench.quiet()
    assert.equal(bench.count(job), 1)
    assert.deepEqual(bench.dead, [])
  },

  'a job that was removed can be enqueued again': async (bench) => {
    const job = await bench.accepted(bench.job())
    assert.equal(await bench.producer.remove(job.id), true)
    await bench.accepted(job)
    bench.process()
    await bench.ran(1)
    await bench.quiet()
    assert.equal(bench.count(job), 1)
  },

  'has knows a job that waits, is delayed, runs or waits for its next attempt, and none that has gone': async (bench) => {
    const { producer } = bench
    const waits = await bench.accepted(bench.job('waits'), { attempts: 2, backoff: { type: 'fixed', delayMs: 2 * bench.delay } })
    const delayed = await bench.accepted(bench.job('delayed'), { delayMs: 1000 * bench.patience })
    assert.deepEqual([await producer.has(waits.id), await producer.has(delayed.id), await producer.has('never-was')], [true, true, false])
    const gate = new Gate()
    bench.process(async (_job, { attempt }) => {
      if (attempt === 1) await gate.opened
      if (attempt === 1) throw new Error('fails, on purpose')
    })
    await bench.ran(1)
    assert.equal(await producer.has(waits.id), true, 'it runs')
    gate.open()
    await bench.quiet()
    if (bench.runs.length === 1) assert.equal(await producer.has(waits.id), true, 'it waits for its next attempt')
    await bench.ran(2)
    await bench.eventually(async () => !await producer.has(waits.id), 'what was done is gone')
    await producer.remove(delayed.id)
    assert.equal(await producer.has(delayed.id), false, 'what was removed is gone')
  },

  'has knows a dead job until onDead has settled': async (bench) => {
    const gate = new Gate()
    let heard = false
    bench.process(() => { throw new Error('fails, on purpose') }, { onDead: async () => {
      heard = true
      await gate.opened
    } })
    const job = await bench.accepted(bench.job())
    await bench.eventually(() => heard, 'the job is reported dead')
    assert.equal(await bench.producer.has(job.id), true)
    gate.open()
    await bench.eventually(async () => !await bench.producer.has(job.id), 'it is gone once it was heard')
  },

  'ids that an engine may not take, or may take for another, are jobs of their own': async (bench) => {
    const ids = ['delayed', 'meta', 'wait', 'id', '5', 'id-5', '~5', '~~5', '-5', '0', '0:1', 'NaN', 'a:b', 'a%3Ab', '~a%3Ab', 'é']
    for (const id of ids) await bench.accepted({ ...bench.job(), id })
    bench.process()
    await bench.ran(ids.length)
    await bench.quiet()
    assert.deepEqual(bench.runs.map((ran) => ran.job.id).sort(), [...ids].sort())
  },

  'a full queue says so, takes nothing, and has room again later': async (bench) => {
    const { capacity } = bench
    if (capacity === undefined) return
    for (let i = 0; i < capacity; i++) await bench.accepted(bench.job(i))
    const refused = bench.job('refused')
    assert.equal(await bench.producer.enqueue(refused), 'full')
    assert.equal(await bench.producer.enqueue(bench.job(0)), 'accepted', 'an id that waits is taken, however full the queue is')
    assert.equal(await bench.producer.remove(bench.job(0).id), true)
    await bench.accepted(bench.job('in its place'))
    assert.equal(await bench.producer.enqueue(refused), 'full')
    bench.process()
    await bench.ran(capacity)
    await bench.quiet()
    assert.equal(bench.count(refused), 0, 'a refused job ran')
    await bench.accepted(refused)
    await bench.eventually(() => bench.count(refused) === 1, 'there is room again')
  },

  'a retry finds its place in a full queue': async (bench) => {
    const { capacity } = bench
    if (capacity === undefined) return
    const first = new Gate()
    bench.process(async (job, { attempt }) => {
      await first.opened
      if (job.input === 'again' && attempt === 1) throw new Error('fails, on purpose')
    })
    const job = await bench.accepted(bench.job('again', 'again'), { attempts: 2 })
    await bench.ran(1)
    let taken = 0
    while (await bench.producer.enqueue(bench.job(taken)) === 'accepted') {
      taken++
      assert.ok(taken <= 10 * capacity + 10, 'the queue takes far more than its capacity')
    }
    first.open()
    await bench.eventually(() => bench.count(job) === 2, 'the job is tried again')
    await bench.ran(taken + 2)
    assert.deepEqual(bench.dead, [])
  }
}
