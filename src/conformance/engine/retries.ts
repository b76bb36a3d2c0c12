import assert from 'node:assert/strict'
import type { Cases } from '../runner.js'
import { HOUR, taskOf, untilOpened, type EngineContext } from './context.js'

/**
 * Tests of tasks that run again: attempts, runs that a worker gives back, and retries of final tasks.
 */
export const retryCases: Cases<EngineContext> = {
  'a task that is queued again runs again after the delay': async (context) => {
    const { delayMs, toleranceMs } = context
    const worker = context.work(context.first, {
      run: async ({ task }, begun) => {
        await begun.change(task.run === 3 ? { status: 'completed' } : { status: 'queued', delayMs })
      },
    })
    await context.created({ id: 'one' })
    const task = await context.reaches('one', 'completed')
    assert.deepEqual(worker.begun.map(({ task: { run, attempt } }) => [run, attempt]), [[1, 1], [2, 2], [3, 3]])
    assert.deepEqual([task.version, task.crashes], [7, 0])
    for (const [n, { at }] of worker.begun.slice(1).entries()) {
      const waited = at - (worker.begun[n]?.at ?? 0)
      assert.ok(waited >= delayMs - toleranceMs, `it began again after ${String(waited)} ms`)
    }
    const [first, , third] = worker.begun
    assert.equal(third?.task.startedAt, first?.task.startedAt)
    assert.ok((third?.task.runStartedAt ?? 0) > (first?.task.runStartedAt ?? 0), 'runStartedAt is that of an earlier run')
  },

  'each run gets the input as it was created, even if a run changes it': async (context) => {
    const seen: unknown[] = []
    context.work(context.first, {
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

  'a task that waits for its next run is queued, delays nobody and can be cancelled': async (context) => {
    const worker = context.work(context.first, {
      places: { default: 1 },
      run: async ({ task }, begun) => {
        await begun.change(task.id === 'waits'
          ? { status: 'queued', delayMs: 5 * context.delayMs }
          : { status: 'completed' })
      },
    })
    const task = await context.created({ id: 'waits', key: 'key' })
    const waits = await context.reaches('waits', 'queued')
    await context.created({ id: 'next' })
    await context.reaches('next', 'completed')
    assert.equal((await context.engine.create(context.task({ id: 'waits' }))).outcome, 'exists')
    await context.eventually(async () => (await context.stored('waits')).version === 3, 'its run ends')
    assert.equal(waits.run <= 1, true)
    await context.changed(task, { version: 3 }, { status: 'cancelled' })
    await context.created({ id: 'mark', start: { delayMs: 6 * context.delayMs } })
    await worker.ran('mark')
    assert.equal(worker.of('waits').length, 1)
  },

  'a run that is given back counts as no attempt, and runs again after its delay': async (context) => {
    const { delayMs, toleranceMs } = context
    const worker = context.work(context.first, {
      run: async ({ task }, begun) => {
        await begun.change(task.run < 4
          ? { status: 'queued', isGivenBack: true, delayMs }
          : { status: 'completed' })
      },
    })
    await context.created({ id: 'one' })
    const task = await context.reaches('one', 'completed')
    assert.deepEqual(worker.begun.map((begun) => [begun.task.run, begun.task.attempt]), [[1, 1], [2, 1], [3, 1], [4, 1]])
    assert.deepEqual([task.run, task.attempt], [4, 1])
    for (const [n, { at }] of worker.begun.slice(1).entries()) {
      const waited = at - (worker.begun[n]?.at ?? 0)
      assert.ok(waited >= delayMs - toleranceMs, `it began again after ${String(waited)} ms`)
    }
  },

  'a final task that is retried runs again, with input, checkpoint and key': async (context) => {
    const other = (await context.open()).engine
    const worker = context.work(context.first, {
      run: async ({ task }, begun) => {
        if (task.run === 1) await begun.change({ checkpoint: 'half' })
        await begun.change(task.run === 1
          ? { status: 'failed', result: '"error"', keepMs: 20_000 }
          : { status: 'completed', result: '2' })
      },
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

  'a retry whose response is lost is repeated without a second run': async (context) => {
    const worker = context.work(context.first, {
      run: async ({ task }, begun) => { await begun.change({ status: task.run === 1 ? 'failed' : 'completed' }) },
    })
    const task = await context.created({ id: 'one' })
    const { version } = await context.reaches('one', 'failed')
    await context.changed(task, { version }, { status: 'queued' })
    const seen = await context.conflict(task, { version }, { status: 'queued' })
    assert.ok(seen && seen.version > version, 'the retry was not made')
    const completed = await context.reaches('one', 'completed')
    assert.deepEqual(await context.conflict(task, { version }, { status: 'queued' }), completed)
    await context.quiet()
    assert.equal(worker.begun.length, 2)
  },

  'a retry while the run before it is still cleaned up keeps key, input and checkpoint': async (context) => {
    const worker = context.work(context.first, { places: { default: 2 }, run: untilOpened })
    const task = await context.created({ id: 'one', key: 'key' })
    const first = await worker.ran('one')
    await first.change({ checkpoint: 'half' })
    const failed = taskOf(await first.change({ status: 'failed', keepMs: context.delayMs }))
    const retried = await context.changed(task, { version: failed.version }, { status: 'queued', keepMs: HOUR })
    const second = await worker.ran('one', 2)
    for (const change of [{ keepMs: 0 }, { checkpoint: null }, { hasFiles: false }]) {
      assert.equal((await first.change(change)).outcome, 'conflict')
    }
    first.latch.open()
    await context.past(failed.expiresAt)
    assert.equal((await context.engine.readByKey('key'))?.expiresAt, retried.expiresAt)
    assert.deepEqual([second.run.checkpoint, second.run.input.value], ['half', { id: 'one' }])
    assert.equal((await second.change({ status: 'queued' })).outcome, 'changed')
    second.latch.open()
    assert.equal((await worker.ran('one', 3)).run.checkpoint, 'half')
  },

  'a retry after a delay waits for it': async (context) => {
    const worker = context.work(context.first)
    const task = await context.ended(
      { id: 'one', start: { delayMs: HOUR } }, { status: 'cancelled' },
    )
    const at = performance.now()
    await context.changed(task, { version: 2 }, { status: 'queued', delayMs: context.delayMs })
    const waited = (await worker.ran('one')).at - at
    assert.ok(waited >= context.delayMs - context.toleranceMs, `it began after ${String(waited)} ms`)
  },

  'a completed task cannot be retried': async (context) => {
    const worker = context.work(context.first)
    const task = await context.created({ id: 'one' })
    const completed = await context.reaches('one', 'completed')
    const { version } = completed
    assert.deepEqual(await context.conflict(task, { version }, { status: 'queued' }), completed)
    await context.quiet()
    assert.equal(worker.begun.length, 1)
  },
}
