import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { callbacks } from '../../../src/callbacks/index.js'
import { createTasks, defineTask, type Tasks } from '../../../src/index.js'
import type { StoredTask, TaskQuery } from '../../../src/engine/index.js'
import { operatorEndpoints } from '../../../src/operators/index.js'
import { inject } from '../../../src/testing/index.js'
import { eventually } from '../../kit/wait.js'

const report = defineTask({ name: 'report', run: () => ({ message: 'done', text: 'secret' }) })
const mail = defineTask({ name: 'mail', run: () => new Promise(() => undefined) })
const root = { path: '/admin/overview', context: { user: { name: 'root' } } }
const overviewOf = (tasks: Tasks) =>
  operatorEndpoints(tasks, {
    statusPath: '/admin/tasks/{id}',
    operator: ({ context }) => context.user?.name === 'root',
  }).overview

function setUp(t: TestContext, status: number) {
  const parts = memory({ maxUnfinished: 2000 })
  const tasks = createTasks({
    ...parts,
    definitions: [report, mail],
    concurrency: 1,
    onError: () => undefined,
    callbacks: callbacks({
      secrets: () => ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
      attempts: 1,
      sender: { check: () => undefined, send: async () => ({ status }) },
    }),
  })
  t.after(() => tasks.close({ drainMs: 0 }))
  return { tasks, overview: overviewOf(tasks), engine: parts.engine }
}

interface Task {
  taskId: string
  owner?: string
  task: string
  createdAt: string
  callback?: { state: string; lastStatus: number }
}
interface Overview {
  counts: Record<string, { count: number, more: boolean }>
  oldestQueued?: Task & { pool: string }
  callbacks: { examined: number, failed: Task[] }
}

describe('the overview of operators', () => {
  test('counts tasks of all owners by status, and names the oldest waiting task and the failed callbacks', async (t) => {
    const { tasks, overview } = setUp(t, 500)
    const ask = async () => (await inject(overview, root)).json<Overview>()
    const none = { count: 0, more: false }
    assert.deepEqual(await ask(), {
      counts: {
        scheduled: none,
        queued: none,
        processing: none,
        input_required: none,
        completed: none,
        failed: none,
        cancelled: none,
      },
      callbacks: { examined: 0, failed: [] },
    })
    const done = await tasks.ownedBy('ann').submit(report, {}, { callbackUrl: 'https://example.com/' })
    await eventually(async () => (await done.get())?.callback?.state === 'failed')
    await (await tasks.submit(report, {})).wait({ timeoutMs: 60_000 })
    const running = await tasks.submit(mail, {})
    await eventually(async () => (await running.get())?.status === 'processing')
    const oldest = await tasks.ownedBy('bob').submit(mail, {})
    // Tasks of one millisecond are ordered by id. The engine has a clock of its own.
    const before = Date.now()
    await eventually(() => Date.now() > before + 1)
    await tasks.ownedBy('ann').submit(mail, {})
    await tasks.ownedBy('ann').submit(mail, {}, { delayMs: 3_600_000 })
    await (await tasks.submit(mail, {})).cancel()
    const one = { count: 1, more: false }
    await eventually(async () => (await ask()).counts['processing']?.count === 1)
    const { counts, oldestQueued, callbacks: { examined, failed } } = await ask()
    assert.deepEqual(counts, {
      scheduled: one,
      queued: { count: 2, more: false },
      processing: one,
      input_required: none,
      completed: { count: 2, more: false },
      failed: none,
      cancelled: one,
    })
    assert.deepEqual(
      [oldestQueued?.taskId, oldestQueued?.owner, oldestQueued?.task, oldestQueued?.pool],
      [oldest.taskId, 'bob', 'mail', 'default'],
    )
    assert.equal(examined, 3)
    assert.deepEqual(
      failed.map(({ taskId, owner, callback }) => [taskId, owner, callback?.state, callback?.lastStatus]),
      [[done.taskId, 'ann', 'failed', 500]],
    )
    assert.ok(!JSON.stringify(failed).includes('secret'), 'results are not shown')
  })

  test('names the pool of the task that has waited longest, even if this process does not know the pool', async (t) => {
    const parts = memory()
    const open = (pool: string | undefined, worker: boolean) => {
      const work = defineTask({
        name: 'video',
        ...(pool !== undefined && { pool }),
        run: () => new Promise(() => undefined),
      })
      const tasks = createTasks({
        ...parts,
        definitions: [work],
        worker,
        ...(pool !== undefined && { pools: { [pool]: { concurrency: 1 } } }),
      })
      t.after(() => tasks.close({ drainMs: 0 }))
      return { tasks, work }
    }
    const old = open('removed', true)
    const running = await old.tasks.submit(old.work, {})
    await eventually(async () => (await running.get())?.status === 'processing')
    const waiting = await old.tasks.submit(old.work, {})
    const response = await inject(overviewOf(open(undefined, false).tasks), root)
    const { oldestQueued } = await response.json<Overview>()
    assert.deepEqual([oldestQueued?.taskId, oldestQueued?.pool], [waiting.taskId, 'removed'])
  })

  test('stops counting at 1000', async (t) => {
    const { tasks, overview } = setUp(t, 200)
    for (let n = 0; n < 1001; n++) await tasks.submit(mail, {}, { delayMs: 3_600_000 })
    const { counts } = await (await inject(overview, root)).json<Overview>()
    assert.deepEqual(counts['scheduled'], { count: 1000, more: true })
  })

  test('reads no results, however large they are, and counts without details', async (t) => {
    const { tasks, overview, engine } = setUp(t, 200)
    for (let n = 0; n < 3; n++) await (await tasks.submit(report, {})).wait({ timeoutMs: 60_000 })
    await tasks.submit(report, {}, { delayMs: 3_600_000, context: { note: 'for later' } })
    const pages: { query: TaskQuery, tasks: readonly StoredTask[] }[] = []
    const list = engine.list.bind(engine)
    t.mock.method(engine, 'list', async (query: TaskQuery) => {
      const tasks = await list(query)
      pages.push({ query, tasks })
      return tasks
    })
    assert.equal((await inject(overview, root)).status, 200)
    assert.equal(pages.length, 9)
    for (const { query: { limit, order }, tasks } of pages) {
      assert.deepEqual(tasks.map(({ result }) => result).filter(Boolean), [])
      assert.ok(limit <= 1000, 'the maximum of the contract')
      if (limit > 64 && order === 'oldest')
        assert.deepEqual(
          tasks.filter(({ details }) => Object.keys(details).length > 0),
          [],
        )
      if (order === 'newest') assert.ok(limit <= 64)
    }
  })

  test('counts 1000 tasks exactly, and examines the callbacks of 200', async (t) => {
    const { tasks, overview } = setUp(t, 500)
    const later = []
    for (let n = 0; n < 1000; n++) later.push(await tasks.submit(mail, {}, { delayMs: 3_600_000 }))
    const ask = async () => (await inject(overview, root)).json<Overview>()
    assert.deepEqual((await ask()).counts['scheduled'], { count: 1000, more: false })
    for (const { cancel } of later.slice(0, 201)) await cancel()
    const { counts, callbacks: { examined } } = await ask()
    assert.deepEqual(
      [counts['cancelled'], counts['scheduled'], examined],
      [{ count: 201, more: false }, { count: 799, more: false }, 200],
    )
  })

  test('responds to operators with GET and HEAD only, and is not stored', async (t) => {
    const { overview } = setUp(t, 200)
    const refused = await inject(overview, { ...root, context: { user: { name: 'ann' } } })
    assert.deepEqual([refused.status, 'counts' in await refused.json<object>()], [403, false])
    assert.equal((await inject(overview, { ...root, method: 'DELETE' })).status, 404)
    assert.equal((await inject(overview, { ...root, headers: { accept: 'text/html' } })).status, 406)
    const head = await inject(overview, { ...root, method: 'HEAD' })
    assert.deepEqual([head.status, head.headers['cache-control']], [200, 'no-store'])
  })
})
