// Operators cancel and delete the tasks of a filter. `operators.test.ts` has the retry, which works the same way.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { createTasks, defineTask, router } from '../../../src/index.js'
import { cancelTasks, forgetTasks, operatorEndpoints } from '../../../src/operators/index.js'
import { inject } from '../../../src/testing/index.js'
import { openDatabase } from '../../servers/open-database.js'
import { sqliteUrl } from '../../servers/sqlite.js'

const ENGINES = { memory: async () => undefined, SQLite: sqliteUrl }
let names = 0

function setUp(t: TestContext, url: string | undefined) {
  const { parts, close } = openDatabase(url, { name: `many_${String(++names)}` })
  const stopped: string[] = []
  const slow = defineTask({
    name: 'slow', cancel: (workId) => { stopped.push(workId) }, run: () => new Promise(() => undefined),
  })
  const fast = defineTask({
    name: 'fast',
    run: ({ fails }: { fails?: boolean }) => { if (fails === true) throw new Error('It fails') },
  })
  const [cancels, forgets] = [cancelTasks({ pool: 'operators' }), forgetTasks({ pool: 'operators' })]
  const tasks = createTasks({
    ...parts, definitions: [slow, fast, cancels, forgets], pools: { operators: {} },
    concurrency: 2, onError: () => undefined,
  })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await close()
  })
  const operators = operatorEndpoints(tasks, {
    statusPath: '/admin/tasks/{id}', operator: ({ context }) => context.user?.role === 'admin', cancels, forgets,
  })
  const site = router<{ user?: unknown }>({
    'POST /admin/tasks/cancel': operators.cancelMany, 'POST /admin/tasks/forget': operators.forgetMany,
  })
  const post = (path: string, role = 'admin') => inject(site, { method: 'POST', path: `/admin/tasks/${path}`, context: { user: { role } } })
  const change = async (path: string): Promise<unknown> => {
    const response = await post(path)
    const { status, headers } = response
    assert.equal(status, 202, await response.text())
    const task = await tasks.wait(String(headers['location']).split('/').at(-1) ?? '', { timeoutMs: 20_000 })
    return task?.status === 'completed' ? task.result : task
  }
  return { tasks, operators, slow, fast, cancels, forgets, stopped, post, change }
}

for (const [name, open] of Object.entries(ENGINES)) {
  describe(`operators on ${name}`, () => {
    test('cancel the unfinished tasks of a filter: running, queued and scheduled ones', async (t) => {
      const { tasks, slow, change, stopped } = setUp(t, await open())
      const ann = tasks.ownedBy('ann')
      const handles = [await ann.submit(slow, {}), await ann.submit(slow, {}), await ann.submit(slow, {})]
      handles.push(await ann.submit(slow, {}, { delayMs: 3_600_000 }))
      const bob = await tasks.ownedBy('bob').submit(slow, {})
      assert.deepEqual(await change('cancel?owner=ann&task=fast'), { cancelled: 0, failed: 0, failures: [] })
      assert.deepEqual(await change('cancel?owner=ann&status=processing&task=slow'), { cancelled: 4, failed: 0, failures: [] })
      const ends = await Promise.all(handles.map(async (each) => (await each.get())?.status))
      assert.deepEqual([ends, (await bob.get())?.finishedAt], [Array(4).fill('cancelled'), undefined])
      assert.deepEqual([stopped.length >= 1, await change('cancel?owner=ann')], [true, { cancelled: 0, failed: 0, failures: [] }])
    })

    test('delete more final tasks of a filter than a page has, and no others', async (t) => {
      const { tasks, fast, slow, change, cancels } = setUp(t, await open())
      const handles = await Promise.all(Array.from({ length: 150 }, (_, n) => tasks.ownedBy('ann').submit(fast, { fails: n % 3 > 0 })))
      for (const each of handles) await each.wait({ timeoutMs: 20_000 })
      const running = await tasks.ownedBy('ann').submit(slow, {})
      await tasks.submit(cancels, { owner: 'nobody' })
      assert.deepEqual(await change('forget?status=failed&task=fast'), { forgotten: 100, failed: 0, failures: [] })
      assert.equal((await tasks.list({ task: fast, limit: 200 })).items.length, 50)
      assert.deepEqual(await change('forget?status=completed,failed,cancelled&owner=ann'), { forgotten: 50, failed: 0, failures: [] })
      assert.ok(await running.get())
    })
  })
}

describe('cancelMany and forgetMany', () => {
  test('reject a status that they cannot change, and a deletion without a status', async (t) => {
    const { post } = setUp(t, undefined)
    for (const path of ['cancel?status=failed', 'forget?status=queued', 'forget', 'forget?owner=ann', 'cancel?other=1']) {
      const response = await post(path)
      assert.deepEqual([response.status, (await response.json<{ code: string }>()).code], [400, 'invalid_query'], path)
    }
    assert.equal((await post('cancel', 'user')).status, 403)
  })

  test('are described with their query', (t) => {
    const { operators: { cancelMany, forgetMany } } = setUp(t, undefined)
    const described = [cancelMany, forgetMany].map(({ operations }) => {
      const { summary, parameters } = operations?.[0]?.openapi as {
        summary: string, parameters: { name: string, required?: boolean }[]
      }
      const status = parameters.find(({ name }) => name === 'status')
      return [summary.split(' ')[0], parameters.some(({ name }) => name === 'owner'), status?.required]
    })
    assert.deepEqual(described, [['Cancel', true, false], ['Delete', true, true]])
  })

  test('need their definitions', () => {
    const tasks = createTasks({ ...openDatabase(undefined).parts, definitions: [] })
    const operators = operatorEndpoints(tasks, { statusPath: '/admin/{id}', operator: () => true })
    assert.throws(() => operators.cancelMany, /cancelMany needs the option cancels: const cancels = cancelTasks\(\)/)
    assert.throws(() => operators.forgetMany, /forgetMany needs the option forgets/)
  })

  test('can be submitted by your own code, and have no owner', async (t) => {
    const { tasks, fast, forgets } = setUp(t, undefined)
    const { wait } = await tasks.submit(fast, { fails: true })
    await wait({ timeoutMs: 5000 })
    const forgetting = await tasks.submit(forgets, { status: ['failed'], task: ['fast'] })
    const end = await forgetting.wait({ timeoutMs: 5000 })
    assert.equal(end?.status === 'completed' && end.result.forgotten, 1)
    await assert.rejects(tasks.ownedBy('ann').submit(forgets, { status: ['failed'] }), { code: 'unknown_task' })
    await assert.rejects(tasks.submit(forgets, {} as never), { code: 'invalid_input' })
  })
})
