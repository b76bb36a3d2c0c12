import assert from 'node:assert/strict'
import type { Cases } from '../runner.js'
import { together } from '../waiting.js'
import { HOUR, newBirth, taskOf, type EngineContext } from './context.js'
import { untilOpened } from './worker.js'

const pool = 'nobody'
const FULL = { outcome: 'caller_full' } as const

/** Capacity of engines in the cases of a full engine. */
export const CAPACITY = 20

/** Tests of the limits of unfinished tasks of a caller. */
export const limitCases: Cases<EngineContext> = {
  'a caller has no more unfinished tasks than its limit, and a task that ends frees its place':
    async (context) => {
      const options = { limits: [{ max: 2 }] }
      const worker = context.work(context.first, { run: untilOpened })
      const waits = await context.created({ id: 'waits', caller: 'ann', pool }, options)
      await context.created({ id: 'runs', caller: 'ann' }, options)
      const runs = await worker.ran('runs')
      const third = context.task({ id: 'third', key: 'key', caller: 'ann', pool })
      assert.deepEqual(await context.engine.create(third, options), FULL)
      assert.equal(await context.engine.read('third'), undefined)
      assert.equal(await context.engine.readByKey('key'), undefined)
      await runs.change({ status: 'queued', delayMs: HOUR })
      assert.deepEqual(await context.engine.create(third, options), FULL)
      await context.changed(waits, { version: 1 }, { status: 'cancelled' })
      assert.equal((await context.engine.create(third, options)).outcome, 'created')
      const fourth = context.task({ id: 'fourth', caller: 'ann', pool })
      assert.deepEqual(await context.engine.create(fourth, options), FULL)
      runs.latch.open()
    },

  'each final status of a run frees the place at once': async (context) => {
    const options = { limits: [{ max: 1 }] }
    const worker = context.work(context.first, { run: untilOpened })
    for (const status of ['completed', 'failed', 'cancelled'] as const) {
      await context.created({ id: status, caller: 'ann' }, options)
      const begun = await worker.ran(status)
      const next = context.task({ id: `after-${status}`, caller: 'ann', pool })
      assert.deepEqual(await context.engine.create(next, options), FULL)
      await begun.change({ status })
      begun.latch.open()
      const created = taskOf(await context.engine.create(next, options))
      await context.changed(created, { version: 1 }, { status: 'cancelled' })
    }
  },

  'a limit counts the tasks of its caller only, and none without a caller': async (context) => {
    const options = { limits: [{ max: 1 }] }
    await context.created({ id: 'ann', caller: 'ann', pool }, options)
    await context.created({ id: 'bob', caller: 'bob', pool }, options)
    await context.created({ id: 'Ann', caller: 'Ann', pool }, options)
    for (const n of [1, 2, 3]) await context.created({ id: `none-${String(n)}`, owner: 'ann', pool }, options)
    assert.deepEqual(await context.engine.create(context.task({ id: 'x', caller: 'ann' }), options), FULL)
    await context.created({ id: 'unlimited', caller: 'ann', pool })
  },

  'a limit of a name counts the tasks of that name only': async (context) => {
    const options = { limits: [{ name: 'import', max: 1 }, { max: 3 }] }
    await context.created({ id: 'import', name: 'import', caller: 'ann', pool }, options)
    const second = context.task({ id: 'second', name: 'import', caller: 'ann', pool })
    assert.deepEqual(await context.engine.create(second, options), FULL)
    for (const n of [1, 2]) {
      await context.created({ id: `report-${String(n)}`, caller: 'ann', pool }, { limits: [{ name: 'report', max: 2 }, { max: 3 }] })
    }
    const fourth = context.task({ id: 'fourth', name: 'other', caller: 'ann', pool })
    assert.deepEqual(await context.engine.create(fourth, { limits: [{ name: 'other', max: 9 }, { max: 3 }] }), FULL)
  },

  'a full caller gets its existing tasks': async (context) => {
    const options = { limits: [{ max: 1 }] }
    const task = context.task({ id: 'one', key: 'key', caller: 'ann', pool })
    const created = taskOf(await context.engine.create(task, options))
    assert.deepEqual(await context.engine.create(task, options), { outcome: 'created', task: created })
    for (const again of [{ ...task, birth: newBirth() }, { ...task, id: 'two', birth: newBirth() }]) {
      assert.deepEqual(await context.engine.create(again, options), { outcome: 'exists', task: created })
    }
  },

  'of many calls at once as many create as the limit allows': async (context) => {
    const engines = [context.engine, (await context.open()).engine]
    for (let round = 0; round < 3; round++) {
      const caller = `caller-${String(round)}`
      const outcomes = await together(24, (n) => (engines[n % 2] as typeof context.engine).create(
        context.task({ id: `${caller}-${String(n)}`, caller, pool }), { limits: [{ max: 5 }] },
      ))
      assert.equal(outcomes.filter(({ outcome }) => outcome === 'created').length, 5)
      assert.equal(outcomes.filter(({ outcome }) => outcome === 'caller_full').length, 19)
    }
  },

  'places that become free are given out again, while others are taken': async (context) => {
    const engines = [context.engine, (await context.open()).engine]
    const limits = [{ max: 3 }]
    let created = 0
    await together(4, async (n) => {
      const engine = engines[n % 2] as typeof context.engine
      for (let round = 0; round < 12; round++) {
        const task = context.task({ id: `task-${String(n)}-${String(round)}`, caller: 'ann', pool })
        const outcome = await engine.create(task, { limits })
        if (outcome.outcome !== 'created') continue
        created++
        const unfinished = await context.ids({ statuses: ['queued'] }, engine)
        assert.ok(unfinished.length <= 3, `${String(unfinished.length)} unfinished tasks`)
        await context.changed(task, { version: 1 }, { status: 'cancelled' }, engine)
      }
    })
    assert.ok(created >= 12, 'a free place was not given out')
    for (const n of [1, 2, 3]) await context.created({ id: `last-${String(n)}`, caller: 'ann', pool }, { limits })
    assert.deepEqual(await context.engine.create(context.task({ id: 'x', caller: 'ann' }), { limits }), FULL)
  },

  'a retry needs a place': async (context) => {
    const limits = [{ name: 'report', max: 1 }]
    const task = await context.created({ id: 'one', caller: 'ann', pool }, { limits })
    const failed = await context.changed(task, { version: 1 }, { status: 'failed' })
    const second = await context.created({ id: 'two', caller: 'ann', pool }, { limits })
    const retry = { status: 'queued', details: { again: true }, limits } as const
    assert.deepEqual(await context.engine.change(task, { version: 2 }, retry), FULL)
    assert.deepEqual(await context.engine.read('one'), failed)
    assert.deepEqual(await context.conflict(task, { version: 1 }, retry), failed)
    await context.changed(second, { version: 1 }, { status: 'cancelled' })
    await context.changed(task, { version: 2 }, retry)
    assert.deepEqual(await context.engine.create(context.task({ id: 'x', caller: 'ann' }), { limits }), FULL)
    await context.changed(task, { version: 3 }, { status: 'failed' })
    await context.created({ id: 'four', caller: 'ann', pool }, { limits })
  },

  'of many retries at once as many succeed as the limit allows': async (context) => {
    const engines = [context.engine, (await context.open()).engine]
    const tasks = await together(12, (n) => context.created({ id: `task-${String(n)}`, caller: 'ann', pool }))
    for (const task of tasks) await context.changed(task, { version: 1 }, { status: 'failed' })
    const outcomes = await together(12, (n) => (engines[n % 2] as typeof context.engine).change(
      tasks[n] as typeof tasks[number], { version: 2 }, { status: 'queued', limits: [{ max: 4 }] },
    ))
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'changed').length, 4)
    assert.equal(outcomes.filter(({ outcome }) => outcome === 'caller_full').length, 8)
  },

  'a place is freed once only': async (context) => {
    const limits = [{ max: 2 }]
    const task = await context.created({ id: 'one', caller: 'ann', pool }, { limits })
    await context.created({ id: 'two', caller: 'ann', pool }, { limits })
    await context.changed(task, { version: 1 }, { status: 'failed' })
    await context.conflict(task, { version: 1 }, { status: 'failed' })
    await context.changed(task, { version: 2 }, { details: { seen: true } })
    await context.engine.delete(task, 3)
    await context.engine.delete(task, 3)
    await context.created({ id: 'three', caller: 'ann', pool }, { limits })
    assert.deepEqual(await context.engine.create(context.task({ id: 'x', caller: 'ann' }), { limits }), FULL)
  },

  'an unfinished task that expires frees its place': async (context) => {
    const limits = [{ max: 1 }]
    const task = await context.created({ id: 'one', caller: 'ann', pool, keepMs: context.delayMs }, { limits })
    assert.deepEqual(await context.engine.create(context.task({ id: 'x', caller: 'ann' }), { limits }), FULL)
    await context.past(task.expiresAt)
    await context.eventually(async () => {
      const created = await context.engine.create(context.task({ id: 'two', caller: 'ann', pool }), { limits })
      return created.outcome === 'created'
    }, 'the place is free')
    assert.deepEqual(await context.engine.create(context.task({ id: 'x', caller: 'ann' }), { limits }), FULL)
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
    const limits = [{ max: 1 }]
    for (let n = 1; n < CAPACITY; n++) await context.created({ id: `task-${String(n)}`, pool })
    await context.created({ id: 'ann', caller: 'ann', pool }, { limits })
    assert.deepEqual(await context.engine.create(context.task({ id: 'x', caller: 'ann' }), { limits }), FULL)
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
