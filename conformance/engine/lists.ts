import assert from 'node:assert/strict'
import { LISTED_STATUSES as STATUSES, type ListedStatus, type TaskQuery } from '../../src/engine/engine.js'
import type { StoredTask } from '../../src/engine/task.js'
import type { Cases } from '../runner.js'
import { together } from '../wait.js'
import { HOUR, untilOpened, type EngineContext } from './context.js'

const OWNERS = ['ann', 'bob', undefined]
/** The caller of each owner's tasks: two of one tenant, and one in no tenant. */
const CALLERS = ['tenant acme', 'owner bob', 'tenant acme']
const NAMES = ['report', 'import']
const pool = 'nobody'

const idsOf = (tasks: readonly StoredTask[]): string[] => tasks.map(({ id }) => id)

function listedStatus({ status, startAt, attempt }: StoredTask): ListedStatus {
  return status === 'queued' && attempt === 0 && startAt !== undefined ? 'scheduled' : status
}

/**
 * Creates 56 tasks of two owners and of no owner, in all statuses and of two names. Returns them in
 * their order, oldest first.
 */
async function mixture(context: EngineContext): Promise<StoredTask[]> {
  const worker = context.work({ places: { default: 16 }, run: untilOpened })
  await together(56, async (n) => {
    const status = STATUSES[n % 7] as ListedStatus
    const runs = status === 'processing' || status === 'input_required'
    const task = await context.created({
      id: `task-${String((n * 5) % 56).padStart(2, '0')}`,
      owner: OWNERS[Math.floor(n / 7) % 3], caller: CALLERS[Math.floor(n / 7) % 3],
      name: NAMES[Math.floor(n / 21) % 2] as string,
      pool: runs ? 'default' : pool,
      ...status === 'scheduled' && { start: { delayMs: HOUR } },
    })
    const begun = runs ? await worker.ran(task.id) : undefined
    if (status === 'input_required') await begun?.end({ status, delayMs: HOUR })
    if (status === 'completed' || status === 'failed' || status === 'cancelled') {
      await context.changed(task, { version: 1 }, { status })
    }
  })
  const ids = Array.from({ length: 56 }, (_, n) => `task-${String(n).padStart(2, '0')}`)
  const tasks = await Promise.all(ids.map((id) => context.stored(id)))
  return tasks.sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))
}

/** Reads all pages of a query. Calls `between` after each. */
async function pages(
  context: EngineContext, query: Partial<TaskQuery>, between?: () => Promise<void>,
): Promise<string[]> {
  const ids: string[] = []
  const { engine } = await context.open()
  for (let after: StoredTask | undefined; ;) {
    const page = await context.listed({ limit: 7, ...query, after }, engine)
    if (page.length === 0) return ids
    ids.push(...idsOf(page))
    assert.ok(ids.length <= 500, 'the pages do not end')
    after = page.at(-1)
    await between?.()
  }
}

/** Tests of `list`. */
export const listCases: Cases<EngineContext> = {
  'the filters select complete tasks by owner, tenant, status and name': async (context) => {
    const { engine } = await context.open()
    const tasks = await mixture(context)
    const owners = ['all', ...[...OWNERS, 'all', 'nobody'].map((owner) => ({ owner })),
      { caller: 'tenant acme' }, { caller: 'tenant nobody' }] as const
    const statusSets: (readonly ListedStatus[] | undefined)[] = [
      undefined, ...STATUSES.map((status) => [status]), ['queued', 'scheduled'],
      ['completed', 'failed', 'cancelled'], [...STATUSES],
    ]
    for (const of of owners) {
      for (const statuses of statusSets) {
        for (const names of [undefined, ['report'], ['import', 'report'], ['unknown']]) {
          const matching = tasks.filter((task) => (
            (of === 'all' || ('caller' in of ? of.caller === task.caller : of.owner === task.owner)) && (!names || names.includes(task.name))
            && (!statuses || statuses.includes(listedStatus(task)))
          ))
          const query = { of, statuses, names }
          assert.deepEqual(await context.listed(query, engine), matching, JSON.stringify(query))
        }
      }
    }
  },

  'a list leaves out details and results on request': async (context) => {
    const created = await context.created({ id: 'one', pool, details: { context: 'a' } })
    const task = await context.changed(created, { version: 1 }, { status: 'completed', result: '{"b":1}' })
    const { details: _, result: __, ...rest } = task
    const one = async (omit: TaskQuery['omit']) => (await context.listed({ omit }))[0]
    assert.deepEqual(await one([]), task)
    assert.deepEqual(await one(['result']), { ...task, result: undefined })
    assert.deepEqual(await one(['details']), { ...task, details: {} })
    assert.deepEqual(await one(['details', 'result']), { ...rest, details: {}, result: undefined })
    assert.deepEqual(await context.stored('one'), task)
  },

  'a list includes tasks created at `from`, and excludes those created at `to`': async (context) => {
    const tasks = await mixture(context)
    const [early = 0, late = 0] = [tasks[12]?.createdAt, tasks[36]?.createdAt]
    for (const order of ['newest', 'oldest'] as const) {
      const spans = [[early, late], [early, undefined], [undefined, late], [late + 1, early], [late, late + 1]] as const
      for (const [from, to] of spans) {
        const matching = idsOf(tasks.filter(({ createdAt }) => (
          createdAt >= (from ?? 0) && createdAt < (to ?? Infinity)
        )))
        const expected = order === 'oldest' ? matching : matching.toReversed()
        assert.deepEqual(await context.ids({ from, to, order }), expected)
      }
    }
  },

  'each page continues after the page before it, with every filter': async (context) => {
    const tasks = await mixture(context)
    const queries: { query: Partial<TaskQuery>, is: (task: StoredTask) => boolean }[] = [
      { query: {}, is: () => true },
      { query: { of: { owner: 'ann' } }, is: ({ owner }) => owner === 'ann' },
      { query: { of: { caller: 'tenant acme' } }, is: ({ caller }) => caller === 'tenant acme' },
      { query: { statuses: ['failed', 'queued'] }, is: (task) => ['failed', 'queued'].includes(listedStatus(task)) },
      { query: { names: ['import'] }, is: ({ name }) => name === 'import' },
      { query: { from: tasks[9]?.createdAt }, is: ({ createdAt }) => createdAt >= (tasks[9]?.createdAt ?? 0) },
    ]
    for (const { query, is } of queries) {
      const expected = idsOf(tasks.filter(is))
      for (const limit of [1, 7, 48]) {
        assert.deepEqual(await pages(context, { ...query, order: 'oldest', limit }), expected)
        assert.deepEqual(await pages(context, { ...query, order: 'newest', limit }), expected.toReversed())
      }
    }
  },

  'a page continues after a task that was deleted': async (context) => {
    const tasks = await together(6, (n) => context.created({ id: `task-${String(n)}`, pool }))
    tasks.sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))
    const third = tasks[2] as StoredTask
    await context.changed(third, { version: 1 }, { status: 'cancelled' })
    await context.engine.delete(third, 2)
    assert.deepEqual(await context.ids({ after: third, limit: 2 }), idsOf(tasks.slice(3, 5)))
    assert.deepEqual(await context.ids({ after: third, order: 'newest' }), idsOf(tasks.slice(0, 2)).reverse())
    const after = { createdAt: third.createdAt, id: `${third.id}x` }
    const later = tasks.filter((task) => (
      task.createdAt > after.createdAt || (task.createdAt === after.createdAt && task.id > after.id)
    ))
    assert.deepEqual(await context.ids({ after }), idsOf(later))
  },

  'tasks of one millisecond are ordered by the code units of their ids': async (context) => {
    const ids = ['b', 'A', 'a', 'B', '-', '_', '.', '1', '10', '2', 'Z', 'z']
    const tasks = await together(ids.length, (n) => context.created({ id: ids[n] as string, pool }))
    tasks.sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))
    assert.deepEqual(await context.ids(), idsOf(tasks))
    assert.deepEqual(await pages(context, { limit: 1, order: 'newest' }), idsOf(tasks).reverse())
  },

  'owners and names may be any text': async (context) => {
    const texts = ['a:b', '{x}', 'a b\nc', 'all', '=', 'é', '😀', '*', 'ann ', "'--", '%', 'A', 'a']
    for (const [n, owner] of texts.entries()) {
      await context.created({ id: `task-${String(n)}`, owner, name: owner, pool })
    }
    for (const [n, owner] of texts.entries()) {
      const expected = [`task-${String(n)}`]
      assert.deepEqual(await context.ids({ of: { owner } }), expected)
      assert.deepEqual(await context.ids({ names: [owner], statuses: ['queued'] }), expected)
    }
    const all = await context.listed()
    assert.deepEqual(all.map(({ owner }) => owner).sort(), texts.toSorted())
  },

  'tenants and their owners may be any text': async (context) => {
    const texts = ['a:b', '{x}', 'a b\nc', 'a\rb', 'é', '😀', '*', 'ann ', "'--", '%', 'A', 'a', 'tenant a', 'a tenant a']
    for (const [n, text] of texts.entries()) {
      const id = `task-${String(n)}`
      await context.created({ id, owner: `${text}\u001Fann`, caller: `tenant ${text}`, pool })
      await context.created({ id: `${id}-none`, owner: text, caller: `owner ${text}`, name: `report\rtenant ${text}`, pool })
    }
    for (const [n, text] of texts.entries()) {
      assert.deepEqual(await context.ids({ of: { caller: `tenant ${text}` } }), [`task-${String(n)}`])
      assert.deepEqual(await context.ids({ of: { owner: `${text}\u001Fann` } }), [`task-${String(n)}`])
      assert.deepEqual(await context.ids({ of: { owner: text } }), [`task-${String(n)}-none`])
    }
  },

  'a scheduled task is queued once its time has come': async (context) => {
    const task = await context.created({ id: 'one', pool, start: { delayMs: context.windowMs } })
    assert.deepEqual(await context.ids({ statuses: ['scheduled'] }), ['one'])
    assert.deepEqual(await context.ids({ statuses: ['queued'] }), [])
    await context.past(task.startAt ?? 0)
    assert.deepEqual(await context.ids({ statuses: ['scheduled'] }), [])
    assert.deepEqual(await context.ids({ statuses: ['queued'] }), ['one'])
  },

  'every process lists a created, changed or deleted task correctly at once': async (context) => {
    const other = (await context.open()).engine
    for (let n = 0; n < 10; n++) {
      const task = await context.created({
        id: 'one', owner: 'ann', caller: 'tenant acme', pool, details: { n },
      })
      for (const of of [{ owner: 'ann' }, { caller: 'tenant acme' }]) {
        assert.deepEqual(await context.listed({ of }, other), [task])
      }
      const failed = await context.changed(task, { version: 1 }, { status: 'failed' }, other)
      assert.deepEqual(await context.listed({ statuses: ['failed'] }), [failed])
      await context.engine.delete(task, 2)
      assert.deepEqual(await context.listed({}, other), [])
      assert.deepEqual(await context.listed({ of: { caller: 'tenant acme' } }, other), [])
    }
  },

  'no task is skipped or repeated while others are created, changed and deleted': async (context) => {
    const stable: StoredTask[] = []
    for (let n = 0; n < 40; n++) {
      stable.push(await context.created({ id: `task-${String(n).padStart(2, '0')}`, owner: 'ann', pool }))
    }
    for (const order of ['newest', 'oldest'] as const) {
      let round = 0
      const seen = await pages(context, { order, of: { owner: 'ann' } }, async () => {
        round++
        if (order === 'oldest' && round > 12) return
        const other = await context.created({ id: `other-${order}-${String(round)}`, owner: 'ann', pool })
        if (round % 2 === 0) {
          await context.changed(other, { version: 1 }, { status: 'failed' })
          await context.engine.delete(other, 2)
        }
        // A task that was or will be read changes its status.
        const { id } = stable[(round * 17) % 40] as StoredTask
        const task = await context.stored(id)
        const status = task.status === 'queued' ? 'failed' : 'queued'
        await context.changed(task, { version: task.version }, { status })
      })
      assert.equal(new Set(seen).size, seen.length, 'a task was listed twice')
      const ids = seen.filter((id) => id.startsWith('task-')).sort()
      assert.deepEqual(ids, idsOf(stable), 'a task was skipped')
    }
  },

  'a page that is read during changes of the status of a task contains it once': async (context) => {
    const other = (await context.open()).engine
    const task = await context.created({ id: 'one', owner: 'ann', pool })
    let isChanging = true
    const changes = (async () => {
      for (let version = 1; version <= 60; version++) {
        await context.changed(task, { version }, { status: version % 2 === 0 ? 'queued' : 'failed' }, other)
      }
    })().finally(() => { isChanging = false })
    while (isChanging) {
      assert.deepEqual(await context.ids({ of: { owner: 'ann' } }), ['one'])
      assert.deepEqual(await context.ids({ statuses: ['queued', 'failed'] }), ['one'])
      await new Promise((resolve) => setImmediate(resolve))
    }
    await changes
  },
}
