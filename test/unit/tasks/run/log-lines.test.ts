import assert from 'node:assert/strict'
import { describe, test, type TestContext as Test } from 'node:test'
import { createTasks, defineTask, router, taskEndpoints, type TaskContext } from '../../../../src/index.js'
import { operatorEndpoints } from '../../../../src/operators/index.js'
import { inject, testContext } from '../../../../src/testing/index.js'
import { deferred, eventually } from '../../../kit/wait.js'
import { openDatabase } from '../../../servers/open-database.js'
import { sqliteUrl } from '../../../servers/sqlite.js'

const ENGINES = { memory: async () => undefined, SQLite: sqliteUrl }

async function setUp(t: Test, url: string | undefined, run: (context: TaskContext) => unknown) {
  const { parts, close } = openDatabase(url, { name: 'log_lines' })
  const work = defineTask({
    name: 'work', attempts: 2, backoff: { type: 'fixed', delayMs: 0 },
    run: async (_input, context) => { await run(context) },
  })
  const tasks = createTasks({ ...parts, definitions: [work], onError: () => undefined, progressIntervalMs: 0 })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await close()
  })
  return { tasks, submit: () => tasks.submit(work, {}, { owner: 'ann' }) }
}

for (const [name, open] of Object.entries(ENGINES)) {
  describe(`log on ${name}`, () => {
    test('a task keeps the lines of all its runs, for operators and not for clients', async (t) => {
      const { tasks, submit } = await setUp(t, await open(), ({ log, attempt }) => {
        log(`page ${String(attempt)}`)
        if (attempt === 1) throw new Error('It fails')
      })
      const { taskId, wait } = await submit()
      const task = await wait({ timeoutMs: 60_000 })
      assert.deepEqual(task?.log?.map(({ attempt, text }) => [attempt, text]), [[1, 'page 1'], [2, 'page 2']])
      assert.equal((await tasks.ownedBy('ann').get(taskId))?.log, undefined)
      const handlers = {
        own: taskEndpoints(tasks, { statusPath: '/{id}', owner: () => 'ann' }).status,
        operator: operatorEndpoints(tasks, { statusPath: '/{id}', operator: () => true }).status,
      }
      const [own, operator] = await Promise.all(Object.values(handlers).map(async (status) => (
        (await inject(router({ 'GET /{id}': status }), { path: `/${taskId}` })).text()
      )))
      assert.ok(!own?.includes('page 1'))
      assert.match(operator ?? '', /"log":\[\{"at":"[^"]+Z","attempt":1,"text":"page 1"\}/)
    })

    test('the next progress stores the lines', async (t) => {
      const gate = deferred()
      const { tasks, submit } = await setUp(t, await open(), async ({ log, progress }) => {
        for (let page = 1; page <= 3; page++) log(`page ${String(page)}`)
        progress(1)
        await gate.promise
      })
      const { taskId, wait } = await submit()
      await eventually(async () => (await tasks.get(taskId))?.log?.length === 3)
      gate.resolve()
      await wait({ timeoutMs: 60_000 })
    })

    test('keeps the last 100 lines, of 8 KiB together and 1 KiB each', async (t) => {
      let text = (n: number): string => String(n)
      const { submit } = await setUp(t, await open(), ({ log }) => { for (let n = 0; n < 150; n++) log(text(n)) })
      const short = await (await submit()).wait({ timeoutMs: 60_000 })
      assert.deepEqual([short?.log?.length, short?.log?.[0]?.text], [100, '50'])
      text = (n) => `${String(n)} \0${'é"'.repeat(100_000)}`
      const long = await (await submit()).wait({ timeoutMs: 60_000 })
      assert.match(long?.log?.at(-1)?.text ?? '', /^149 \uFFFDé"/)
      assert.ok(Buffer.byteLength(JSON.stringify(long?.log)) <= 8194)
    })
  })
}

test('testContext records the lines', async () => {
  const work = defineTask({ name: 'work', run: (_input, { log }) => { log('hello') } })
  const context = testContext(work)
  await work.run({}, context)
  assert.deepEqual(context.logged, ['hello'])
})
