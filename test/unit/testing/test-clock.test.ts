import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { createTasks, defineTask, permanent } from '../../../src/index.js'
import { rateLimit } from '../../../src/policies/index.js'
import { inject, testClock } from '../../../src/testing/index.js'
import { json } from '../../../src/http/respond.js'
import { compose } from '../../../src/http/exchange.js'
import { within } from '../../kit/wait.js'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

function setUp(failures: number) {
  const clock = testClock()
  const runs: number[] = []
  const work = defineTask({
    name: 'work', attempts: 5, backoff: { type: 'exponential', delayMs: 10 * MINUTE },
    run: (_, { attempt }) => {
      runs.push(attempt)
      if (attempt <= failures) throw new Error('not yet')
      return 'done'
    },
  })
  const tasks = createTasks({ ...memory({ clock }), definitions: [work], onError: () => undefined, retentionMs: DAY })
  const stateOf = async (id: string) => (await tasks.get(id))?.status
  return { clock, runs, work, tasks, stateOf }
}

describe('testClock', () => {
  test('ends a task with a back-off of minutes at once', async () => {
    const { clock, runs, work, tasks, stateOf } = setUp(3)
    const { taskId: id } = await tasks.submit(work, {})
    await clock.advance(0)
    assert.deepEqual(runs, [1])
    await clock.advance(10 * MINUTE - 1)
    assert.deepEqual(runs, [1])
    await clock.advance(1)
    assert.deepEqual(runs, [1, 2])
    await clock.advance(2 * HOUR)
    assert.deepEqual(runs, [1, 2, 3, 4])
    assert.equal(await stateOf(id), 'completed')
    await tasks.close()
  })

  test('makes a delayed start wait for its time', async () => {
    const { clock, runs, work, tasks, stateOf } = setUp(0)
    const { taskId: id } = await tasks.submit(work, {}, { delayMs: 3 * HOUR })
    await clock.advance(3 * HOUR - 1)
    assert.deepEqual(runs, [])
    await clock.advance(1)
    assert.deepEqual(runs, [1])
    assert.equal(await stateOf(id), 'completed')
    await tasks.close()
  })

  test('expires a task when its retention is over', async () => {
    const { clock, work, tasks, stateOf } = setUp(0)
    const { taskId: id } = await tasks.submit(work, {})
    await clock.advance(DAY - 1)
    assert.equal(await stateOf(id), 'completed')
    await clock.advance(1)
    assert.equal(await stateOf(id), undefined)
    await tasks.close()
  })

  test('adds up two concurrent calls of advance()', async () => {
    const { clock, tasks } = setUp(0)
    await Promise.all([clock.advance(MINUTE), clock.advance(MINUTE)])
    assert.equal(clock.now(), 2 * MINUTE)
    await tasks.close()
  })

  test('waits in advance() for work that takes real time', async () => {
    const clock = testClock()
    const slow = defineTask({
      name: 'slow', attempts: 2, backoff: { type: 'fixed', delayMs: MINUTE },
      run: async (_, { attempt }) => {
        await new Promise((resolve) => { setTimeout(resolve, 50) })
        if (attempt === 1) throw new Error('not yet')
      },
    })
    const tasks = createTasks({ ...memory({ clock }), definitions: [slow], onError: () => undefined })
    const { taskId: id } = await tasks.submit(slow, {})
    await clock.advance(MINUTE)
    assert.equal((await tasks.get(id))?.status, 'completed')
    await tasks.close()
  })

  test('rejects advance() when work does not end', async () => {
    const clock = testClock({ maxRunMs: 20 })
    const endless = defineTask({ name: 'endless', run: (_, { signal }) => new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => { reject(permanent(new Error('stopped'))) })
    }) })
    const tasks = createTasks({ ...memory({ clock }), definitions: [endless], onError: () => undefined })
    const { taskId: id } = await tasks.submit(endless, {})
    await assert.rejects(clock.advance(1), /work has run for 20 ms of real time/)
    await tasks.cancel(id)
    await clock.advance(1)
    assert.equal(clock.now(), 1)
    await tasks.close()
  })

  test('does not let close wait for delayed work, because the clock does not move', async () => {
    const { clock, runs, work, tasks } = setUp(0)
    await tasks.submit(work, {}, { delayMs: 600_000 })
    await within(tasks.close({ drainMs: 900_000 }))
    assert.deepEqual(runs, [])
    assert.equal(clock.now(), 0)
  })

  test('resets a rate limit when its window is over', async () => {
    const clock = testClock()
    const { store } = memory({ clock })
    const policies = [{ name: 'hourly', limit: 1, windowSeconds: 3600 }]
    const limited = compose(rateLimit({ store, policies, onStoreError: 'deny' }), () => json(200, {}))
    const statusOf = async () => (await inject(limited, { path: '/' })).status
    assert.deepEqual([await statusOf(), await statusOf()], [200, 429])
    await clock.advance(HOUR)
    assert.equal(await statusOf(), 200)
  })

  test('rejects invalid times', async () => {
    for (const ms of [-1, NaN, Infinity]) await assert.rejects(testClock().advance(ms), TypeError)
    assert.throws(() => testClock({ maxRunMs: 0 }), TypeError)
  })
})
