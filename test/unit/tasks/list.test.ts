import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import type { TaskQuery } from '../../../src/engine/engine.js'
import { createTasks, defineTask } from '../../../src/index.js'
import type { ListOptions } from '../../../src/tasks/lists.js'
import { testClock } from '../../../src/testing/index.js'

const report = defineTask({ name: 'report', run: ({ fails }: { fails?: boolean }) => {
  if (fails) throw new Error('it failed')
  return { message: 'done' }
} })
const mail = defineTask({ name: 'mail', run: () => ({ message: 'sent' }) })

function setUp(t: TestContext) {
  const parts = memory()
  const tasks = createTasks({ ...parts, definitions: [report, mail], onError: () => undefined })
  t.after(() => tasks.close({ drainMs: 0 }))
  const submit = async (owner: string | undefined, input: { fails?: boolean } = {}) => {
    const task = await tasks.ownedBy(owner).submit(report, input)
    await task.wait({ timeoutMs: 60_000 })
    return task.taskId
  }
  return { ...parts, tasks, submit }
}

const isInvalidCursor = {
  status: 400, code: 'invalid_cursor', message: 'The cursor is malformed, or belongs to a list with other options.',
}

describe('tasks.list', () => {
  test('shows an owner their own tasks, an anonymous client the tasks without an owner, and the application all tasks', async (t) => {
    const { tasks, submit } = setUp(t)
    const [ann, bob, nobody] = [await submit('ann'), await submit('bob'), await submit(undefined)]
    const own = await tasks.submit(report, {})
    await own.wait({ timeoutMs: 60_000 })
    const idsOf = async (owner: string | undefined) =>
      (await tasks.ownedBy(owner).list()).items.map(({ taskId }) => taskId)
    assert.deepEqual(await idsOf('ann'), [ann])
    assert.deepEqual(await idsOf('bob'), [bob])
    assert.deepEqual(new Set(await idsOf(undefined)), new Set([nobody, own.taskId]))
    assert.deepEqual(await idsOf('carl'), [])
    const all = await tasks.list({ order: 'oldest' })
    assert.deepEqual(new Set(all.items.map(({ taskId }) => taskId)), new Set([ann, bob, nobody, own.taskId]))
    assert.equal('next' in all, false)
  })

  test('ends a page of tasks with long results early, and reads few more tasks than the page has', async (t) => {
    const long = defineTask({ name: 'long', run: () => ({ text: 'x'.repeat(100_000) }) })
    const { engine, ...rest } = memory()
    let read = 0
    const { list } = engine
    t.mock.method(engine, 'list', async (query: TaskQuery) => {
      const page = await list.call(engine, query)
      read += page.length
      return page
    })
    const tasks = createTasks({ engine, ...rest, definitions: [long] })
    t.after(() => tasks.close({ drainMs: 0 }))
    const ids = new Set<string>()
    for (let n = 0; n < 90; n++) {
      const task = await tasks.submit(long, {})
      await task.wait({ timeoutMs: 60_000 })
      ids.add(task.taskId)
    }
    const first = await tasks.list({ limit: 200 })
    assert.equal(read, 64)
    assert.equal(first.items.length, 41)
    const seen = [...first.items]
    for (let { next } = first; next !== undefined;) {
      const page = await tasks.list({ limit: 200, cursor: next })
      seen.push(...page.items)
      next = page.next
    }
    assert.equal(seen.length, 90)
    assert.deepEqual(new Set(seen.map(({ taskId }) => taskId)), ids)
  })

  test('filters by status, definition and time, and has the same properties as `get`', async (t) => {
    const { tasks, submit } = setUp(t)
    const good = await submit('ann')
    const bad = await submit('ann', { fails: true })
    const later = await tasks.ownedBy('ann').submit(mail, {}, { delayMs: 3_600_000 })
    const idsOf = async (options: ListOptions<typeof report | typeof mail>) => (
      (await tasks.ownedBy('ann').list(options)).items.map(({ taskId }) => taskId)
    )
    assert.deepEqual(await idsOf({ status: 'completed' }), [good])
    assert.deepEqual(await idsOf({ status: 'failed' }), [bad])
    assert.deepEqual(await idsOf({ status: 'scheduled' }), [later.taskId])
    assert.deepEqual(await idsOf({ status: ['queued', 'processing'] }), [])
    assert.deepEqual(await idsOf({ task: mail }), [later.taskId])
    assert.deepEqual(await idsOf({ task: [mail, mail], status: ['scheduled', 'scheduled'] }), [later.taskId])
    assert.deepEqual(new Set(await idsOf({ task: [mail, report] })), new Set([good, bad, later.taskId]))
    assert.deepEqual(await idsOf({ from: new Date(Date.now() + 1000) }), [])
    assert.deepEqual(await idsOf({ to: new Date(Date.now() - 60_000) }), [])
    assert.deepEqual((await tasks.ownedBy('ann').list({ status: 'failed' })).items, [await tasks.get(bad)])
  })

  test('has pages of `limit` items and a cursor, except the last one', async (t) => {
    const { tasks } = setUp(t)
    const ids: string[] = []
    for (let n = 0; n < 10; n++)
      ids.push((await tasks.ownedBy('ann').submit(mail, {}, { id: `task-${String(n)}` })).taskId)
    const seen: string[] = []
    const sizes: number[] = []
    for (let cursor: string | undefined; ;) {
      const { items, next } = await tasks.ownedBy('ann').list({ limit: 5, order: 'oldest', cursor })
      seen.push(...items.map(({ taskId }) => taskId))
      sizes.push(items.length)
      if (next === undefined) break
      cursor = next
    }
    assert.deepEqual([seen, sizes], [ids, [5, 5]])
  })

  test('rejects a cursor of another owner, filter or order', async (t) => {
    const { tasks, submit } = setUp(t)
    for (let n = 0; n < 3; n++) await submit('ann')
    await submit('bob')
    const options = { limit: 1, status: ['completed', 'failed'] } as const
    const { next = '' } = await tasks.ownedBy('ann').list(options)
    assert.equal((await tasks.ownedBy('ann').list({ ...options, limit: 2, cursor: next })).items.length, 2)
    assert.equal((await tasks.ownedBy('ann').list({ status: ['failed', 'completed'], cursor: next })).items.length, 2)
    await assert.rejects(tasks.ownedBy('bob').list({ ...options, cursor: next }), isInvalidCursor)
    await assert.rejects(tasks.ownedBy(undefined).list({ ...options, cursor: next }), isInvalidCursor)
    await assert.rejects(tasks.list({ ...options, cursor: next }), isInvalidCursor)
    for (const other of [
      { status: 'completed' },
      { order: 'oldest' },
      { task: report },
      { from: new Date(0) },
      { to: new Date(1) },
    ] as const) {
      await assert.rejects(tasks.ownedBy('ann').list({ ...options, ...other, cursor: next }), isInvalidCursor)
    }
    const changed = next.slice(0, -1) + (next.endsWith('A') ? 'B' : 'A')
    for (const cursor of [
      '',
      'x',
      '%',
      `${next}A`,
      ` ${next}`,
      changed,
      next.slice(0, 16),
      'A'.repeat(100_000),
      '\u0000é😀',
    ]) {
      await assert.rejects(tasks.ownedBy('ann').list({ ...options, cursor }), isInvalidCursor)
    }
  })

  test('rejects invalid options', async (t) => {
    const { tasks } = setUp(t)
    const stranger = defineTask({ name: 'report', run: () => 1 })
    const wrong: [object, RegExp][] = [
      [{ state: 'failed' }, /list: there is no option "state"/],
      [{ status: 'done' }, /status must be one or several of scheduled, queued/],
      [{ status: [] }, /status must be/],
      [{ task: [] }, /task must be a definition/],
      [{ task: stranger }, /report is not among the definitions of createTasks/],
      [{ task: 'report' }, /pass a definition/],
      [{ order: 'asc' }, /order must be 'newest' or 'oldest'/],
      [{ limit: 0 }, /limit must be a whole number from 1 to 200/],
      [{ limit: 201 }, /limit must be/],
      [{ limit: '5' }, /limit must be/],
      [{ from: 5 }, /from must be a valid Date/],
      [{ to: new Date(Number.NaN) }, /to must be a valid Date/],
      [{ cursor: 5 }, /cursor must be a string/],
    ]
    for (const [options, message] of wrong) {
      await assert.rejects(tasks.ownedBy('ann').list(options), message)
      await assert.rejects(tasks.list(options), TypeError)
    }
    await assert.rejects(tasks.list({ owner: undefined } as never), /write tasks\.ownedBy\(owner\)\.list/)
  })

  test('does not list a task that was deleted, or has expired', async (t) => {
    const clock = testClock()
    const brief = defineTask({ name: 'brief', retentionMs: 5000, run: () => 1 })
    const tasks = createTasks({ ...memory({ clock }), definitions: [brief, report] })
    t.after(() => tasks.close({ drainMs: 0 }))
    const ids: string[] = []
    for (const definition of [report, brief, report] as const) {
      const task = await tasks.ownedBy('ann').submit(definition as typeof report, {})
      await task.wait({ timeoutMs: 60_000 })
      ids.push(task.taskId)
    }
    assert.equal(await tasks.delete(ids[0] as string), true)
    await clock.advance(6000)
    const { items, next } = await tasks.ownedBy('ann').list({ limit: 1, order: 'oldest' })
    assert.deepEqual([items.map(({ taskId }) => taskId), next], [[ids[2]], undefined])
  })

  test('shows a retried task under its new status', async (t) => {
    const { tasks, submit } = setUp(t)
    const id = await submit('ann', { fails: true })
    await tasks.retry(id)
    await tasks.wait(id, { timeoutMs: 60_000 })
    const { items } = await tasks.ownedBy('ann').list({ status: 'failed' })
    assert.deepEqual(items.map(({ taskId, attempts }) => [taskId, attempts?.length]), [[id, 2]])
  })
})
