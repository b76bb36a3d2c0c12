import assert from 'node:assert/strict'
import { isRunReplaced } from '../../engine/runs.js'
import type { Cases } from '../runner.js'
import { pause } from '../waiting.js'
import type { EngineContext } from './context.js'
import { untilAborted, untilOpened } from './worker.js'

/** Tests of leases, for all engines: a handler that ends without a change is a run without worker. */
export const crashCases: Cases<EngineContext> = {
  'a run that does not end its task runs again when its lease ends, as crashed': async (context) => {
    const worker = context.work(context.first, {
      run: async ({ task }, begun) => {
        if (task.run === 3) await begun.change({ status: 'completed' })
      },
    })
    await context.created({ id: 'one' })
    const task = await context.reaches('one', 'completed')
    const [first, second, third] = worker.begun
    assert.deepEqual(worker.begun.map(({ task: { run, attempt, crashes } }) => [run, attempt, crashes]), [
      [1, 1, 0], [2, 2, 1], [3, 3, 2],
    ])
    assert.equal(first?.run.crashed, undefined)
    assert.deepEqual(second?.run.crashed, first?.task)
    assert.deepEqual(third?.run.crashed, second?.task)
    assert.equal(task.crashes, 2)
    const waited = (second?.at ?? 0) - (first?.at ?? 0)
    assert.ok(waited >= context.leaseMs - context.toleranceMs, `it began again after ${String(waited)} ms`)
  },

  'a run keeps its lease as long as its handler works': async (context) => {
    const second = await context.open()
    const worker = context.work(context.first, { run: untilOpened })
    await context.created({ id: 'one' })
    const begun = await worker.ran('one')
    const other = second === context.first ? undefined : context.work(second)
    await pause(2.5 * context.leaseMs)
    assert.equal(begun.run.signal.aborted, false)
    assert.deepEqual(other?.ids ?? [], [])
    assert.deepEqual(await context.engine.read('one'), begun.task, 'a renewal is a visible change')
    assert.equal((await begun.change({ status: 'completed' })).outcome, 'changed')
    begun.latch.open()
    assert.equal(worker.begun.length, 1)
  },

  'a checkpoint sets the crashes in a row to 0': async (context) => {
    const worker = context.work(context.first, {
      run: async ({ task }, begun) => {
        if (task.run === 2) await begun.change({ checkpoint: 'half' })
        if (task.run === 3) await begun.change({ status: 'completed' })
      },
    })
    await context.created({ id: 'one' })
    await context.reaches('one', 'completed')
    assert.deepEqual(worker.begun.map(({ task }) => task.crashes), [0, 1, 1])
    const [, second, third] = worker.begun
    assert.deepEqual(third?.run.crashed, { ...second?.task, crashes: 0 })
    assert.equal(third?.run.checkpoint, 'half')
  },

  'an ordinary end of a run, and a retry, set the crashes in a row to 0': async (context) => {
    const worker = context.work(context.first, {
      run: async ({ task }, begun) => {
        if (task.run === 2) await begun.change({ status: 'queued' })
        if (task.run === 4) await begun.change({ status: 'failed' })
        if (task.run === 5) await begun.change({ status: 'completed' })
      },
    })
    const task = await context.created({ id: 'one' })
    const failed = await context.reaches('one', 'failed')
    assert.equal(failed.crashes, 1)
    const retried = await context.changed(task, { version: failed.version }, { status: 'queued' })
    assert.equal(retried.crashes, 0)
    await context.reaches('one', 'completed')
    assert.deepEqual(worker.begun.map((begun) => begun.task.crashes), [0, 1, 0, 1, 0])
  },

  'a run that is given back counts as no attempt, and the crash before it stays counted': async (context) => {
    const worker = context.work(context.first, {
      run: async ({ task }, begun) => {
        if (task.run === 2) await begun.change({ status: 'queued', isGivenBack: true })
        if (task.run === 3) await begun.change({ status: 'completed' })
      },
    })
    await context.created({ id: 'one' })
    const task = await context.reaches('one', 'completed')
    assert.deepEqual(worker.begun.map((begun) => [begun.task.attempt, begun.task.crashes]), [[1, 0], [2, 1], [2, 1]])
    assert.deepEqual([task.attempt, task.crashes], [2, 1])
    assert.equal(worker.begun[2]?.run.crashed, undefined)
  },

  'a run whose handler has ended may still be ended, as long as no other has begun': async (context) => {
    const worker = context.work(context.first, { run: async () => undefined })
    await context.created({ id: 'one' })
    const begun = await worker.ran('one')
    assert.equal((await begun.change({ details: { late: true } })).outcome, 'changed')
    assert.equal((await begun.change({ status: 'completed' })).outcome, 'changed')
    await pause(1.5 * context.leaseMs)
    assert.equal(worker.begun.length, 1)
  },

  'the signal of a run aborts when another process ends its task': async (context) => {
    const other = (await context.open()).engine
    const reasons: unknown[] = []
    const worker = context.work(context.first, {
      run: async (run) => {
        run.onAbort((reason) => { reasons.push(reason) })
        await untilAborted(run)
      },
    })
    for (const status of ['cancelled', 'failed'] as const) {
      const task = await context.created({ id: status })
      const { run } = await worker.ran(status)
      await context.changed(task, { version: 2 }, { status }, other)
      await context.eventually(() => run.signal.aborted, 'the signal aborts')
      assert.ok(isRunReplaced(run.signal.reason), 'the reason is no RunReplacedError')
    }
    assert.equal(reasons.length, 2)
    assert.ok(reasons.every(isRunReplaced), 'a listener got no RunReplacedError')
    await context.eventually(() => worker.places.freeIn('default') === 4, 'the places are free')
  },

  'onAbort calls a late listener at once, and a late signal is aborted': async (context) => {
    const worker = context.work(context.first, { run: untilOpened })
    const task = await context.created({ id: 'one' })
    const { run, latch } = await worker.ran('one')
    const heard: unknown[] = []
    run.onAbort((reason) => { heard.push(reason) })
    await context.changed(task, { version: 2 }, { status: 'cancelled' })
    await context.eventually(() => heard.length > 0, 'the listener is called')
    run.onAbort((reason) => { heard.push(reason) })
    assert.equal(heard.length, 2)
    assert.ok(run.signal.aborted && isRunReplaced(run.signal.reason) && heard.every(isRunReplaced), 'a reason is no RunReplacedError')
    latch.open()
  },

  'the engine never ends a task because of crashes': async (context) => {
    let crashes = 0
    const worker = context.work(context.first, {
      run: async ({ task }, begun) => {
        crashes = task.crashes
        if (task.run === 4) await begun.change({ status: 'completed' })
      },
    })
    await context.created({ id: 'one' })
    await worker.ran('one', 4)
    await context.reaches('one', 'completed')
    assert.equal(crashes, 3)
  },
}
