import assert from 'node:assert/strict'
import type { CallerLimit } from '../../engine/task.js'
import type { Cases } from '../runner.js'
import { together } from '../waiting.js'
import { HOUR, newBirth, taskOf, untilOpened, type EngineContext } from './context.js'

const pool = 'nobody'
const FULL = { outcome: 'caller_full' } as const
const group = 'reports'

/** Capacity of engines in the cases of a full engine. */
export const CAPACITY = 20

/** Tests of the limit of unfinished tasks of a caller in a group. */
export const limitCases: Cases<EngineContext> = {
  'a caller has no more unfinished tasks than its limit, and a task that ends frees its place':
    async (context) => {
      const limit = { group, max: 2 }
      const worker = context.work(context.first, { run: untilOpened })
      const waits = await context.created({ id: 'waits', caller: 'ann', limit, pool })
      await context.created({ id: 'runs', caller: 'ann', limit })
      const runs = await worker.ran('runs')
      const third = context.task({ id: 'third', key: 'key', caller: 'ann', limit, pool })
      assert.deepEqual(await context.engine.create(third), FULL)
      assert.equal(await context.engine.read('third'), undefined)
      assert.equal(await context.engine.readByKey('key'), undefined)
      await runs.change({ status: 'queued', delayMs: HOUR })
      assert.deepEqual(await context.engine.create(third), FULL)
      await context.changed(waits, { version: 1 }, { status: 'cancelled' })
      assert.equal((await context.engine.create(third)).outcome, 'created')
      const fourth = context.task({ id: 'fourth', caller: 'ann', limit, pool })
      assert.deepEqual(await context.engine.create(fourth), FULL)
      runs.latch.open()
    },

  'each final status of a run frees the place at once': async (context) => {
    const limit = { group, max: 1 }
    const worker = context.work(context.first, { run: untilOpened })
    for (const status of ['completed', 'failed', 'cancelled'] as const) {
      await context.created({ id: status, caller: 'ann', limit })
      const begun = await worker.ran(status)
      const next = context.task({ id: `after-${status}`, caller: 'ann', limit, pool })
      assert.deepEqual(await context.engine.create(next), FULL)
      await begun.end({ status })
      const created = taskOf(await context.engine.create(next))
      await context.changed(created, { version: 1 }, { status: 'cancelled' })
    }
  },

  'a limit counts the tasks of its caller only, and none without a caller': async (context) => {
    const limit = { group, max: 1 }
    await context.created({ id: 'ann', caller: 'ann', limit, pool })
    await context.created({ id: 'bob', caller: 'bob', limit, pool })
    await context.created({ id: 'Ann', caller: 'Ann', limit, pool })
    for (const n of [1, 2, 3]) await context.created({ id: `none-${String(n)}`, owner: 'ann', limit, pool })
    assert.deepEqual(await context.engine.create(context.task({ id: 'x', caller: 'ann', limit })), FULL)
  },

  'a limit counts the tasks of its group only, and none without a limit': async (context) => {
    const create = (id: string, limit?: CallerLimit, name = 'report') => (
      context.engine.create(context.task({ id, name, caller: 'ann', limit, pool }))
    )
    const outcomes = [
      await create('plain'), await create('one', { group, max: 1 }), await create('another'),
      await create('unnamed', { group: '', max: 1 }), await create('import', { group: 'import', max: 2 }, 'import'),
      await create('second-import', { group: 'import', max: 2 }), await create('as-named', { group: 'report', max: 1 }),
    ]
    assert.deepEqual(outcomes.map(({ outcome }) => outcome), outcomes.map(() => 'created'))
    for (const full of [{ group, max: 1 }, { group: '', max: 1 }, { group: 'import', max: 2 }, { group: 'import', max: 1 }]) {
      assert.deepEqual(await create('x', full), FULL, `the group ${full.group}`)
    }
    assert.equal((await create('third-import', { group: 'import', max: 3 })).outcome, 'created')
    assert.equal((await create('more')).outcome, 'created')
  },

  'a full caller gets its existing tasks': async (context) => {
    const limit = { group, max: 1 }
    const task = context.task({ id: 'one', key: 'key', caller: 'ann', limit, pool })
    const created = taskOf(await context.engine.create(task))
    assert.deepEqual(await context.engine.create(task), { outcome: 'created', task: created })
    for (const again of [{ ...task, birth: newBirth() }, { ...task, id: 'two', birth: newBirth() }]) {
      assert.deepEqual(await context.engine.create(again), { outcome: 'exists', task: created })
    }
  },

  'of many calls at once as many create as the limit allows': async (context) => {
    const side = await context.sides()
    for (let round = 0; round < 3; round++) {
      const caller = `caller-${String(round)}`
      const outcomes = await together(24, (n) => side(n).create(
        context.task({ id: `${caller}-${String(n)}`, caller, limit: { group, max: 5 }, pool }),
      ))
      assert.equal(outcomes.filter(({ outcome }) => outcome === 'created').length, 5)
      assert.equal(outcomes.filter(({ outcome }) => outcome === 'caller_full').length, 19)
    }
  },

  'of many calls at once, each group gets as many as its limit allows': async (context) => {
    const side = await context.sides()
    const limits = [{ group: '', max: 4 }, { group, max: 2 }, undefined]
    const outcomes = await together(36, (n) => side(n).create(
      context.task({ id: `task-${String(n)}`, caller: 'ann', limit: limits[n % 3], pool }),
    ))
    const created = limits.map((_, of) => (
      outcomes.filter(({ outcome }, n) => n % 3 === of && outcome === 'created').length
    ))
    assert.deepEqual(created, [4, 2, 12])
  },

  'places that become free are given out again, while others are taken': async (context) => {
    const side = await context.sides()
    const limit = { group, max: 3 }
    let created = 0
    await together(4, async (n) => {
      const engine = side(n)
      for (let round = 0; round < 12; round++) {
        const task = context.task({ id: `task-${String(n)}-${String(round)}`, caller: 'ann', limit, pool })
        const outcome = await engine.create(task)
        if (outcome.outcome !== 'created') continue
        created++
        const unfinished = await context.ids({ statuses: ['queued'] }, engine)
        assert.ok(unfinished.length <= 3, `${String(unfinished.length)} unfinished tasks`)
        await context.changed(task, { version: 1 }, { status: 'cancelled' }, engine)
      }
    })
    assert.ok(created >= 12, 'a free place was not given out')
    for (const n of [1, 2, 3]) await context.created({ id: `last-${String(n)}`, caller: 'ann', limit, pool })
    assert.deepEqual(await context.engine.create(context.task({ id: 'x', caller: 'ann', limit })), FULL)
  },

  'a retry needs a place': async (context) => {
    const limit = { group, max: 1 }
    const task = await context.created({ id: 'one', caller: 'ann', limit, pool })
    const failed = await context.changed(task, { version: 1 }, { status: 'failed' })
    const second = await context.created({ id: 'two', caller: 'ann', limit, pool })
    const retry = { status: 'queued', details: { again: true }, limit } as const
    assert.deepEqual(await context.engine.change(task, { version: 2 }, retry), FULL)
    assert.deepEqual(await context.engine.read('one'), failed)
    assert.deepEqual(await context.conflict(task, { version: 1 }, retry), failed)
    await context.changed(second, { version: 1 }, { status: 'cancelled' })
    await context.changed(task, { version: 2 }, retry)
    assert.deepEqual(await context.engine.create(context.task({ id: 'x', caller: 'ann', limit })), FULL)
    await context.changed(task, { version: 3 }, { status: 'failed' })
    await context.created({ id: 'four', caller: 'ann', limit, pool })
  },

  'a retry counts in the group that it names': async (context) => {
    const limit = { group, max: 1 }
    const other = { group: 'other', max: 1 }
    const isFull = async (of: CallerLimit): Promise<boolean> => {
      const probe = context.task({ id: 'probe', caller: 'ann', limit: of, pool })
      const created = await context.engine.create(probe)
      if (created.outcome === 'caller_full') return true
      await context.changed(probe, { version: 1 }, { status: 'cancelled' })
      await context.engine.delete(probe, 2)
      return false
    }
    for (const first of [limit, undefined]) {
      const task = await context.created({ id: `from-${first?.group ?? 'none'}`, caller: 'ann', limit: first, pool })
      let version = 1
      for (const next of [other, undefined, limit, limit]) {
        await context.changed(task, { version: version++ }, { status: 'failed' })
        assert.deepEqual([await isFull(limit), await isFull(other)], [false, false], 'a final task counts')
        await context.changed(task, { version: version++ }, { status: 'queued', limit: next })
        assert.deepEqual([await isFull(limit), await isFull(other)], [next === limit, next === other])
      }
      await context.changed(task, { version }, { status: 'cancelled' })
    }
  },

  'of many retries at once as many succeed as the limit allows': async (context) => {
    const side = await context.sides()
    const tasks = await together(12, (n) => context.created({ id: `task-${String(n)}`, caller: 'ann', pool }))
    for (const task of tasks) await context.changed(task, { version: 1 }, { status: 'failed' })
    const outcomes = await together(12, (n) => side(n).change(
      tasks[n] as typeof tasks[number], { version: 2 }, { status: 'queued', limit: { group, max: 4 } },
    ))
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'changed').length, 4)
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'caller_full').length, 8)
  },

  'a place is freed once only': async (context) => {
    const limit = { group, max: 2 }
    const task = await context.created({ id: 'one', caller: 'ann', limit, pool })
    await context.created({ id: 'two', caller: 'ann', limit, pool })
    await context.changed(task, { version: 1 }, { status: 'failed' })
    await context.conflict(task, { version: 1 }, { status: 'failed' })
    await context.changed(task, { version: 2 }, { details: { seen: true } })
    await context.engine.delete(task, 3)
    await context.engine.delete(task, 3)
    await context.created({ id: 'three', caller: 'ann', limit, pool })
    assert.deepEqual(await context.engine.create(context.task({ id: 'x', caller: 'ann', limit })), FULL)
  },

  'an unfinished task that expires frees its place': async (context) => {
    const limit = { group, max: 1 }
    const task = await context.created({ id: 'one', caller: 'ann', limit, pool, keepMs: context.delayMs })
    assert.deepEqual(await context.engine.create(context.task({ id: 'x', caller: 'ann', limit })), FULL)
    await context.past(task.expiresAt)
    await context.eventually(async () => {
      const created = await context.engine.create(context.task({ id: 'two', caller: 'ann', limit, pool }))
      return created.outcome === 'created'
    }, 'the place is free')
    assert.deepEqual(await context.engine.create(context.task({ id: 'x', caller: 'ann', limit })), FULL)
  },
}

/** Tests of engines that obey the setting `capacity`. */
export const fullCases: Cases<EngineContext> = {
  'a full engine says so, creates nothing, and has space again later': async (context) => {
    for (let n = 0; n < CAPACITY; n++) await context.created({ id: `task-${String(n)}`, pool })
    const more = context.task({ id: 'more', key: 'key' })
    assert.deepEqual(await context.engine.create(more), { outcome: 'full' })
    assert.equal(await context.engine.read('more'), undefined)
    assert.equal(await context.engine.readByKey('key'), undefined)
    const first = await context.stored('task-0')
    assert.deepEqual(
      await context.engine.create(context.task({ id: 'task-0' })), { outcome: 'exists', task: first },
    )
    await context.changed(first, { version: 1 }, { status: 'cancelled' })
    await context.engine.delete(first, 2)
    assert.equal((await context.engine.create(more)).outcome, 'created')
  },

  'a full caller comes before a full engine': async (context) => {
    const limit = { group: '', max: 1 }
    for (let n = 1; n < CAPACITY; n++) await context.created({ id: `task-${String(n)}`, pool })
    await context.created({ id: 'ann', caller: 'ann', limit, pool })
    assert.deepEqual(await context.engine.create(context.task({ id: 'x', caller: 'ann', limit })), FULL)
  },

  'a run finds its place in a full engine when it is queued again': async (context) => {
    const worker = context.work(context.first, {
      run: async ({ task }, begun) => {
        await begun.latch.opened
        await begun.change({ status: task.run === 1 ? 'queued' : 'completed' })
      },
    })
    await context.created({ id: 'one' })
    const first = await worker.ran('one')
    for (let n = 1; n < CAPACITY; n++) await context.created({ id: `task-${String(n)}`, pool })
    first.latch.open()
    const second = await worker.ran('one', 2)
    second.latch.open()
    await context.reaches('one', 'completed')
  },
}
