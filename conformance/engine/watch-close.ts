import assert from 'node:assert/strict'
import { isWorkerClosing } from '../../src/engine/runs.js'
import type { StoredTask } from '../../src/engine/task.js'
import type { Cases } from '../runner.js'
import { pause } from '../wait.js'
import { notices, watchCases } from '../watches.js'
import { HOUR, untilAborted, untilOpened, type EngineContext } from './context.js'

const pool = 'nobody'

/** Tests of `watch`. */
export const watchesOfTasks: Cases<EngineContext> = {
  ...watchCases<EngineContext>(async (context) => {
    const other = (await context.open()).engine
    const tasks = new Map<string, StoredTask>()
    const ref = (id: string): StoredTask => tasks.get(id) as StoredTask
    return {
      watch: (id, listener) => context.engine.watch(id, listener),
      create: async (id) => {
        tasks.set(id, await context.created({ id, pool, details: { value: 'created' } }, other))
        return '1'
      },
      change: async (id, version) => {
        const change = { status: 'failed', details: { value: 'changed' } } as const
        await context.changed(ref(id), { version: Number(version) }, change)
        return '2'
      },
      remove: (id, version) => context.engine.delete(ref(id), Number(version)),
      read: async (id) => (await other.read(id))?.details['value'] as string | undefined,
    }
  }),

  'a watch reports each visible change, by any process': async (context) => {
    const other = await context.open()
    const worker = context.work({ run: untilOpened }, other)
    const task = await context.created({ id: 'one', pool })
    const watch = await notices(context, (listener) => context.engine.watch('one', listener))
    await context.changed(task, { version: 1 }, { details: { n: 1 } })
    await watch.expect('a change')
    await context.changed(task, { version: 2 }, { status: 'queued', pool: 'default' }, other.engine)
    const begun = await worker.ran('one')
    await watch.expect('a run')
    await begun.change({ details: { n: 2 } })
    await watch.expect('progress')
    await begun.end({ status: 'failed' })
    await watch.expect('the end')
    const failed = await context.stored('one')
    await context.changed(task, { version: failed.version }, { status: 'queued', pool }, other.engine)
    await watch.expect('a retry')
    const { version } = await context.stored('one')
    await context.changed(task, { version }, { status: 'cancelled' })
    await watch.expect('the cancellation')
    await other.engine.delete(task, version + 1)
    await watch.expect('the deletion')
    watch.stop()
  },
}

/** Tests of `close`, for all engines. */
export const closeCases: Cases<EngineContext> = {
  'close of an idle engine resolves, and a second close resolves again': async (context) => {
    context.work()
    await context.soon(context.engine.close({ drainMs: context.timeoutMs }), 'close resolves')
    await context.soon(context.engine.close({ drainMs: context.timeoutMs }), 'a second close resolves')
  },

  'a run that ends within drainMs is not aborted': async (context) => {
    const { begun } = await context.running()
    let isClosed = false
    const closing = context.engine.close({ drainMs: context.timeoutMs }).then(() => { isClosed = true })
    await context.quiet()
    assert.equal(isClosed, false, 'close resolved while a task ran')
    assert.equal(begun.run.signal.aborted, false)
    assert.equal((await begun.end({ status: 'completed' })).outcome, 'changed')
    await context.soon(closing, 'close resolves once the run has ended')
    assert.ok(!isWorkerClosing(begun.run.signal.reason), 'the run was aborted')
  },

  'a run that lasts longer than drainMs is aborted with a WorkerClosingError, and can be given back':
    async (context) => {
      const reasons: unknown[] = []
      const worker = context.work({
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
      assert.ok(isWorkerClosing(reasons[0]) && isWorkerClosing(begun.run.signal.reason), 'the reason is not a WorkerClosingError')
      assert.equal(reasons[1], 'changed', 'close resolved before the run was given back')
      assert.equal(worker.begun.length, 1)
    },

  'a run that ignores its signal does not delay close': async (context) => {
    const { worker, begun } = await context.running()
    await context.soon(context.engine.close({ drainMs: 10 }), 'close resolves soon after the abort')
    begun.latch.resolve()
    await context.quiet()
    assert.equal(worker.begun.length, 1)
  },

  'close waits for a callback that ends within drainMs': async (context) => {
    let isSent = false
    const worker = context.work({
      callback: async (task) => {
        await pause(context.toleranceMs)
        await context.engine.change(task, { callbackRun: task.callbackRun }, { callbackMs: null })
        isSent = true
      },
    })
    await context.ended({ id: 'one' }, { status: 'failed', callbackMs: 0 })
    await context.eventually(() => worker.callbacks.length === 1, 'the callback is handed out')
    await context.soon(context.engine.close({ drainMs: context.timeoutMs }), 'close resolves')
    assert.equal(isSent, true)
  },
}

/** Tests of `close` of engines that are shared, and whose tasks survive. */
export const sharedCloseCases: Cases<EngineContext> = {
  'a process that closes begins no runs, and leaves waiting tasks to others': async (context) => {
    const { worker: first, begun } = await context.running({ id: 'runs' }, { places: { default: 1 } })
    for (const n of [1, 2]) await context.created({ id: `waits-${String(n)}` })
    const closing = context.engine.close({ drainMs: context.timeoutMs })
    const second = await context.open()
    await context.created({ id: 'later' }, second.engine)
    await begun.end({ status: 'completed' })
    await context.soon(closing, 'close resolves')
    await context.quiet()
    assert.deepEqual(first.ids, ['runs'])
    assert.deepEqual(first.abandoned, [])
    const queued = { statuses: ['queued'] } as const
    assert.deepEqual((await context.ids(queued, second.engine)).sort(), ['later', 'waits-1', 'waits-2'])
    assert.equal((await context.stored('runs', second.engine)).status, 'completed')
    context.work({}, second)
    for (const id of ['waits-1', 'waits-2', 'later']) await context.reaches(id, 'completed', second.engine)
  },

  'a run that is given back at close runs in another process, as the same attempt': async (context) => {
    const first = context.work({
      run: async (run, begun) => {
        await untilAborted(run)
        await begun.change({ status: 'queued', isGivenBack: true })
      },
    })
    await context.created({ id: 'one' })
    await first.ran('one')
    const second = await context.open()
    const worker = context.work({}, second)
    await context.soon(context.engine.close({ drainMs: 10 }), 'close resolves')
    const { task, run } = await worker.ran('one')
    assert.deepEqual([task.run, task.attempt, task.crashes, run.crashed], [2, 1, 0, undefined])
    assert.equal(first.begun.length, 1)
  },
}

/** Tests of `close` of engines whose tasks end with the process. */
export const memoryCloseCases: Cases<EngineContext> = {
  'waiting tasks run during close, within drainMs': async (context) => {
    const worker = context.work({
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

  'each unfinished task is abandoned once, and close waits for it': async (context) => {
    let settled = 0
    const worker = context.work({
      places: { default: 2 },
      run: async (run, begun) => {
        await (run.task.id === 'ignores' ? begun.latch.promise : untilAborted(run))
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
    await context.ended({ id: 'ended' }, { status: 'cancelled' })
    await context.soon(context.engine.close({ drainMs: 20 }), 'close resolves')
    const left = ['delayed', 'ignores', 'nobody', 'runs', 'waits']
    assert.deepEqual(worker.abandoned.map(({ id }) => id).sort(), left)
    assert.equal(settled, left.length, 'close resolved before abandon did')
    assert.equal(worker.begun.length, 2)
    worker.of('ignores')[0]?.latch.resolve()
  },

  'a task whose callback was not sent is abandoned': async (context) => {
    const worker = context.work()
    await context.ended({ id: 'one' }, { status: 'completed', callbackMs: HOUR })
    await context.ended({ id: 'two' }, { status: 'completed' })
    await context.soon(context.engine.close({ drainMs: 20 }), 'close resolves')
    assert.deepEqual(worker.abandoned.map(({ id, status }) => [id, status]), [['one', 'completed']])
  },

  'close does not wait for a task whose next run comes too late': async (context) => {
    const { worker, begun } = await context.running()
    const closing = context.engine.close({ drainMs: context.timeoutMs })
    await begun.end({ status: 'queued', delayMs: HOUR })
    await context.soon(closing, 'close resolves')
    assert.deepEqual(worker.abandoned.map(({ id, attempt }) => [id, attempt]), [['one', 1]])
  },
}
