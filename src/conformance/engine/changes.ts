import assert from 'node:assert/strict'
import { isFinalStatus } from '../../engine/task.js'
import type { Cases } from '../runner.js'
import { together } from '../waiting.js'
import { HOUR, taskOf, untilOpened, type EngineContext } from './context.js'

/** Tests of `change` and `delete`. */
export const changeCases: Cases<EngineContext> = {
  'a change applies at its version, and every process sees it': async (context) => {
    const other = (await context.open()).engine
    const task = await context.created({ id: 'one', key: 'key' })
    const changed = await context.changed(task, { version: 1 }, { details: { step: 2 } })
    assert.deepEqual(changed, { ...task, version: 2, details: { step: 2 } })
    assert.deepEqual(await other.read('one'), changed)
    assert.deepEqual(await other.readByKey('key'), changed)
  },

  'a change at another version is a conflict, returns the task as it is and changes nothing':
    async (context) => {
      const other = (await context.open()).engine
      const task = await context.created({ id: 'one' })
      const changed = await context.changed(task, { version: 1 }, { details: { step: 2 } })
      for (const version of [1, 3]) {
        const change = {
          status: 'failed', details: {}, result: '1', checkpoint: 'x', keepMs: 1, pool: 'other',
          callbackMs: 0,
        } as const
        assert.deepEqual(await context.conflict(task, { version }, change, other), changed)
        assert.deepEqual(await other.read('one'), changed)
      }
      const worker = context.work(context.first)
      assert.equal((await worker.ran('one')).run.checkpoint, undefined)
    },

  'of many changes at once at one version one applies': async (context) => {
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

  'a task that never was has no changes': async (context) => {
    const ref = context.task({ id: 'never-was' })
    assert.equal(await context.conflict(ref, { version: 1 }, { details: {} }), undefined)
    assert.equal(await context.engine.delete(ref, 1), undefined)
  },

  'an absent property stays as it is': async (context) => {
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

  'each final status ends a run, with its time, details and result': async (context) => {
    const worker = context.work(context.first, { run: untilOpened })
    for (const status of ['completed', 'failed', 'cancelled'] as const) {
      await context.created({ id: status })
      const begun = await worker.ran(status)
      const before = await context.engine.now()
      const change = { status, details: { why: status }, ...status === 'completed' && { result: '{"é":"\\u0000"}' } }
      const ended = taskOf(await begun.change(change))
      const after = await context.engine.now()
      const { finishedAt = 0 } = ended
      assert.ok(finishedAt >= before && finishedAt <= after, 'finishedAt is wrong')
      assert.deepEqual(ended, {
        ...begun.task, status, version: 3, finishedAt, details: { why: status },
        result: status === 'completed' ? '{"é":"\\u0000"}' : undefined,
      })
      assert.deepEqual(await context.engine.read(status), ended)
      begun.latch.open()
    }
  },

  'a run that has ended can write nothing, whatever its status': async (context) => {
    const worker = context.work(context.first, { run: untilOpened })
    for (const status of ['completed', 'failed', 'cancelled', 'queued'] as const) {
      await context.created({ id: status })
      const begun = await worker.ran(status)
      const ended = taskOf(await begun.change({ status, delayMs: status === 'queued' ? HOUR : 0 }))
      for (const change of [{ status: 'failed' }, { details: { late: true } }, { checkpoint: 'late' }] as const) {
        assert.deepEqual(await begun.change(change), { outcome: 'conflict', task: ended })
      }
      assert.deepEqual(await context.engine.read(status), ended)
      begun.latch.open()
    }
  },

  'a run that is cancelled can write nothing, not even a checkpoint': async (context) => {
    const other = (await context.open()).engine
    const worker = context.work(context.first, { run: untilOpened })
    const task = await context.created({ id: 'one' })
    const begun = await worker.ran('one')
    const cancelled = await context.changed(task, { version: 2 }, { status: 'cancelled' }, other)
    for (const change of [{ checkpoint: 'late' }, { status: 'completed', result: '1' }, { details: {} }] as const) {
      assert.deepEqual(await begun.change(change), { outcome: 'conflict', task: cancelled })
    }
    const again = await context.changed(task, { version: 3 }, { status: 'queued' }, other)
    begun.latch.open()
    const second = await worker.ran('one', 2)
    assert.equal(again.run, 1)
    assert.deepEqual([second.task.run, second.run.checkpoint], [2, undefined])
    assert.equal((await begun.change({ checkpoint: 'late' })).outcome, 'conflict')
    second.latch.open()
  },

  'a run that has not begun cannot be expected': async (context) => {
    const task = await context.created({ id: 'one' })
    for (const run of [0, 1]) {
      assert.deepEqual(await context.conflict(task, { run }, { details: {} }), task)
    }
  },

  'the version counts the changes that clients see': async (context) => {
    const worker = context.work(context.first, { run: untilOpened })
    const task = await context.created({ id: 'one' })
    const begun = await worker.ran('one')
    assert.equal(begun.task.version, 2)
    const versions = []
    for (const change of [
      { checkpoint: 'a' }, { details: { n: 1 } }, { details: { n: 2 }, isHidden: true },
      { checkpoint: 'b', details: { n: 3 } }, { checkpoint: null }, { checkpoint: 'c' },
    ]) {
      const changed = taskOf(await begun.change(change))
      assert.deepEqual(changed, await context.engine.read('one'))
      versions.push(changed.version)
    }
    assert.deepEqual(versions, [2, 3, 3, 4, 4, 4])
    const { details } = await context.stored('one')
    assert.deepEqual(details, { n: 3 })
    const ended = taskOf(await begun.change({ status: 'completed', checkpoint: 'd' }))
    assert.equal(ended.version, 5)
    const hidden = await context.changed(task, { version: 5 }, { callbackMs: null, isHidden: true })
    assert.equal(hidden.version, 5)
    begun.latch.open()
  },

  'a later pool takes effect with the next run': async (context) => {
    const worker = context.work(context.first, {
      places: { default: 1, heavy: 1 },
      run: async ({ task }, begun) => {
        await begun.change(task.run === 1 ? { status: 'queued', pool: 'heavy' } : { status: 'completed' })
      },
    })
    await context.created({ id: 'one' })
    assert.equal((await context.reaches('one', 'completed')).pool, 'heavy')
    assert.deepEqual(worker.begun.map(({ task }) => task.pool), ['default', 'heavy'])
    const waiting = await context.created({ id: 'two', pool: 'nobody' })
    await context.changed(waiting, { version: 1 }, { status: 'queued', pool: 'default' })
    await worker.ran('two')
  },

  'delete removes a final task at its version only': async (context) => {
    const other = (await context.open()).engine
    const task = await context.created({ id: 'one', key: 'key', owner: 'ann' })
    assert.deepEqual(await context.engine.delete(task, 1), task, 'an unfinished task was deleted')
    const failed = await context.changed(task, { version: 1 }, { status: 'failed' })
    for (const version of [1, 3]) assert.deepEqual(await other.delete(task, version), failed)
    assert.deepEqual(await other.read('one'), failed)
    assert.equal(await other.delete(task, 2), undefined)
    for (const engine of [context.engine, other]) {
      assert.equal(await engine.read('one'), undefined)
      assert.equal(await engine.readByKey('key'), undefined)
      assert.deepEqual(await context.ids({}, engine), [])
      assert.deepEqual(await context.ids({ of: { owner: 'ann' } }, engine), [])
      assert.equal(await engine.delete(task, 2), undefined)
      assert.equal(await context.conflict(task, { version: 2 }, { status: 'queued' }, engine), undefined)
    }
  },

  'delete and retry at once: one of them happens': async (context) => {
    const other = (await context.open()).engine
    for (let n = 0; n < 10; n++) {
      const task = await context.ended(
        { id: `task-${String(n)}`, pool: 'nobody' }, { status: 'failed' },
      )
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
