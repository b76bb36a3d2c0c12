import assert from 'node:assert/strict'
import { isRunReplaced } from '../../src/engine/runs.js'
import type { StoredTask } from '../../src/engine/task.js'
import type { Cases } from '../runner.js'
import { deferred, pause } from '../wait.js'
import { untilAborted, untilOpened, type Begun, type EngineContext, type Worker } from './context.js'

/** Waits until the signal of a run aborts with a `RunReplacedError`. */
async function isReplaced(context: EngineContext, { run }: Begun): Promise<void> {
  await context.eventually(() => run.signal.aborted, 'the signal aborts')
  assert.ok(isRunReplaced(run.signal.reason), 'the reason is not a RunReplacedError')
}

/** Returns a property of the task of each run. */
function each<Name extends keyof StoredTask>(worker: Worker, name: Name): StoredTask[Name][] {
  return worker.begun.map(({ task }) => task[name])
}

/** Tests of leases, for all engines. A handler that ends without a change simulates a crash. */
export const crashCases: Cases<EngineContext> = {
  'a run that does not end its task counts as crashed and runs again when its lease ends, every time':
    async (context) => {
      const worker = context.script({ 4: { status: 'completed' } })
      await context.created({ id: 'one' })
      const task = await context.reaches('one', 'completed')
      assert.deepEqual(each(worker, 'run'), [1, 2, 3, 4])
      assert.deepEqual(each(worker, 'attempt'), [1, 2, 3, 4])
      assert.deepEqual(each(worker, 'crashes'), [0, 1, 2, 3])
      const crashed = worker.begun.map(({ run }) => run.crashed)
      assert.deepEqual(crashed, [undefined, ...worker.begun.slice(0, 3).map((begun) => begun.task)])
      assert.equal(task.crashes, 3)
      const [first, second] = worker.begun
      context.waited((second?.at ?? 0) - (first?.at ?? 0), context.leaseMs, 'the next run began')
    },

  'a run keeps its lease as long as its handler works': async (context) => {
    const second = await context.open()
    const { worker, begun } = await context.running()
    const other = second === context.first ? undefined : context.work({}, second)
    await pause(2.5 * context.leaseMs)
    assert.equal(begun.run.signal.aborted, false)
    assert.deepEqual(other?.ids ?? [], [])
    assert.deepEqual(await context.engine.read('one'), begun.task, 'a renewal is a visible change')
    assert.equal((await begun.end({ status: 'completed' })).outcome, 'changed')
    assert.equal(worker.begun.length, 1)
  },

  'a checkpoint sets the number of consecutive crashes to 0': async (context) => {
    const worker = context.script({ 2: { checkpoint: 'half' }, 3: { status: 'completed' } })
    await context.created({ id: 'one' })
    await context.reaches('one', 'completed')
    assert.deepEqual(each(worker, 'crashes'), [0, 1, 1])
    const [, second, third] = worker.begun
    assert.deepEqual(third?.run.crashed, { ...second?.task, crashes: 0 })
    assert.equal(third?.run.checkpoint, 'half')
  },

  'an ordinary end of a run and a retry set the number of consecutive crashes to 0': async (context) => {
    const worker = context.script({
      2: { status: 'queued' }, 4: { status: 'failed' }, 5: { status: 'completed' },
    })
    const task = await context.created({ id: 'one' })
    const failed = await context.reaches('one', 'failed')
    assert.equal(failed.crashes, 1)
    const retried = await context.changed(task, { version: failed.version }, { status: 'queued' })
    assert.equal(retried.crashes, 0)
    await context.reaches('one', 'completed')
    assert.deepEqual(each(worker, 'crashes'), [0, 1, 0, 1, 0])
  },

  'a run that is given back counts as no attempt, and the crash before it still counts': async (context) => {
    const worker = context.script({
      2: { status: 'queued', isGivenBack: true }, 3: { status: 'completed' },
    })
    await context.created({ id: 'one' })
    const task = await context.reaches('one', 'completed')
    assert.deepEqual(each(worker, 'attempt'), [1, 2, 2])
    assert.deepEqual(each(worker, 'crashes'), [0, 1, 1])
    assert.deepEqual([task.attempt, task.crashes], [2, 1])
    assert.equal(worker.begun[2]?.run.crashed, undefined)
  },

  'a run can still end after its handler, if no other run has begun': async (context) => {
    const worker = context.script({})
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
    const listener = (reason: unknown): void => { reasons.push(reason) }
    const worker = context.work({
      run: async (run) => {
        run.onAbort(listener)
        await untilAborted(run)
      },
    })
    for (const status of ['cancelled', 'failed'] as const) {
      const task = await context.created({ id: status })
      const begun = await worker.ran(status)
      await context.changed(task, { version: 2 }, { status }, other)
      // The signal of the first run is not read before it has aborted.
      if (status === 'cancelled') await context.eventually(() => reasons.length === 1, 'the listener is called')
      await isReplaced(context, begun)
      begun.run.onAbort(listener)
    }
    assert.equal(reasons.length, 4, 'a listener was not called, or a late one not at once')
    assert.ok(reasons.every(isRunReplaced), 'a listener got another error than a RunReplacedError')
    await context.eventually(() => worker.places.freeIn('default') === 4, 'the places are free')
  },
}

/** Runs the task `one` in the first process, and opens a second process that works. */
async function twoWorkers(context: EngineContext): Promise<{
  readonly first: Worker, readonly second: Worker, readonly begun: Begun,
}> {
  const { worker: first, begun } = await context.running()
  return { first, second: context.work({ run: untilOpened }, await context.open()), begun }
}

/** Tests of workers that die or are suspended. For shared engines. */
export const sharedCrashCases: Cases<EngineContext> = {
  'a worker that is killed many times completes its task, with each checkpoint once': async (context) => {
    let process = context.first
    await context.created({ id: 'import' })
    const lines: number[] = []
    let crashed: StoredTask | undefined
    for (let kill = 0; kill < 6; kill++) {
      const saved = deferred()
      const worker = context.work({
        run: async (run, begun) => {
          const { checkpoint = '0', task } = run
          assert.deepEqual([task.run, task.attempt, task.crashes], [kill + 1, kill + 1, Math.min(kill, 1)])
          assert.deepEqual(run.crashed, crashed)
          const line = Number(checkpoint) + 1
          await begun.change({ checkpoint: String(line), details: { line } })
          lines.push(line)
          saved.resolve()
          await begun.latch.promise
        },
      }, process)
      await context.soon(saved.promise, 'a checkpoint is saved')
      assert.equal(worker.begun.length, 1)
      crashed = await context.stored('import', process.engine)
      await process.kill?.()
      process = await context.open()
    }
    context.work({}, process)
    const task = await context.reaches('import', 'completed', process.engine)
    assert.deepEqual(lines, [1, 2, 3, 4, 5, 6])
    assert.deepEqual([task.run, task.crashes, task.details], [7, 1, { line: 6 }])
  },

  'a suspended worker that resumes after a later run has begun writes nothing, not even a checkpoint':
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
      await isReplaced(context, begun)
      begun.latch.resolve()
      assert.equal((await next.end({ status: 'queued' })).outcome, 'changed')
      const runs = (): Begun[] => [...first.begun, ...second.begun]
      await context.eventually(() => runs().length === 3, 'the task runs again')
      const last = runs().find(({ task }) => task.run === 3)
      assert.equal(last?.run.checkpoint, 'new')
      last.latch.resolve()
      const stored = await context.stored('one')
      assert.deepEqual([stored.result, stored.details], [undefined, { made: 'one' }])
    },

  'a worker whose begin the engine has lost writes nothing once another begin has the same number':
    async (context) => {
      const task = await context.created({ id: 'one' })
      const restore = await context.fixture.snapshot?.()
      assert.ok(restore, 'the fixture of a shared engine has snapshot()')
      const { engine } = context
      const first = context.work({ run: untilOpened })
      const lost = await first.ran('one')
      await context.first.freeze?.()
      await restore()
      const second = context.work({ run: untilOpened }, await context.open())
      const next = await second.ran('one')
      assert.deepEqual([lost.task.run, next.task.run], [1, 1])
      await context.first.thaw?.()
      for (const change of [
        { checkpoint: 'lost' }, { details: { lost: true } }, { status: 'completed' },
        { status: 'queued', isGivenBack: true },
      ] as const) assert.equal((await lost.change(change)).outcome, 'conflict')
      await isReplaced(context, lost)
      lost.latch.resolve()
      assert.equal((await next.change({ checkpoint: 'kept' })).outcome, 'changed')
      await pause(1.5 * context.leaseMs)
      assert.equal(next.run.signal.aborted, false, 'the lease of the other begin was not renewed')
      assert.equal((await next.end({ status: 'completed' })).outcome, 'changed')
      assert.deepEqual((await engine.read('one'))?.details, task.details)
    },

  'a suspended worker whose task no other worker took can still end it': async (context) => {
    const { worker, begun } = await context.running({ id: 'one' }, { places: { default: 1 } })
    await context.first.freeze?.()
    await pause(1.5 * context.leaseMs)
    await context.first.thaw?.()
    assert.equal((await begun.end({ status: 'completed', result: '1' })).outcome, 'changed')
    await context.quiet()
    assert.equal(worker.begun.length, 1)
  },

  'a suspended worker keeps no lease of a later task with the same id': async (context) => {
    const { begun, second } = await twoWorkers(context)
    await context.first.freeze?.()
    const { id, birth } = begun.task
    const other = second.engine
    await context.changed(begun.task, { version: 2 }, { status: 'cancelled' }, other)
    assert.equal(await other.delete({ id, birth }, 3), undefined)
    await context.created({ id }, other)
    const next = await second.ran(id)
    await context.first.thaw?.()
    await isReplaced(context, begun)
    assert.equal((await next.end({ status: 'completed' })).outcome, 'changed')
    begun.latch.resolve()
  },

  'a run that cannot renew its lease aborts before another process takes its task': async (context) => {
    let abortedAt = Infinity
    const first = context.work({
      run: async (run) => {
        await untilAborted(run)
        abortedAt = performance.now()
      },
    })
    await context.created({ id: 'one' })
    const begun = await first.ran('one')
    await context.first.freeze?.()
    const second = context.work({ run: untilOpened }, await context.open())
    const next = await second.ran('one')
    context.waited(next.at - begun.at, context.leaseMs, 'another process took the task')
    await context.first.thaw?.()
    await context.eventually(() => abortedAt < Infinity, 'the signal aborts')
    await isReplaced(context, begun)
    assert.ok(abortedAt <= next.at, 'another process took the task before its run was stopped')
    next.latch.resolve()
  },

  'other processes run waiting, delayed and re-queued tasks that a dead process has made due': async (context) => {
    const first = context.script({ 1: { status: 'queued', delayMs: context.delayMs } })
    await context.created({ id: 'again' })
    await first.ran('again')
    // The task may be running again already.
    await context.eventually(async () => (await context.stored('again')).version >= 3, 'its run ends')
    await context.created({ id: 'delayed', pool: 'other', start: { delayMs: context.delayMs } })
    await context.created({ id: 'waiting', pool: 'other' })
    const process = await context.open()
    await context.first.kill?.()
    context.work({ places: { default: 2, other: 1 } }, process)
    for (const id of ['again', 'delayed', 'waiting']) await context.reaches(id, 'completed', process.engine)
  },

  'a waiting worker finds tasks that another process makes due': async (context) => {
    const worker = context.work({}, await context.open())
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
