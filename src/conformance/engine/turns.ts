import assert from 'node:assert/strict'
import type { Cases } from '../runner.js'
import { pause, together } from '../waiting.js'
import { HOUR, type EngineContext } from './context.js'
import { untilOpened, type Worker } from './worker.js'

/** Tests of the order in which waiting tasks start, and of `counts`. */
export const turnCases: Cases<EngineContext> = {
  'tasks start by priority, and in their order within one': async (context) => {
    const priorities = [2, 0, 1, 1_000_000, 1, 0]
    for (const [n, priority] of priorities.entries()) {
      await context.created({ id: `task-${String(n)}`, priority, caller: 'ann' })
      await pause(2)
    }
    const worker = context.work(context.first, { places: { default: 1 } })
    await worker.began(priorities.length)
    assert.deepEqual(worker.ids, [1, 5, 2, 4, 0, 3].map((n) => `task-${String(n)}`))
  },

  'a task keeps its priority after its delay': async (context) => {
    const worker = context.work(context.first, {
      places: { default: 1 },
      run: async ({ task }, begun) => {
        if (task.id === 'first') await begun.latch.opened
        await begun.change({ status: 'completed' })
      },
    })
    await context.created({ id: 'first' })
    const first = await worker.ran('first')
    const start = { delayMs: context.toleranceMs }
    const low = await context.created({ id: 'low', priority: 9, start })
    const high = await context.created({ id: 'high', priority: 1, start })
    await context.past(Math.max(low.startAt ?? 0, high.startAt ?? 0) + context.toleranceMs)
    first.latch.open()
    await worker.began(3)
    assert.deepEqual(worker.ids, ['first', 'high', 'low'])
  },

  'a task of another caller starts after as many as there are places, not after all that wait':
    async (context) => {
      for (let n = 0; n < 40; n++) await context.created({ id: `ann-${String(n)}`, caller: 'ann' })
      const worker = context.work(context.first, { places: { default: 2 }, run: untilOpened })
      await worker.began(2)
      await context.created({ id: 'bob', caller: 'bob' })
      for (let n = 0; worker.of('bob').length === 0; n++) {
        assert.ok(n <= 2, `${String(n)} tasks of the other caller started first: ${worker.ids.join()}`)
        await end(worker, n)
        await worker.began(n + 3)
      }
    },

  'a task that comes when 40 of another caller wait starts among the first': async (context) => {
    for (let n = 0; n < 40; n++) await context.created({ id: `ann-${String(n)}`, caller: 'ann' })
    await context.created({ id: 'bob', caller: 'bob' })
    await context.created({ id: 'none' })
    const worker = context.work(context.first, { places: { default: 1 } })
    await worker.began(6)
    const first = worker.ids.slice(0, 4)
    assert.ok(first.includes('bob') && first.includes('none'), `the first were ${first.join()}`)
  },

  'callers take turns, and each starts its own in their order': async (context) => {
    for (const caller of ['ann', 'bob', 'cid']) {
      for (let n = 0; n < 6; n++) {
        await context.created({ id: `${caller}-${String(n)}`, caller })
        await pause(2)
      }
    }
    const worker = context.work(context.first, { places: { default: 1 } })
    await worker.began(18)
    for (const caller of ['ann', 'bob', 'cid']) {
      const own = worker.ids.filter((id) => id.startsWith(caller))
      assert.deepEqual(own, own.toSorted(), 'the order of one caller')
      for (const count of [6, 12]) {
        const started = worker.ids.slice(0, count).filter((id) => id.startsWith(caller)).length
        assert.ok(Math.abs(started - count / 3) <= 1, `the first were ${worker.ids.slice(0, count).join()}`)
      }
    }
  },

  'a caller that comes back pays for no earlier turns, and has saved none': async (context) => {
    const worker = context.work(context.first, {
      places: { default: 1 },
      run: async ({ task }, begun) => {
        if (task.id === 'holds') await begun.latch.opened
        await begun.change({ status: 'completed' })
      },
    })
    for (let n = 0; n < 10; n++) await context.created({ id: `early-${String(n)}`, caller: 'ann' })
    await context.reaches('early-9', 'completed')
    await context.created({ id: 'holds', caller: 'cid' })
    const { latch } = await worker.ran('holds')
    for (let n = 0; n < 6; n++) {
      for (const caller of ['bob', 'ann']) await context.created({ id: `${caller}-${String(n)}`, caller })
    }
    latch.open()
    await worker.began(23)
    const ann = worker.ids.slice(11, 17).filter((id) => id.startsWith('ann'))
    assert.ok(ann.length >= 2 && ann.length <= 4, `the first were ${worker.ids.slice(11, 17).join()}`)
  },

  'a lower priority waits, whosever turn it is': async (context) => {
    for (const n of [1, 2, 3]) await context.created({ id: `ann-${String(n)}`, caller: 'ann', priority: 1 })
    await context.created({ id: 'bob', caller: 'bob', priority: 2 })
    const worker = context.work(context.first, { places: { default: 1 } })
    await worker.began(4)
    assert.equal(worker.ids.at(-1), 'bob')
  },

  'counts tells what runs, waits and is delayed, by pool': async (context) => {
    const other = (await context.open()).engine
    assert.deepEqual(await other.counts('default'), { running: 0, waiting: 0, delayed: 0 })
    const worker = context.work(context.first, { places: { default: 1 }, run: untilOpened })
    await context.created({ id: 'runs' })
    const runs = await worker.ran('runs')
    await context.created({ id: 'delayed', start: { delayMs: HOUR } })
    await context.created({ id: 'elsewhere', pool: 'other' })
    const ended = await context.created({ id: 'ended' })
    await context.changed(ended, { version: 1 }, { status: 'cancelled' })
    const first = await context.created({ id: 'first', priority: 5 })
    await context.quiet()
    for (const id of ['second', 'third']) await context.created({ id })
    const { oldestWaitingMs = -1, ...numbers } = await other.counts('default')
    assert.deepEqual(numbers, { running: 1, waiting: 3, delayed: 1 })
    const waited = await context.engine.now() - first.createdAt
    assert.ok(
      oldestWaitingMs >= context.toleranceMs / 2 && oldestWaitingMs <= waited,
      `the oldest task waits for ${String(oldestWaitingMs)} of ${String(waited)} ms`,
    )
    await runs.change({ status: 'queued', delayMs: HOUR })
    runs.latch.open()
    await worker.began(2)
    const then = await other.counts('default')
    assert.deepEqual([then.running, then.waiting, then.delayed], [1, 2, 2])
    for (const n of [1, 2, 3]) await end(worker, n)
    await context.eventually(async () => (await other.counts('default')).running === 0, 'none runs')
    assert.deepEqual(await other.counts('default'), { running: 0, waiting: 0, delayed: 2 })
    const elsewhere = await other.counts('other')
    assert.deepEqual([elsewhere.running, elsewhere.waiting, elsewhere.delayed], [0, 1, 0])
  },

  'many tasks of many callers all start': async (context) => {
    const worker = context.work(context.first)
    await together(60, (n) => context.created({
      id: `task-${String(n)}`, caller: n % 7 === 0 ? undefined : `caller-${String(n % 7)}`, priority: n % 3,
    }))
    await context.eventually(async () => (
      (await context.ids({ statuses: ['completed'] })).length === 60
    ), 'all are completed')
    assert.equal(worker.begun.length, 60)
  },
}

/** Completes the nth run of a worker, once it has begun. */
async function end(worker: Worker, n: number): Promise<void> {
  const begun = await worker.began(n + 1)
  await begun.change({ status: 'completed' })
  begun.latch.open()
}
