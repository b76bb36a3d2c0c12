import assert from 'node:assert/strict'
import type { TaskChange } from '../../src/engine/task.js'
import type { Cases } from '../runner.js'
import { HOUR, taskOf, untilOpened, type EngineContext } from './context.js'

/** Runs a task four times, with a change after the first three. Checks the delays and attempts. */
async function repeats(
  context: EngineContext, change: TaskChange, attempts: readonly number[],
): Promise<void> {
  const again: TaskChange = { ...change, status: 'queued', delayMs: context.delayMs }
  const worker = context.script({ 1: again, 2: again, 3: again, 4: { status: 'completed' } })
  await context.created({ id: 'one' })
  const task = await context.reaches('one', 'completed')
  assert.deepEqual(worker.begun.map((begun) => begun.task.run), [1, 2, 3, 4])
  assert.deepEqual(worker.begun.map((begun) => begun.task.attempt), attempts)
  assert.deepEqual([task.version, task.crashes, task.attempt], [9, 0, attempts.at(-1)])
  for (const n of [1, 2, 3]) {
    const [before, begun] = [worker.begun[n - 1], worker.begun[n]]
    context.waited((begun?.at ?? 0) - (before?.at ?? 0), context.delayMs, 'the next run began')
    assert.equal(begun?.task.startedAt, before?.task.startedAt)
    assert.ok((begun?.task.runStartedAt ?? 0) > (before?.task.runStartedAt ?? 0), 'runStartedAt is that of an earlier run')
  }
}

/**
 * Tests of tasks that run again: attempts, runs that a worker gives back, and retries of final
 * tasks.
 */
export const retryCases: Cases<EngineContext> = {
  'a task that is queued again runs again after the delay':
    (context) => repeats(context, {}, [1, 2, 3, 4]),

  'a run that is given back counts as no attempt, and runs again after its delay':
    (context) => repeats(context, { isGivenBack: true }, [1, 1, 1, 1]),

  'each run gets the original input, even if a run changes it': async (context) => {
    const seen: unknown[] = []
    context.work({
      run: async ({ task, input }, begun) => {
        const value = input.value as Record<string, unknown>
        seen.push({ ...value })
        value['run'] = task.run
        await begun.change({ status: task.run === 3 ? 'completed' : 'queued' })
      },
    })
    await context.created({ id: 'one' })
    await context.reaches('one', 'completed')
    assert.deepEqual(seen, [{ id: 'one' }, { id: 'one' }, { id: 'one' }])
  },

  'a final task that is retried runs again, with input, checkpoint and key': async (context) => {
    const other = (await context.open()).engine
    const worker = context.script({
      1: { status: 'failed', result: '"error"', checkpoint: 'half', keepMs: 20_000 },
      2: { status: 'completed', result: '2' },
    })
    const start = { delayMs: context.toleranceMs }
    const task = await context.created({ id: 'one', key: 'key', start })
    const failed = await context.reaches('one', 'failed')
    const retried = await context.changed(task, { version: failed.version }, { status: 'queued', keepMs: HOUR }, other)
    assert.deepEqual(retried, {
      ...failed, status: 'queued', version: failed.version + 1, startAt: undefined,
      finishedAt: undefined, result: undefined, expiresAt: retried.expiresAt,
    })
    assert.ok(retried.expiresAt > failed.expiresAt + HOUR / 2, 'the retried task is not kept longer')
    const { run } = await worker.ran('one', 2)
    assert.deepEqual([run.task.run, run.task.attempt, run.checkpoint], [2, 2, 'half'])
    assert.deepEqual(run.input.value, { id: 'one' })
    const completed = await context.reaches('one', 'completed')
    assert.deepEqual([completed.result, completed.key], ['2', 'key'])
    assert.equal(completed.expiresAt, retried.expiresAt)
    assert.deepEqual(await other.readByKey('key'), completed)
  },

  'a retry that is repeated makes no second run, and a completed task cannot be retried': async (context) => {
    const worker = context.script({ 1: { status: 'failed' }, 2: { status: 'completed' } })
    const task = await context.created({ id: 'one' })
    const { version } = await context.reaches('one', 'failed')
    await context.changed(task, { version }, { status: 'queued' })
    const seen = await context.conflict(task, { version }, { status: 'queued' })
    assert.ok(seen && seen.version > version, 'the retry was not made')
    const completed = await context.reaches('one', 'completed')
    for (const expected of [version, completed.version]) {
      assert.deepEqual(await context.conflict(task, { version: expected }, { status: 'queued' }), completed)
    }
    await context.quiet()
    assert.equal(worker.begun.length, 2)
  },

  'a retry before the handler of the earlier run ends keeps key, input and checkpoint': async (context) => {
    const worker = context.work({ places: { default: 2 }, run: untilOpened })
    const task = await context.created({ id: 'one', key: 'key' })
    const first = await worker.ran('one')
    await first.change({ checkpoint: 'half' })
    const failed = taskOf(await first.change({ status: 'failed', keepMs: context.delayMs }))
    const retried = await context.changed(task, { version: failed.version }, { status: 'queued', keepMs: HOUR })
    const second = await worker.ran('one', 2)
    for (const change of [{ keepMs: 0 }, { checkpoint: null }, { hasFiles: false }]) {
      assert.equal((await first.change(change)).outcome, 'conflict')
    }
    first.latch.resolve()
    await context.past(failed.expiresAt)
    assert.equal((await context.engine.readByKey('key'))?.expiresAt, retried.expiresAt)
    assert.deepEqual([second.run.checkpoint, second.run.input.value], ['half', { id: 'one' }])
    assert.equal((await second.change({ status: 'queued' })).outcome, 'changed')
    second.latch.resolve()
    assert.equal((await worker.ran('one', 3)).run.checkpoint, 'half')
  },

  'a retry may have a delay': async (context) => {
    const worker = context.work()
    const start = { delayMs: HOUR }
    const task = await context.ended({ id: 'one', pool: 'default', start }, { status: 'cancelled' })
    const at = performance.now()
    await context.changed(task, { version: 2 }, { status: 'queued', delayMs: context.delayMs })
    context.waited((await worker.ran('one')).at - at, context.delayMs, 'the retry began')
  },
}
