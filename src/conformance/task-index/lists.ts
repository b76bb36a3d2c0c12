import assert from 'node:assert/strict'
import type { ListedStatus } from '../../stores/task-index.js'
import { LISTED_STATUSES } from '../../stores/task-index.js'
import type { Cases } from '../runner.js'
import type { Context, TaskOf } from './context.js'

/** Puts tasks of two owners and of no owner, in several statuses and of two names. */
async function putMixture(context: Context): Promise<TaskOf[]> {
  const owners = ['ann', 'bob', undefined]
  const tasks = Array.from({ length: 60 }, (_, n): TaskOf => ({
    id: `task-${String(n).padStart(2, '0')}`,
    owner: owners[n % 3],
    status: LISTED_STATUSES[n % 6] as ListedStatus,
    name: n % 4 < 2 ? 'report' : 'import',
    createdAt: 1000 + Math.floor(n / 3),
  }))
  // Not in the order of their creation.
  for (let n = 0; n < tasks.length; n++) await context.put(tasks[(n * 7) % 60] as TaskOf)
  return tasks
}

const idsOf = (tasks: readonly TaskOf[]): string[] => tasks.map(({ id }) => id)

/** Tests of pages. */
export const listCases: Cases<Context> = {
  'a listed task has all its members': async (context) => {
    await context.put({ id: 'one', owner: 'ann', name: 'report', status: 'failed', createdAt: 1_700_000_000_123 })
    const expected = { id: 'one', owner: 'ann', name: 'report', status: 'failed', createdAt: 1_700_000_000_123 }
    for (const of of ['all', { owner: 'ann' }] as const) {
      assert.deepEqual(await context.entries({ of }), [expected])
    }
    assert.deepEqual(await context.entries({ of: { owner: 'bob' } }), [])
  },

  'tasks are listed newest first or oldest first, and by id within a millisecond': async (context) => {
    const tasks = await putMixture(context)
    const ids = idsOf(tasks)
    assert.deepEqual(await context.ids({ order: 'oldest' }), ids)
    assert.deepEqual(await context.ids({ order: 'newest' }), ids.toReversed())
    assert.deepEqual(await context.ids({ order: 'newest', limit: 4 }), ids.slice(-4).reverse())
  },

  'the tasks of one owner, of no owner and of all owners are three lists': async (context) => {
    const tasks = await putMixture(context)
    for (const owner of ['ann', 'bob', undefined]) {
      const own = idsOf(tasks.filter((task) => task.owner === owner))
      assert.deepEqual(await context.ids({ of: { owner }, order: 'oldest' }), own)
    }
    assert.equal((await context.ids({ of: 'all' })).length, 60)
    assert.deepEqual(await context.ids({ of: { owner: 'all' } }), [])
  },

  'owners are any text': async (context) => {
    const owners = ['a:b', '{x}', 'a b\nc', 'all', '=', 'é', '😀', '*', 'ann ', "'--"]
    for (const [n, owner] of owners.entries()) await context.put({ id: `task-${String(n)}`, owner })
    for (const [n, owner] of owners.entries()) {
      const [entry, other] = await context.entries({ of: { owner } })
      assert.deepEqual([entry?.id, entry?.owner, other], [`task-${String(n)}`, owner, undefined])
    }
    const all = await context.entries({ of: 'all', order: 'oldest' })
    assert.deepEqual(all.map(({ owner }) => owner), owners)
  },

  'a filter names one or several statuses, and one or several names': async (context) => {
    const tasks = await putMixture(context)
    const statusSets: (readonly ListedStatus[] | undefined)[] = [
      undefined, ['failed'], ['queued', 'scheduled'], ['completed', 'failed', 'cancelled'],
    ]
    for (const statuses of statusSets) {
      for (const names of [undefined, ['report'], ['import'], ['import', 'report'], ['unknown']]) {
        for (const of of ['all', { owner: 'ann' }, { owner: undefined }] as const) {
          const matching = tasks.filter(({ status = 'queued', name = '', owner }) => (
            (!statuses || statuses.includes(status)) && (!names || names.includes(name))
            && (of === 'all' || of.owner === owner)
          ))
          const ids = await context.ids({ of, statuses, names, order: 'oldest' })
          assert.deepEqual(ids, idsOf(matching), JSON.stringify({ of, statuses, names }))
        }
      }
    }
  },

  '`from` is included and `to` is not': async (context) => {
    const tasks = await putMixture(context)
    for (const order of ['newest', 'oldest'] as const) {
      for (const [from, to] of [[1005, 1008], [1005, undefined], [undefined, 1008], [1008, 1005]] as const) {
        const matching = idsOf(tasks.filter(({ createdAt = 0 }) => (
          createdAt >= (from ?? 0) && createdAt < (to ?? Infinity)
        )))
        const expected = order === 'oldest' ? matching : matching.toReversed()
        assert.deepEqual(await context.ids({ from, to, order }), expected)
      }
    }
  },

  'pages follow one another, also within a millisecond and within times': async (context) => {
    const tasks = await putMixture(context)
    for (const order of ['newest', 'oldest'] as const) {
      for (const limit of [1, 2, 7, 60]) {
        const ids = await context.pages({ order, limit }, async () => undefined)
        const expected = idsOf(tasks)
        assert.deepEqual(ids, order === 'oldest' ? expected : expected.reverse())
      }
      const some = await context.pages({ order, limit: 2, from: 1005, to: 1008 }, async () => undefined)
      assert.deepEqual(some.sort(), idsOf(tasks.slice(15, 24)))
    }
  },

  'a page continues after a task that is no longer there': async (context) => {
    const tasks = await putMixture(context)
    const [first] = await context.entries({ order: 'oldest', limit: 1 })
    assert.ok(first)
    await context.index.drop([first])
    assert.deepEqual(await context.ids({ order: 'oldest', after: first, limit: 3 }), idsOf(tasks.slice(1, 4)))
    const after = { createdAt: 1001, id: 'task-04x' }
    assert.deepEqual(await context.ids({ order: 'oldest', after, limit: 2 }), ['task-05', 'task-06'])
    assert.deepEqual(await context.ids({ order: 'newest', after, limit: 2 }), ['task-04', 'task-03'])
  },

  'a thousand tasks of one millisecond are listed in pages': async (context) => {
    const ids = Array.from({ length: 1000 }, (_, n) => `task-${String(n).padStart(3, '0')}`)
    await Promise.all(ids.map((id) => context.put({ id })))
    assert.deepEqual(await context.pages({ order: 'oldest', limit: 90 }, async () => undefined), ids)
  },
}
