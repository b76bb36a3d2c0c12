import assert from 'node:assert/strict'
import { isWorkerClosing } from '../../engine/runs.js'
import type { StoredTask } from '../../engine/task.js'
import type { Cases } from '../runner.js'
import { pause } from '../waiting.js'
import { HOUR, type EngineContext } from './context.js'
import { untilAborted, untilOpened } from './worker.js'

/** Tests of `close`, for all engines. */
export const closeCases: Cases<EngineContext> = {
  'close of an idle engine resolves, and again': async (context) => {
    context.work(context.first)
    await context.soon(context.engine.close({ drainMs: context.timeoutMs }), 'close resolves')
    await context.soon(context.engine.close({ drainMs: context.timeoutMs }), 'a second close resolves')
  },

  'close resolves if the process never worked': async (context) => {
    await context.created({ id: 'one' })
    await context.soon(context.engine.close({ drainMs: 0 }), 'close resolves')
  },

  'a run may end within drainMs, and is not aborted': async (context) => {
    let hasEnded = false
    const worker = context.work(context.first, {
      run: async (_run, begun) => {
        await begun.latch.opened
        const { outcome } = await begun.change({ status: 'completed' })
        hasEnded = outcome === 'changed'
      },
    })
    await context.created({ id: 'one' })
    const begun = await worker.ran('one')
    let isClosed = false
    const closing = context.engine.close({ drainMs: context.timeoutMs }).then(() => { isClosed = true })
    await context.quiet()
    assert.equal(isClosed, false, 'close resolved while a task ran')
    assert.equal(begun.run.signal.aborted, false)
    begun.latch.open()
    await context.soon(closing, 'close resolves once the run has ended')
    assert.equal(hasEnded, true)
    assert.ok(!isWorkerClosing(begun.run.signal.reason), 'the run was aborted')
  },

  'a run that is left after drainMs is aborted with a WorkerClosingError, and can be given back':
    async (context) => {
      const reasons: unknown[] = []
      const worker = context.work(context.first, {
        run: async (run, begun) => {
          run.onAbort((reason) => { reasons.push(reason) })
          await untilAborted(run)
          const { outcome } = await begun.change({ status: 'queued', isGivenBack: true, delayMs: HOUR })
          reasons.push(outcome)
        },
      })
      await context.created({ id: 'one' })
      const begun = await worker.ran('one')
      await context.soon(context.engine.close({ drainMs: 10 }), 'close resolves after the abort')
      assert.ok(isWorkerClosing(reasons[0]) && isWorkerClosing(begun.run.signal.reason), 'the reason is no WorkerClosingError')
      assert.equal(reasons[1], 'changed', 'close resolved before the run was given back')
      assert.equal(worker.begun.length, 1)
    },

  'a signal that is asked for after the abort is aborted': async (context) => {
    const worker = context.work(context.first, { run: untilOpened })
    await context.created({ id: 'one' })
    const { run, latch } = await worker.ran('one')
    await context.soon(context.engine.close({ drainMs: 0 }), 'close resolves')
    assert.ok(run.signal.aborted && isWorkerClosing(run.signal.reason), 'the signal is not aborted with a WorkerClosingError')
    let heard: unknown
    run.onAbort((reason) => { heard = reason })
    assert.ok(isWorkerClosing(heard), 'the listener was not called with a WorkerClosingError')
    latch.open()
  },

  'a run that ignores its signal does not delay close': async (context) => {
    const worker = context.work(context.first, { run: untilOpened })
    await context.created({ id: 'one' })
    const begun = await worker.ran('one')
    await context.soon(context.engine.close({ drainMs: 10 }), 'close resolves soon after the abort')
    begun.latch.open()
    await context.quiet()
    assert.equal(worker.begun.length, 1)
  },

  'a callback that is sent may end within drainMs': async (context) => {
    let isSent = false
    const worker = context.work(context.first, {
      callback: async (task) => {
        await pause(context.toleranceMs)
        await context.engine.change(task, { callbackRun: task.callbackRun }, { callbackMs: null })
        isSent = true
      },
    })
    const task = await context.created({ id: 'one', pool: 'nobody' })
    await context.changed(task, { version: 1 }, { status: 'failed', callbackMs: 0 })
    await context.eventually(() => worker.callbacks.length === 1, 'the callback is handed out')
    await context.soon(context.engine.close({ drainMs: context.timeoutMs }), 'close resolves')
    assert.equal(isSent, true)
  },
}

/** Tests of `close` of engines that are shared, and whose tasks survive. */
export const sharedCloseCases: Cases<EngineContext> = {
  'a process that closes begins nothing, and leaves what waits to others': async (context) => {
    const first = context.work(context.first, { places: { default: 1 }, run: untilOpened })
    await context.created({ id: 'runs' })
    const begun = await first.ran('runs')
    for (const n of [1, 2]) await context.created({ id: `waits-${String(n)}` })
    const closing = context.engine.close({ drainMs: context.timeoutMs })
    const second = await context.open()
    await context.created({ id: 'later' }, second.engine)
    await begun.change({ status: 'completed' })
    begun.latch.open()
    await context.soon(closing, 'close resolves')
    await context.quiet()
    assert.deepEqual(first.ids, ['runs'])
    assert.deepEqual(first.abandoned, [])
    const tasks = await context.statuses(second.engine)
    assert.deepEqual(tasks, { 'runs': 'completed', 'waits-1': 'queued', 'waits-2': 'queued', 'later': 'queued' })
    context.work(second)
    for (const id of ['waits-1', 'waits-2', 'later']) await context.reaches(id, 'completed', second.engine)
  },

  'a run that is given back at close runs in another process, as the same attempt': async (context) => {
    const first = context.work(context.first, {
      run: async (run, begun) => {
        await untilAborted(run)
        await begun.change({ status: 'queued', isGivenBack: true })
      },
    })
    await context.created({ id: 'one' })
    await first.ran('one')
    const second = await context.open()
    const worker = context.work(second)
    await context.soon(context.engine.close({ drainMs: 10 }), 'close resolves')
    const { task, run } = await worker.ran('one')
    assert.deepEqual([task.run, task.attempt, task.crashes, run.crashed], [2, 1, 0, undefined])
    assert.equal(first.begun.length, 1)
  },

  'a run that ignores the close runs in another process once its lease has ended': async (context) => {
    const first = context.work(context.first, { run: untilOpened })
    await context.created({ id: 'one' })
    const begun = await first.ran('one')
    const second = await context.open()
    const worker = context.work(second)
    await context.soon(context.engine.close({ drainMs: 10 }), 'close resolves')
    const { task } = await worker.ran('one')
    assert.deepEqual([task.run, task.crashes], [2, 1])
    begun.latch.open()
  },
}

/** Tests of `close` of engines whose tasks end with the process. */
export const memoryCloseCases: Cases<EngineContext> = {
  'what waits runs while there is time': async (context) => {
    const worker = context.work(context.first, {
      places: { default: 1 },
      run: async ({ task }, begun) => {
        await pause(3)
        await begun.change(task.id === 'again' && task.run === 1
          ? { status: 'queued' }
          : { status: 'completed' })
      },
    })
    for (const id of ['one', 'two', 'again', 'four']) await context.created({ id })
    await worker.began(1)
    await context.soon(context.engine.close({ drainMs: context.timeoutMs }), 'close resolves once all ran')
    assert.deepEqual(worker.ids, ['one', 'two', 'again', 'four', 'again'])
    assert.deepEqual(worker.abandoned, [])
  },

  'each task that is left unfinished is abandoned once, and close waits for it': async (context) => {
    let settled = 0
    const worker = context.work(context.first, {
      places: { default: 2 },
      run: async (run, begun) => {
        await (run.task.id === 'ignores' ? begun.latch.opened : untilAborted(run))
      },
      abandon: async (task) => {
        await pause(10)
        await context.engine.change(task, { version: task.version }, { status: 'failed' })
        settled++
      },
    })
    await context.created({ id: 'runs' })
    await context.created({ id: 'ignores' })
    await worker.began(2)
    await context.created({ id: 'waits' })
    await context.created({ id: 'delayed', start: { delayMs: HOUR } })
    await context.created({ id: 'nobody', pool: 'nobody' })
    const ended = await context.created({ id: 'ended', pool: 'nobody' })
    await context.changed(ended, { version: 1 }, { status: 'cancelled' })
    await context.soon(context.engine.close({ drainMs: 20 }), 'close resolves')
    const left = ['delayed', 'ignores', 'nobody', 'runs', 'waits']
    assert.deepEqual(worker.abandoned.map(({ id }) => id).sort(), left)
    assert.equal(settled, left.length, 'close resolved before abandon did')
    assert.equal(worker.begun.length, 2)
    worker.of('ignores')[0]?.latch.open()
  },

  'a callback that is not sent is abandoned with its task': async (context) => {
    const worker = context.work(context.first, {
      run: async (_run, begun) => { await begun.change({ status: 'completed', callbackMs: HOUR }) },
    })
    await context.created({ id: 'one' })
    await context.reaches('one', 'completed')
    await context.created({ id: 'two' })
    await context.reaches('two', 'completed')
    const two = await context.engine.read('two') as StoredTask
    await context.engine.change(two, { version: two.version }, { callbackMs: null })
    await context.soon(context.engine.close({ drainMs: 20 }), 'close resolves')
    assert.deepEqual(worker.abandoned.map(({ id, status }) => [id, status]), [['one', 'completed']])
  },

  'close does not wait for a task whose next run comes too late': async (context) => {
    const worker = context.work(context.first, {
      run: async (_run, begun) => {
        await begun.latch.opened
        await begun.change({ status: 'queued', delayMs: HOUR })
      },
    })
    await context.created({ id: 'one' })
    const begun = await worker.ran('one')
    const closing = context.engine.close({ drainMs: context.timeoutMs })
    begun.latch.open()
    await context.soon(closing, 'close resolves')
    assert.deepEqual(worker.abandoned.map(({ id, attempt }) => [id, attempt]), [['one', 1]])
  },
}
