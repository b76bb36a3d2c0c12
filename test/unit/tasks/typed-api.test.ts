import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import {
  createTasks, defineTask, taskEndpoints, type TaskContext,
} from '../../../src/index.js'
import { inject } from '../../../src/testing/index.js'

const report = defineTask({ name: 'report', run: () => ({ at: new Date(0) }) })
const mail = defineTask({
  name: 'mail', run: (_: unknown, { context }: TaskContext<{ locale: string }>) => context.locale,
})

test('a task has one union type: get by definition, times as Date, the result as JSON', async (t) => {
  const tasks = createTasks({ ...memory(), definitions: [report, mail] })
  t.after(() => tasks.close())
  const handle = await tasks.submit(report, {})
  const end = await handle.wait({ timeoutMs: 60_000 })
  assert.equal(end?.status, 'completed')
  assert.equal(end.result.at, '1970-01-01T00:00:00.000Z')
  assert.ok(end.finishedAt instanceof Date)
  assert.deepEqual(await tasks.get(handle.taskId, report), end)
  assert.equal(await tasks.get(handle.taskId, mail), undefined)
  assert.deepEqual(await handle.cancel(), end)
})

test('a delayed task is scheduled, and shows when it starts', async (t) => {
  const { engine, store } = memory()
  const tasks = createTasks({ engine, store, definitions: [report] })
  t.after(() => tasks.close({ drainMs: 0 }))
  const before = engine.now()
  const handle = await tasks.submit(report, {}, { delayMs: 3_600_000 })
  const after = engine.now()
  const task = await handle.get()
  assert.equal(task?.status, 'scheduled')
  const start = task.startAt.getTime()
  assert.ok(start >= before + 3_600_000 && start <= after + 3_600_000)
})

test('get rejects a definition that is not registered', async (t) => {
  const tasks = createTasks({ ...memory(), definitions: [report] })
  t.after(() => tasks.close())
  await assert.rejects(tasks.get('a', mail as never), /mail is not among the definitions of createTasks; add it there/)
})

test('submit rejects the name of a definition, and says how to find it', async (t) => {
  const tasks = createTasks({ ...memory(), definitions: [report] })
  t.after(() => tasks.close())
  await assert.rejects(tasks.submit('report' as never, {} as never, {} as never), {
    name: 'TypeError',
    message: /tasks\.definition\(name\) finds it by its name/,
  })
})

test('the context of a submit endpoint reaches run as JSON', async (t) => {
  const tasks = createTasks({ ...memory(), definitions: [mail] })
  t.after(() => tasks.close())
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const handler = endpoints.submit(mail, {
    context: ({ headers }) => ({ locale: String(headers['accept-language']) }),
  })
  for (const prefer of ['', 'respond-async, wait=5']) {
    const answer = await inject(handler, {
      method: 'POST', path: '/', body: {}, headers: { 'accept-language': 'fr', prefer },
    })
    assert.deepEqual(await answer.json(), 'fr')
  }
})
