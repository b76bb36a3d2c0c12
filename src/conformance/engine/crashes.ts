import assert from 'node:assert/strict'
import { isRunReplaced } from '../../engine/runs.js'
import type { Cases } from '../runner.js'
import { Latch, pause } from '../waiting.js'
import {
  taskOf, untilAborted, untilOpened, type Begun, type EngineContext, type Worker,
} from './context.js'

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

/** Opens a second process that works. The first one works with `untilOpened`, and runs `one`. */
async function twoWorkers(context: EngineContext): Promise<{
  readonly first: Worker, readonly second: Worker, readonly begun: Awaited<ReturnType<Worker['ran']>>,
}> {
  const first = context.work(context.first, { run: untilOpened })
  await context.created({ id: 'one', key: 'key', caller: 'ann' })
  const begun = await first.ran('one')
  return { first, second: context.work(await context.open(), { run: untilOpened }), begun }
}

/** Tests of workers that die or are suspended. For shared engines. */
export const sharedCrashCases: Cases<EngineContext> = {
  'the task of a worker that dies runs in another process, as crashed': async (context) => {
    const { second, begun } = await twoWorkers(context)
    await context.first.kill?.()
    const next = await second.ran('one')
    assert.deepEqual([next.task.run, next.task.attempt, next.task.crashes], [2, 2, 1])
    assert.deepEqual(next.run.crashed, begun.task)
    assert.equal(taskOf(await next.change({ status: 'completed' })).status, 'completed')
    next.latch.open()
  },

  'a worker that is killed many times completes its task, with each checkpoint once': async (context) => {
    let process = context.first
    await context.created({ id: 'import' })
    const lines: number[] = []
    for (let kill = 0; kill < 6; kill++) {
      const saved = new Latch()
      const worker = context.work(process, {
        run: async ({ checkpoint = '0', task }, begun) => {
          assert.equal(task.crashes, Math.min(kill, 1))
          const line = Number(checkpoint) + 1
          await begun.change({ checkpoint: String(line), details: { line } })
          lines.push(line)
          saved.open()
          await begun.latch.opened
        },
      })
      await context.soon(saved.opened, 'a checkpoint is saved')
      assert.equal(worker.begun.length, 1)
      await process.kill?.()
      process = await context.open()
    }
    context.work(process)
    const task = await context.reaches('import', 'completed', process.engine)
    assert.deepEqual(lines, [1, 2, 3, 4, 5, 6])
    assert.deepEqual([task.run, task.crashes, task.details], [7, 1, { line: 6 }])
  },

  'a suspended worker that comes back after a later run writes nothing, not even a checkpoint':
    async (context) => {
      const { first, second, begun } = await twoWorkers(context)
      await context.first.freeze?.()
      const old = { status: 'completed', result: '"old"' } as const
      const late = [{ checkpoint: 'old' }, { details: { old: true } }, old]
        .map((change) => begun.change(change).catch(() => undefined))
      const next = await second.ran('one')
      await next.change({ checkpoint: 'new' })
      await context.first.thaw?.()
      for (const change of late) {
        const outcome = await context.soon(change, 'a late change resolves')
        if (outcome) assert.equal(outcome.outcome, 'conflict')
      }
      assert.equal((await begun.change({ checkpoint: 'old' })).outcome, 'conflict')
      await context.eventually(() => begun.run.signal.aborted, 'the signal of the earlier run aborts')
      assert.ok(isRunReplaced(begun.run.signal.reason), 'the reason is no RunReplacedError')
      begun.latch.open()
      assert.equal((await next.change({ status: 'queued' })).outcome, 'changed')
      next.latch.open()
      const runs = (): Begun[] => [...first.begun, ...second.begun]
      await context.eventually(() => runs().length === 3, 'the task runs again')
      const last = runs().find(({ task }) => task.run === 3)
      assert.equal(last?.run.checkpoint, 'new')
      last.latch.open()
      const stored = await context.stored('one')
      assert.deepEqual([stored.result, stored.details], [undefined, { made: 'one' }])
    },

  'a suspended worker whose task nobody took may still end it': async (context) => {
    const worker = context.work(context.first, { places: { default: 1 }, run: untilOpened })
    const task = await context.created({ id: 'one' })
    const begun = await worker.ran('one')
    await context.first.freeze?.()
    await pause(1.5 * context.leaseMs)
    await context.first.thaw?.()
    await context.changed(task, { run: begun.task.run }, { status: 'completed', result: '1' })
    begun.latch.open()
    await context.quiet()
    assert.equal(worker.begun.length, 1)
  },

  'a suspended worker keeps no lease of a later task with the id of its own': async (context) => {
    const { begun, second } = await twoWorkers(context)
    await context.first.freeze?.()
    const { id, birth } = begun.task
    const other = second.engine
    await context.changed(begun.task, { version: 2 }, { status: 'cancelled' }, other)
    assert.equal(await other.delete({ id, birth }, 3), undefined)
    await context.created({ id }, other)
    const next = await second.ran(id)
    await context.first.thaw?.()
    await context.eventually(() => begun.run.signal.aborted, 'the signal of the earlier task aborts')
    assert.ok(isRunReplaced(begun.run.signal.reason), 'the reason is no RunReplacedError')
    assert.equal((await next.change({ status: 'completed' })).outcome, 'changed')
    for (const { latch } of [begun, next]) latch.open()
  },

  'a worker that is suspended before its first write, comes back and dies loses nothing':
    async (context) => {
      const { second, begun } = await twoWorkers(context)
      await context.first.freeze?.()
      const next = await second.ran('one')
      await context.first.thaw?.()
      await begun.change({ details: { begun: true } }).catch(() => undefined)
      await context.first.kill?.()
      const outcome = await next.change({ status: 'completed' })
      next.latch.open()
      assert.equal(outcome.outcome, 'changed')
      assert.equal((await context.stored('one', (await context.open()).engine)).attempt, 2)
    },

  'a run whose lease could not be renewed aborts before another process takes its task':
    async (context) => {
      let abortedAt = Infinity
      const first = context.work(context.first, {
        run: async (run) => {
          await untilAborted(run)
          abortedAt = performance.now()
        },
      })
      await context.created({ id: 'one' })
      const begun = await first.ran('one')
      await context.first.freeze?.()
      const second = context.work(await context.open(), { run: untilOpened })
      const next = await second.ran('one')
      const waited = next.at - begun.at
      assert.ok(waited >= context.leaseMs - context.toleranceMs, `it was taken after ${String(waited)} ms`)
      await context.first.thaw?.()
      await context.eventually(() => abortedAt < Infinity, 'the signal aborts')
      assert.ok(isRunReplaced(begun.run.signal.reason), 'the reason is no RunReplacedError')
      assert.ok(abortedAt <= next.at, 'another process took the task of a run that had not been stopped')
      next.latch.open()
    },

  'what a dead process made due is found: waiting, delayed, and queued again': async (context) => {
    const first = context.work(context.first, {
      run: async ({ task }, begun) => {
        if (task.id === 'again') await begun.change({ status: 'queued', delayMs: context.delayMs })
        await begun.latch.opened
      },
    })
    await context.created({ id: 'again' })
    await first.ran('again')
    await context.created({ id: 'delayed', start: { delayMs: context.delayMs } })
    await context.created({ id: 'waiting', pool: 'other' })
    await context.eventually(async () => (await context.stored('again')).version === 3, 'its run ends')
    const process = await context.open()
    await context.first.kill?.()
    context.work(process, { places: { default: 2, other: 1 } })
    for (const id of ['again', 'delayed', 'waiting']) await context.reaches(id, 'completed', process.engine)
  },

  'a worker that waits finds what another process makes due': async (context) => {
    const worker = context.work(await context.open())
    await context.quiet()
    for (const n of [1, 2, 3]) {
      const id = `task-${String(n)}`
      await context.created({ id })
      const at = performance.now()
      const waited = (await worker.ran(id)).at - at
      assert.ok(waited < 2000 + context.toleranceMs, `found after ${String(waited)} ms`)
    }
  },
}
