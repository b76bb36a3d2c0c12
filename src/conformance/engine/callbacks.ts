import assert from 'node:assert/strict'
import type { Cases } from '../runner.js'
import { together } from '../waiting.js'
import { HOUR, taskOf, untilOpened, type EngineContext } from './context.js'

const MINUTE = 60_000

/** Tests of callbacks. */
export const callbackCases: Cases<EngineContext> = {
  'the change that ends a task makes its callback due': async (context) => {
    const worker = context.work(context.first, {
      run: async (_run, begun) => {
        const ended = taskOf(await begun.change({ status: 'completed', result: '1', callbackMs: 0 }))
        assert.ok(ended.callbackAt !== undefined && ended.callbackAt <= await context.engine.now(), 'the callback is not due')
      },
      callback: () => new Promise(() => undefined),
    })
    await context.created({ id: 'one' })
    await context.eventually(() => worker.callbacks.length === 1, 'the callback is handed out')
    const handed = worker.callbacks[0]
    const stored = await context.stored('one')
    assert.deepEqual(handed, stored)
    assert.deepEqual([stored.status, stored.version], ['completed', 3], 'handing out is a visible change')
    const waits = (stored.callbackAt ?? 0) - await context.engine.now()
    assert.ok(waits > MINUTE / 2 && waits <= MINUTE, `the next attempt is in ${String(waits)} ms`)
    await context.quiet()
    assert.equal(worker.callbacks.length, 1)
  },

  'the outcome of an attempt ends the callback, or delays the next attempt': async (context) => {
    const times: number[] = []
    const worker = context.work(context.first, {
      callback: async (task) => {
        times.push(performance.now())
        const isLast = times.length === 3
        const changed = await context.engine.change(task, { callbackRun: task.callbackRun }, {
          callbackMs: isLast ? null : context.delayMs, details: { sent: times.length },
        })
        assert.equal(changed.outcome, 'changed')
      },
    })
    await context.ended(
      { id: 'one', pool: 'nobody' }, { status: 'cancelled', callbackMs: 0 },
    )
    await context.eventually(async () => (await context.stored('one')).callbackAt === undefined, 'it is sent')
    assert.deepEqual((await context.stored('one')).details, { sent: 3 })
    assert.equal(worker.callbacks.length, 3)
    const runs = worker.callbacks.map(({ callbackRun }) => callbackRun)
    assert.deepEqual(runs, runs.map((_, n) => (runs[0] ?? 0) + n), 'each attempt has the next number')
    for (const [n, at] of times.slice(1).entries()) {
      const waited = at - (times[n] ?? 0)
      assert.ok(waited >= context.delayMs - context.toleranceMs, `sent again after ${String(waited)} ms`)
    }
    await context.quiet()
    assert.equal(worker.callbacks.length, 3)
  },

  'a task without a callback has none': async (context) => {
    const worker = context.work(context.first)
    await context.ended(
      { id: 'cancelled', pool: 'nobody' }, { status: 'cancelled' },
    )
    await context.created({ id: 'one' })
    assert.equal((await context.reaches('one', 'completed')).callbackAt, undefined)
    await context.quiet()
    assert.deepEqual(worker.callbacks, [])
  },

  'a callback that waits is sent by any process, and only once at a time': async (context) => {
    const second = await context.open()
    const workers = [...new Set([context.first, second])].map((process) => context.work(process))
    const tasks = await together(12, (n) => context.created({ id: `task-${String(n)}`, pool: 'nobody' }))
    for (const task of tasks) await context.changed(task, { version: 1 }, { status: 'cancelled', callbackMs: 0 })
    await context.eventually(async () => (
      (await context.listed()).every(({ callbackAt }) => callbackAt === undefined)
    ), 'all are sent')
    await context.quiet()
    const sent = workers.flatMap((worker) => worker.callbacks.map(({ id }) => id))
    assert.deepEqual(sent.sort(), tasks.map(({ id }) => id).sort())
  },

  'no more callbacks are sent at a time than the worker may': async (context) => {
    let sending = 0
    let most = 0
    context.work(context.first, {
      callbacks: 2,
      callback: async (task) => {
        most = Math.max(most, ++sending)
        await context.quiet()
        sending--
        await context.engine.change(task, { callbackRun: task.callbackRun }, { callbackMs: null })
      },
    })
    const tasks = await together(6, (n) => context.created({ id: `task-${String(n)}`, pool: 'nobody' }))
    for (const task of tasks) await context.changed(task, { version: 1 }, { status: 'cancelled', callbackMs: 0 })
    await context.eventually(async () => (
      (await context.listed()).every(({ callbackAt }) => callbackAt === undefined)
    ), 'all are sent')
    assert.equal(most, 2)
  },

  'a worker with 0 callbacks sends none': async (context) => {
    const worker = context.work(context.first, { callbacks: 0 })
    await context.ended(
      { id: 'one', pool: 'nobody' }, { status: 'cancelled', callbackMs: 0 },
    )
    await context.created({ id: 'mark', start: { delayMs: context.delayMs } })
    await context.reaches('mark', 'completed')
    assert.deepEqual(worker.callbacks, [])
    assert.ok((await context.stored('one')).callbackAt !== undefined, 'the callback is no longer due')
  },

  'an earlier attempt changes nothing': async (context) => {
    const task = await context.ended({ id: 'one', pool: 'nobody' }, { status: 'failed' })
    const worker = context.work(context.first, { callback: () => new Promise(() => undefined) })
    await context.changed(task, { version: 2 }, { callbackMs: 0 })
    await context.eventually(() => worker.callbacks.length === 1, 'the callback is handed out')
    const first = worker.callbacks[0]?.callbackRun ?? 0
    // The outcome of the first attempt makes the second one due.
    await context.changed(task, { callbackRun: first }, { callbackMs: 0 })
    await context.eventually(() => worker.callbacks.length === 2, 'the callback is handed out again')
    const stored = await context.stored('one')
    for (const callbackRun of [first, first + 2]) {
      assert.deepEqual(await context.conflict(task, { callbackRun }, { callbackMs: null }), stored)
    }
    assert.deepEqual(await context.engine.read('one'), stored)
    await context.changed(task, { callbackRun: first + 1 }, { callbackMs: null })
  },

  'an attempt that began before a redelivery does not end the redelivery': async (context) => {
    const task = await context.created({ id: 'one', pool: 'nobody' })
    const worker = context.work(context.first, { callback: () => new Promise(() => undefined) })
    await context.changed(task, { version: 1 }, { status: 'failed', callbackMs: 0 })
    await context.eventually(() => worker.callbacks.length === 1, 'the callback is handed out')
    const { version, callbackRun } = await context.stored('one')
    const again = await context.changed(task, { version }, { callbackMs: HOUR })
    assert.deepEqual(await context.conflict(task, { callbackRun }, { callbackMs: null }), again)
    assert.notEqual((await context.stored('one')).callbackAt, undefined)
  },

  'an attempt that began before a retry does not end the callback of the retried task':
    async (context) => {
      const worker = context.work(context.first, {
        run: async (_run, begun) => { await begun.change({ status: 'failed', callbackMs: 0 }) },
        callback: () => new Promise(() => undefined),
      })
      const task = await context.created({ id: 'one' })
      await context.eventually(() => worker.callbacks.length === 1, 'the callback is handed out')
      const { version, callbackRun } = await context.stored('one')
      const change = { status: 'queued', callbackMs: null, delayMs: HOUR } as const
      const waits = await context.changed(task, { version }, change)
      assert.deepEqual(await context.conflict(task, { callbackRun }, { callbackMs: null }), waits)
      const late = await context.changed(task, { version: waits.version }, { status: 'failed', callbackMs: HOUR })
      assert.deepEqual(await context.conflict(task, { callbackRun }, { callbackMs: null }), late)
      assert.equal(worker.callbacks.length, 1)
    },

  'the callback of an unfinished task is not handed out': async (context) => {
    const worker = context.work(context.first, { run: untilOpened })
    const task = await context.created({ id: 'one' })
    const begun = await worker.ran('one')
    assert.equal((await context.conflict(task, { callbackRun: 0 }, { callbackMs: 0 }))?.status, 'processing')
    await context.quiet()
    assert.deepEqual(worker.callbacks, [])
    begun.latch.open()
  },
}

/** Tests of callbacks whose process dies. For shared engines. */
export const sharedCallbackCases: Cases<EngineContext> = {
  'a callback whose process dies while it is sent stays due': async (context) => {
    const worker = context.work(context.first, { callback: () => new Promise(() => undefined) })
    await context.ended(
      { id: 'one', pool: 'nobody' }, { status: 'failed', callbackMs: 0 },
    )
    await context.eventually(() => worker.callbacks.length === 1, 'the callback is handed out')
    await context.first.kill?.()
    const { engine } = await context.open()
    const { callbackAt = 0 } = await context.stored('one', engine)
    const waits = callbackAt - await engine.now()
    assert.ok(waits > 0 && waits <= MINUTE, `the next attempt is in ${String(waits)} ms`)
  },
}
