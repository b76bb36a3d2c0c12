import assert from 'node:assert/strict'
import type { TaskEngine } from '../../engine/engine.js'
import { isWorkerClosing } from '../../engine/runs.js'
import type { StoredTask } from '../../engine/task.js'
import type { Cases } from '../runner.js'
import { hintsWithoutChange, pause, together } from '../waiting.js'
import { HOUR, untilAborted, untilOpened, type EngineContext } from './context.js'

const pool = 'nobody'

/** Counts the notices of a task. */
async function notices(
  context: EngineContext, id: string, engine: TaskEngine,
): Promise<{ readonly expect: (what: string) => Promise<void>, count: number, stop: () => void }> {
  const seen = { count: 0, stop: (): void => undefined, expect: async (what: string) => {
    await context.eventually(() => seen.count > 0, `the watch tells of ${what}`)
    await context.quiet()
    seen.count = 0
  } }
  seen.stop = await context.soon(engine.watch(id, () => { seen.count++ }), 'watch resolves')
  return seen
}

/** Tests of `watch`. A notice may be repeated, so the cases expect at least one. */
export const watchCases: Cases<EngineContext> = {
  'a watch tells of each visible change, by any process': async (context) => {
    const other = await context.open()
    const worker = context.work(other, { run: untilOpened })
    const task = await context.created({ id: 'one', pool })
    const seen = await notices(context, 'one', context.engine)
    await context.changed(task, { version: 1 }, { details: { n: 1 } })
    await seen.expect('a change')
    await context.changed(task, { version: 2 }, { status: 'queued', pool: 'default' }, other.engine)
    await worker.ran('one')
    await seen.expect('a run')
    const begun = await worker.ran('one')
    await begun.change({ details: { n: 2 } })
    await seen.expect('progress')
    await begun.change({ status: 'failed' })
    await seen.expect('the end')
    begun.latch.open()
    const failed = await context.stored('one')
    await context.changed(task, { version: failed.version }, { status: 'queued', pool }, other.engine)
    await seen.expect('a retry')
    const { version } = await context.stored('one')
    await context.changed(task, { version }, { status: 'cancelled' })
    await seen.expect('the cancellation')
    await other.engine.delete(task, version + 1)
    await seen.expect('the deletion')
    seen.stop()
  },

  'what was changed is there for the listener to read': async (context) => {
    const other = (await context.open()).engine
    const task = await context.created({ id: 'one', pool })
    let found: StoredTask | undefined
    const stop = await other.watch('one', () => {
      void Promise.resolve(other.read('one')).then((each) => { found = each }, () => undefined)
    })
    const changed = await context.changed(task, { version: 1 }, { status: 'failed' })
    // A late notice of the creation may call the listener before the change.
    await context.eventually(() => found?.version === changed.version, 'a listener reads the change')
    assert.deepEqual(found, changed)
    stop()
  },

  'a listener is not called inside the call that changes': async (context) => {
    const task = await context.created({ id: 'one', pool })
    let isChanging = false
    let wasInside = false
    let count = 0
    const stop = await context.engine.watch('one', () => {
      count++
      wasInside ||= isChanging
    })
    isChanging = true
    const changed = context.engine.change(task, { version: 1 }, { status: 'failed' })
    isChanging = false
    await changed
    await context.eventually(() => count > 0, 'the listener is called')
    assert.equal(wasInside, false)
    stop()
  },

  'each watch of a task is told, and those of another task are not': async (context) => {
    const seen = await notices(context, 'one', context.engine)
    const again = await notices(context, 'one', context.engine)
    const others = await Promise.all(['ones', 'on', 'ONE'].map((id) => notices(context, id, context.engine)))
    const mayHear = hintsWithoutChange()
    const task = await context.created({ id: 'one', pool })
    await seen.expect('the creation')
    await again.expect('the creation')
    for (let version = 1; version < 40; version++) await context.changed(task, { version }, { details: { version } })
    await seen.expect('the last change')
    for (const { count } of others) assert.ok(count <= mayHear(), `${String(count)} notices`)
    for (const each of [seen, again, ...others]) each.stop()
  },

  'a watch that was stopped hears nothing, and the others do': async (context) => {
    const stopped = await notices(context, 'one', context.engine)
    const seen = await notices(context, 'one', context.engine)
    stopped.stop()
    stopped.stop()
    const task = await context.created({ id: 'one', pool })
    await seen.expect('the creation')
    seen.stop()
    await context.changed(task, { version: 1 }, { status: 'failed' })
    await context.quiet()
    assert.deepEqual([stopped.count, seen.count], [0, 0])
    const later = await notices(context, 'one', context.engine)
    await context.engine.delete(task, 2)
    await later.expect('the deletion')
    later.stop()
  },

  'one listener twice is two watches': async (context) => {
    let count = 0
    const listener = (): void => { count++ }
    const first = await context.engine.watch('one', listener)
    const second = await context.engine.watch('one', listener)
    first()
    await context.created({ id: 'one', pool })
    await context.eventually(() => count > 0, 'the watch that is left is told')
    second()
  },

  'a hundred watches are all told, of one task and of many': async (context) => {
    const other = (await context.open()).engine
    const told = new Set<number>()
    const stops = await together(100, (n) => other.watch(n < 50 ? 'one' : `task-${String(n)}`, () => {
      told.add(n)
    }))
    await context.created({ id: 'one', pool })
    await together(50, (n) => context.created({ id: `task-${String(n + 50)}`, pool }))
    await context.eventually(() => told.size === 100, 'a hundred watches are told')
    for (const stop of stops) stop()
  },

  'a listener that throws harms nobody': async (context) => {
    const stop = await context.engine.watch('one', () => { throw new Error('fails, on purpose') })
    const seen = await notices(context, 'one', context.engine)
    await context.created({ id: 'one', pool })
    await seen.expect('the creation')
    stop()
    seen.stop()
  },
}

/** Tests of `close`, for all engines. */
export const closeCases: Cases<EngineContext> = {
  'close of an idle engine resolves, and again': async (context) => {
    context.work(context.first)
    await context.soon(context.engine.close({ drainMs: context.timeoutMs }), 'close resolves')
    await context.soon(context.engine.close({ drainMs: context.timeoutMs }), 'a second close resolves')
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
    await context.ended(
      { id: 'one', pool: 'nobody' }, { status: 'failed', callbackMs: 0 },
    )
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
    await begun.end({ status: 'completed' })
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
    await context.ended({ id: 'ended', pool: 'nobody' }, { status: 'cancelled' })
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
