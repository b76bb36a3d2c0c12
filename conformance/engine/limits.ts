import assert from 'node:assert/strict'
import type { CallerLimit, Created } from '../../src/engine/task.js'
import type { MaybePromise } from '../../src/runtime/maybe-promise.js'
import type { Cases } from '../runner.js'
import { together } from '../wait.js'
import { HOUR, newBirth, taskOf, untilOpened, type EngineContext } from './context.js'

const pool = 'nobody'
const FULL = { outcome: 'caller_full' } as const
const group = 'reports'
const limit = { group, max: 1 }

/** Capacity of engines in the cases of a full engine. */
export const CAPACITY = 20

/** Creates a task of the caller `ann` in a pool without workers. */
function create(
  context: EngineContext, id: string, of: CallerLimit | undefined = limit, engine = context.engine,
): MaybePromise<Created> {
  return engine.create(context.task({ id, caller: 'ann', limit: of, pool }))
}

/** Asserts that the limit of the caller `ann` is reached. */
async function isFull(context: EngineContext, of = limit): Promise<void> {
  assert.deepEqual(await create(context, 'one-too-many', of), FULL, `the group ${of.group} is not full`)
}

/** Counts outcomes. */
function count(outcomes: readonly { readonly outcome: string }[], outcome: string): number {
  return outcomes.filter((each) => each.outcome === outcome).length
}

/** Tests of the limit of unfinished tasks of a caller in a group. */
export const limitCases: Cases<EngineContext> = {
  'a caller has at most as many unfinished tasks as its limit, and a task that ends frees its place':
    async (context) => {
      const two = { group, max: 2 }
      const { begun } = await context.running({ id: 'runs', caller: 'ann', limit: two })
      const waits = await context.created({ id: 'waits', caller: 'ann', limit: two, pool })
      const third = context.task({ id: 'third', key: 'key', caller: 'ann', limit: two, pool })
      assert.deepEqual(await context.engine.create(third), FULL)
      await context.absent('third', 'key')
      await begun.end({ status: 'queued', delayMs: HOUR })
      assert.deepEqual(await context.engine.create(third), FULL)
      await context.changed(waits, { version: 1 }, { status: 'cancelled' })
      assert.equal((await context.engine.create(third)).outcome, 'created')
      await isFull(context, two)
    },

  'each final status of a run frees its place at once': async (context) => {
    const worker = context.work({ run: untilOpened })
    for (const status of ['completed', 'failed', 'cancelled'] as const) {
      await context.created({ id: status, caller: 'ann', limit })
      const begun = await worker.ran(status)
      await isFull(context)
      await begun.end({ status })
      const next = await context.created({ id: `after-${status}`, caller: 'ann', limit, pool })
      await context.changed(next, { version: 1 }, { status: 'cancelled' })
    }
  },

  'a limit counts only the tasks of its caller, and no tasks without a caller': async (context) => {
    for (const caller of ['ann', 'bob', 'Ann']) await context.created({ id: caller, caller, limit, pool })
    for (const n of [1, 2, 3]) await context.created({ id: `none-${String(n)}`, owner: 'ann', limit, pool })
    await isFull(context)
  },

  'a limit counts only the tasks of its group, and no tasks without a limit': async (context) => {
    for (const [id, of, name] of [
      ['plain'], ['one', limit], ['another'], ['unnamed', { group: '', max: 1 }],
      ['import', { group: 'import', max: 2 }, 'import'], ['second-import', { group: 'import', max: 2 }],
      ['as-named', { group: 'report', max: 1 }],
    ] as const) await context.created({ id, name: name ?? 'report', caller: 'ann', limit: of, pool })
    for (const full of [limit, { group: '', max: 1 }, { group: 'import', max: 2 }, { group: 'import', max: 1 }]) {
      await isFull(context, full)
    }
    await context.created({ id: 'third-import', caller: 'ann', limit: { group: 'import', max: 3 }, pool })
    await context.created({ id: 'more', caller: 'ann', pool })
  },

  'a full caller gets its existing tasks': async (context) => {
    const task = context.task({ id: 'one', key: 'key', caller: 'ann', limit, pool })
    const created = taskOf(await context.engine.create(task))
    assert.deepEqual(await context.engine.create(task), { outcome: 'created', task: created })
    for (const again of [{ ...task, birth: newBirth() }, { ...task, id: 'two', birth: newBirth() }]) {
      assert.deepEqual(await context.engine.create(again), { outcome: 'exists', task: created })
    }
  },

  'each group of each caller gets as many tasks as its limit, of many concurrent calls': async (context) => {
    const side = await context.sides()
    const limits = [{ group: '', max: 4 }, { group, max: 2 }, undefined]
    for (const caller of ['ann', 'bob', 'cid']) {
      const outcomes = await together(36, (n) => (
        side(n).create(context.task({ id: `${caller}-${String(n)}`, caller, limit: limits[n % 3], pool }))
      ))
      const created = limits.map((_, of) => count(outcomes.filter((_outcome, n) => n % 3 === of), 'created'))
      assert.deepEqual(created, [4, 2, 12])
      assert.equal(count(outcomes, 'caller_full'), 18)
    }
  },

  'concurrent calls get the places that become free': async (context) => {
    const side = await context.sides()
    const three = { group, max: 3 }
    let created = 0
    await together(4, async (n) => {
      const engine = side(n)
      for (let round = 0; round < 12; round++) {
        const outcome = await create(context, `task-${String(n)}-${String(round)}`, three, engine)
        if (outcome.outcome !== 'created') continue
        created++
        const unfinished = await context.ids({ statuses: ['queued'] }, engine)
        assert.ok(unfinished.length <= 3, `${String(unfinished.length)} unfinished tasks`)
        await context.changed(outcome.task, { version: 1 }, { status: 'cancelled' }, engine)
      }
    })
    assert.ok(created >= 12, 'a free place was not used')
    for (const n of [1, 2, 3]) await context.created({ id: `last-${String(n)}`, caller: 'ann', limit: three, pool })
    await isFull(context, three)
  },

  'a retry needs a place': async (context) => {
    const task = await context.ended({ id: 'one', caller: 'ann', limit })
    const second = await context.created({ id: 'two', caller: 'ann', limit, pool })
    const retry = { status: 'queued', details: { again: true }, limit } as const
    assert.deepEqual(await context.engine.change(task, { version: 2 }, retry), FULL)
    assert.deepEqual(await context.engine.read('one'), task)
    assert.deepEqual(await context.conflict(task, { version: 1 }, retry), task)
    await context.changed(second, { version: 1 }, { status: 'cancelled' })
    await context.changed(task, { version: 2 }, retry)
    await isFull(context)
    await context.changed(task, { version: 3 }, { status: 'failed' })
    await context.created({ id: 'four', caller: 'ann', limit, pool })
  },

  'a retry counts in the group that it names': async (context) => {
    const other = { group: 'other', max: 1 }
    const isReached = async (of: CallerLimit): Promise<boolean> => {
      const created = await create(context, 'probe', of)
      if (created.outcome === 'caller_full') return true
      await context.changed(taskOf(created), { version: 1 }, { status: 'cancelled' })
      await context.engine.delete(taskOf(created), 2)
      return false
    }
    for (const first of [limit, undefined]) {
      const task = await context.created({ id: `from-${first?.group ?? 'none'}`, caller: 'ann', limit: first, pool })
      let version = 1
      for (const next of [other, undefined, limit, limit]) {
        await context.changed(task, { version: version++ }, { status: 'failed' })
        assert.deepEqual([await isReached(limit), await isReached(other)], [false, false], 'a final task counts')
        await context.changed(task, { version: version++ }, { status: 'queued', limit: next })
        assert.deepEqual([await isReached(limit), await isReached(other)], [next === limit, next === other])
      }
      await context.changed(task, { version }, { status: 'cancelled' })
    }
  },

  'as many of many concurrent retries succeed as the limit allows': async (context) => {
    const side = await context.sides()
    const tasks = await together(12, (n) => context.ended({ id: `task-${String(n)}`, caller: 'ann' }))
    const retry = { status: 'queued', limit: { group, max: 4 } } as const
    const outcomes = await Promise.all(tasks.map(async (task, n) => side(n).change(task, { version: 2 }, retry)))
    assert.deepEqual([count(outcomes, 'changed'), count(outcomes, 'caller_full')], [4, 8])
  },

  'a place is freed only once': async (context) => {
    const two = { group, max: 2 }
    const task = await context.ended({ id: 'one', caller: 'ann', limit: two })
    await context.created({ id: 'two', caller: 'ann', limit: two, pool })
    await context.conflict(task, { version: 1 }, { status: 'failed' })
    await context.changed(task, { version: 2 }, { details: { seen: true } })
    for (const version of [3, 3]) await context.engine.delete(task, version)
    await context.created({ id: 'three', caller: 'ann', limit: two, pool })
    await isFull(context, two)
  },

  'an unfinished task that expires frees its place': async (context) => {
    const task = await context.created({ id: 'one', caller: 'ann', limit, pool, keepMs: context.windowMs })
    await isFull(context)
    await context.past(task.expiresAt)
    await context.eventually(async () => (await create(context, 'two')).outcome === 'created', 'the place is free')
    await isFull(context)
  },
}

/** Tests of engines that obey the setting `capacity`. */
export const fullCases: Cases<EngineContext> = {
  'a full engine returns `full`, creates nothing, and creates tasks again when one is deleted': async (context) => {
    for (let n = 1; n < CAPACITY; n++) await context.created({ id: `task-${String(n)}`, pool })
    const first = await context.created({ id: 'first', caller: 'ann', limit, pool })
    const more = context.task({ id: 'more', key: 'key' })
    assert.deepEqual(await context.engine.create(more), { outcome: 'full' })
    await context.absent('more', 'key')
    const again = context.task({ id: 'first' })
    assert.deepEqual(await context.engine.create(again), { outcome: 'exists', task: first })
    // The limit of the caller is checked first.
    await isFull(context)
    await context.changed(first, { version: 1 }, { status: 'cancelled' })
    await context.engine.delete(first, 2)
    assert.equal((await context.engine.create(more)).outcome, 'created')
  },

  'a task whose run queues it again keeps its place in a full engine': async (context) => {
    const { worker, begun } = await context.running()
    for (let n = 1; n < CAPACITY; n++) await context.created({ id: `task-${String(n)}`, pool })
    await begun.end({ status: 'queued' })
    await (await worker.ran('one', 2)).end({ status: 'completed' })
    await context.reaches('one', 'completed')
  },
}
