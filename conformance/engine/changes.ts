import assert from 'node:assert/strict'
import { isFinalStatus } from '../../src/engine/task.js'
import type { Cases } from '../runner.js'
import { together } from '../wait.js'
import { HOUR, taskOf, untilOpened, type EngineContext } from './context.js'

/** Tests of `change` and `delete`. */
export const changeCases: Cases<EngineContext> = {
  'a change applies at its version, and every process reads it': async (context) => {
    const other = (await context.open()).engine
    const task = await context.created({ id: 'one', key: 'key' })
    const changed = await context.changed(task, { version: 1 }, { details: { step: 2 } })
    assert.deepEqual(changed, { ...task, version: 2, details: { step: 2 } })
    assert.deepEqual(await other.read('one'), changed)
    assert.deepEqual(await other.readByKey('key'), changed)
  },

  'a change that expects another version or lease is a conflict, returns the task and changes nothing':
    async (context) => {
      const other = (await context.open()).engine
      const task = await context.created({ id: 'one' })
      const changed = await context.changed(task, { version: 1 }, { details: { step: 2 } })
      const change = {
        status: 'failed', details: {}, result: '1', checkpoint: 'x', keepMs: 1, pool: 'other',
        callbackMs: 0,
      } as const
      for (const expected of [{ version: 1 }, { version: 3 }, { lease: '0' }, { lease: '1' }]) {
        assert.deepEqual(await context.conflict(task, expected, change, other), changed)
        assert.deepEqual(await other.read('one'), changed)
      }
      const worker = context.work()
      assert.equal((await worker.ran('one')).run.checkpoint, undefined)
    },

  'one of many concurrent changes at one version applies': async (context) => {
    const side = await context.sides()
    const task = await context.created({ id: 'one' })
    const outcomes = await together(20, (n) => side(n).change(task, { version: 1 }, { details: { n } }))
    const [winner, none] = outcomes.filter(({ outcome }) => outcome === 'changed')
    assert.ok(winner && !none, 'not exactly one change applied')
    const stored = await context.stored('one')
    assert.deepEqual(stored, taskOf(winner))
    assert.equal(stored.version, 2)
    for (const outcome of outcomes) assert.deepEqual(taskOf(outcome), stored)
  },

  'a change keeps the properties that it does not name': async (context) => {
    const task = await context.created({ id: 'one', key: 'key', owner: 'ann', caller: 'ann' })
    let last = await context.changed(task, { version: 1 }, { details: { a: 1 } })
    last = await context.changed(task, { version: 2 }, { keepMs: 2 * HOUR })
    assert.deepEqual(last.details, { a: 1 })
    const ended = await context.changed(task, { version: 3 }, { status: 'completed', result: '[1]' })
    assert.deepEqual([ended.details, ended.expiresAt], [{ a: 1 }, last.expiresAt])
    last = await context.changed(task, { version: 4 }, { details: { a: 2 } })
    assert.deepEqual(last, { ...ended, version: 5, details: { a: 2 } })
  },

  'keepMs counts from the change': async (context) => {
    const task = await context.created({ id: 'one', start: { delayMs: HOUR } })
    const before = await context.engine.now()
    const changed = await context.changed(task, { version: 1 }, { keepMs: 5000 })
    const after = await context.engine.now()
    assert.ok(changed.expiresAt >= before + 5000 && changed.expiresAt <= after + 5000, 'expiresAt is wrong')
  },

  'a change of the status ends a run, with its time, details and result, and the run can write nothing afterwards': async (context) => {
    const worker = context.work({ run: untilOpened })
    for (const status of ['completed', 'failed', 'cancelled', 'queued'] as const) {
      await context.created({ id: status })
      const begun = await worker.ran(status)
      const before = await context.engine.now()
      const result = status === 'completed' ? '{"é":"\\u0000"}' : undefined
      const ended = taskOf(await begun.change({
        status, details: { why: status }, ...result && { result }, ...status === 'queued' && { delayMs: HOUR },
      }))
      const after = await context.engine.now()
      const { finishedAt } = ended
      if (isFinalStatus(status)) {
        assert.ok(finishedAt && finishedAt >= before && finishedAt <= after, 'finishedAt is wrong')
      }
      const { startAt } = ended
      assert.deepEqual(ended, {
        ...begun.task, status, version: 3, startAt, details: { why: status }, result,
        finishedAt: isFinalStatus(status) ? finishedAt : undefined,
      })
      for (const change of [{ status: 'failed' }, { details: { late: true } }, { checkpoint: 'late' }] as const) {
        assert.deepEqual(await begun.change(change), { outcome: 'conflict', task: ended })
      }
      assert.deepEqual(await context.engine.read(status), ended)
      begun.latch.resolve()
    }
  },

  'a run that another process cancels can write nothing, not even after a retry': async (context) => {
    const other = (await context.open()).engine
    const { worker, task, begun } = await context.running()
    const cancelled = await context.changed(task, { version: 2 }, { status: 'cancelled' }, other)
    for (const change of [{ checkpoint: 'late' }, { status: 'completed', result: '1' }, { details: {} }] as const) {
      assert.deepEqual(await begun.change(change), { outcome: 'conflict', task: cancelled })
    }
    const again = await context.changed(task, { version: 3 }, { status: 'queued' }, other)
    begun.latch.resolve()
    const second = await worker.ran('one', 2)
    assert.equal(again.run, 1)
    assert.deepEqual([second.task.run, second.run.checkpoint], [2, undefined])
    assert.equal((await begun.change({ checkpoint: 'late' })).outcome, 'conflict')
    second.latch.resolve()
  },

  'the version grows with each change that clients can see': async (context) => {
    const { task, begun } = await context.running()
    assert.equal(begun.task.version, 2)
    const versions = []
    for (const change of [
      { checkpoint: 'a' }, { checkpoint: 'a' }, { details: { n: 1 } }, { details: { n: 2 }, isHidden: true },
      { checkpoint: 'b', details: { n: 3 } }, { checkpoint: null }, { checkpoint: 'c' },
    ]) {
      const changed = taskOf(await begun.change(change))
      assert.deepEqual(changed, await context.engine.read('one'))
      versions.push(changed.version)
    }
    assert.deepEqual(versions, [2, 2, 3, 3, 4, 4, 4])
    const { details } = await context.stored('one')
    assert.deepEqual(details, { n: 3 })
    const ended = taskOf(await begun.change({ status: 'completed', checkpoint: 'd' }))
    assert.equal(ended.version, 5)
    const hidden = await context.changed(task, { version: 5 }, { callbackMs: null, isHidden: true })
    assert.equal(hidden.version, 5)
    begun.latch.resolve()
  },

  'a change of the pool takes effect with the next run': async (context) => {
    const changes = { 1: { status: 'queued', pool: 'heavy' }, 2: { status: 'completed' } } as const
    const worker = context.script(changes, { places: { default: 1, heavy: 1 } })
    await context.created({ id: 'one' })
    assert.equal((await context.reaches('one', 'completed')).pool, 'heavy')
    assert.deepEqual(worker.begun.map(({ task }) => task.pool), ['default', 'heavy'])
    const waiting = await context.created({ id: 'two', pool: 'nobody' })
    await context.changed(waiting, { version: 1 }, { status: 'queued', pool: 'default' })
    await worker.ran('two')
  },

  'delete removes a task only if it is final and has the expected version': async (context) => {
    const other = (await context.open()).engine
    const task = await context.created({ id: 'one', key: 'key', owner: 'ann' })
    assert.deepEqual(await context.engine.delete(task, 1), task, 'an unfinished task was deleted')
    const failed = await context.changed(task, { version: 1 }, { status: 'failed' })
    for (const version of [1, 3]) assert.deepEqual(await other.delete(task, version), failed)
    assert.deepEqual(await other.read('one'), failed)
    assert.equal(await other.delete(task, 2), undefined)
    for (const engine of [context.engine, other]) {
      await context.absent('one', 'key', engine)
      assert.deepEqual(await context.ids({ of: { owner: 'ann' } }, engine), [])
      assert.equal(await engine.delete(task, 2), undefined)
      assert.equal(await context.conflict(task, { version: 2 }, { status: 'queued' }, engine), undefined)
    }
  },

  'one of a concurrent delete and retry applies': async (context) => {
    const other = (await context.open()).engine
    for (let n = 0; n < 10; n++) {
      const task = await context.ended({ id: `task-${String(n)}` })
      const [deleted, retried] = await Promise.all([
        context.engine.delete(task, 2),
        other.change(task, { version: 2 }, { status: 'queued' }),
      ])
      const now = await context.engine.read(task.id)
      assert.equal(retried.outcome === 'changed', now !== undefined, 'both or none happened')
      assert.deepEqual(deleted, now)
      assert.ok(!now || !isFinalStatus(now.status), 'the retried task is final')
    }
  },
}
