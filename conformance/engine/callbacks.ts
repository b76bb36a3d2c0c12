import assert from 'node:assert/strict'
import type { Cases } from '../runner.js'
import { together } from '../wait.js'
import { HOUR, taskOf, type EngineContext } from './context.js'

const MINUTE = 60_000

const never = (): Promise<void> => new Promise(() => undefined)

/** Waits until all callbacks have been sent. */
function allSent(context: EngineContext): Promise<void> {
  return context.eventually(async () => (
    (await context.listed()).every(({ callbackAt }) => callbackAt === undefined)
  ), 'all callbacks are sent')
}

/** Tests of callbacks. */
export const callbackCases: Cases<EngineContext> = {
  'the change that ends a task makes its callback due, and an attempt makes it due again in a minute': async (context) => {
    const worker = context.script({ 1: { status: 'completed', callbackMs: 0 } }, { callback: never })
    await context.created({ id: 'one' })
    await context.eventually(() => worker.callbacks.length === 1, 'the attempt begins')
    const stored = await context.stored('one')
    assert.deepEqual(worker.callbacks[0], stored)
    assert.deepEqual([stored.status, stored.version], ['completed', 3], 'an attempt is a visible change')
    const waits = (stored.callbackAt ?? 0) - await context.engine.now()
    assert.ok(waits > MINUTE / 2 && waits <= MINUTE, `the next attempt is in ${String(waits)} ms`)
    await context.quiet()
    assert.equal(worker.callbacks.length, 1)
  },

  'the outcome of an attempt ends the callback, or delays the next attempt': async (context) => {
    const times: number[] = []
    const worker = context.work({
      callback: async (task) => {
        times.push(performance.now())
        await context.changed(task, { callbackRun: task.callbackRun }, {
          callbackMs: times.length === 3 ? null : context.delayMs, details: { sent: times.length },
        })
      },
    })
    await context.ended({ id: 'one' }, { status: 'cancelled', callbackMs: 0 })
    await allSent(context)
    assert.deepEqual((await context.stored('one')).details, { sent: 3 })
    const runs = worker.callbacks.map(({ callbackRun }) => callbackRun)
    assert.deepEqual(runs, [0, 1, 2].map((n) => (runs[0] ?? 0) + n), 'each attempt has the next number')
    for (const n of [1, 2]) {
      context.waited((times[n] ?? 0) - (times[n - 1] ?? 0), context.delayMs, 'the next attempt began')
    }
    await context.quiet()
    assert.equal(worker.callbacks.length, 3)
  },

  'a callback is sent once, by any process, and no process exceeds its limit of concurrent callbacks': async (context) => {
    const most: number[] = []
    const processes = [...new Set([context.first, await context.open()])]
    const workers = processes.map((process, n) => {
      let sending = 0
      return context.work({
        callbacks: 2,
        callback: async (task) => {
          most[n] = Math.max(most[n] ?? 0, ++sending)
          await context.quiet()
          sending--
          await context.changed(task, { callbackRun: task.callbackRun }, { callbackMs: null }, process.engine)
        },
      }, process)
    })
    const ids = Array.from({ length: 12 }, (_, n) => `task-${String(n).padStart(2, '0')}`)
    await together(12, (n) => context.ended({ id: ids[n] as string }, { status: 'cancelled', callbackMs: 0 }))
    await allSent(context)
    await context.quiet()
    const sent = workers.flatMap((worker) => worker.callbacks.map(({ id }) => id))
    assert.deepEqual(sent.sort(), ids)
    assert.equal(Math.max(...most), 2)
  },

  'a worker with 0 places for callbacks sends none': async (context) => {
    const worker = context.work({ callbacks: 0 })
    await context.ended({ id: 'one' }, { status: 'cancelled', callbackMs: 0 })
    await context.created({ id: 'mark', start: { delayMs: context.delayMs } })
    await context.reaches('mark', 'completed')
    assert.deepEqual(worker.callbacks, [])
    assert.ok((await context.stored('one')).callbackAt !== undefined, 'the callback is no longer due')
  },

  'an attempt changes nothing after a later attempt, a redelivery or a retry has begun': async (context) => {
    const worker = context.work({ callback: never })
    const task = await context.ended({ id: 'one' }, { status: 'failed', callbackMs: 0 })
    await context.eventually(() => worker.callbacks.length === 1, 'the first attempt begins')
    const first = worker.callbacks[0]?.callbackRun ?? 0
    // The outcome of the first attempt makes the second one due.
    await context.changed(task, { callbackRun: first }, { callbackMs: 0 })
    await context.eventually(() => worker.callbacks.length === 2, 'the second attempt begins')
    let now = await context.stored('one')
    for (const callbackRun of [first, first + 2]) {
      assert.deepEqual(await context.conflict(task, { callbackRun }, { callbackMs: null }), now)
    }
    for (const change of [
      { callbackMs: HOUR }, { status: 'queued', callbackMs: null }, { status: 'failed', callbackMs: HOUR },
    ] as const) {
      now = await context.changed(task, { version: now.version }, change)
      assert.deepEqual(await context.conflict(task, { callbackRun: first + 1 }, { callbackMs: null }), now)
    }
    assert.deepEqual(await context.engine.read('one'), now)
    assert.equal(worker.callbacks.length, 2)
  },

  'the callback of a running task is not sent': async (context) => {
    const { worker, task, begun } = await context.running()
    assert.equal((await context.conflict(task, { callbackRun: 0 }, { callbackMs: 0 }))?.status, 'processing')
    assert.equal(taskOf(await begun.change({ details: {} })).callbackAt, undefined)
    await context.quiet()
    assert.deepEqual(worker.callbacks, [])
    begun.latch.resolve()
  },
}
