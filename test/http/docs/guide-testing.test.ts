// The tests that docs/guide/testing-your-handlers.md shows: it takes the regions from here.
// #region handler
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTasks, defineTask, jsonSchema, router, taskEndpoints } from 'longhaul'
import { toFetch } from 'longhaul/fetch'
import { memory } from 'longhaul/memory'

const report = defineTask({
  name: 'report',
  input: jsonSchema<{ year: number }>({ type: 'object', required: ['year'], properties: { year: { type: 'integer' } } }),
  run: ({ year }) => ({ message: `The report of ${year} is ready.` }),
})

/** What your server mounts, made anew for each test. */
function api() {
  const tasks = createTasks({ ...memory(), definitions: [report] })
  const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const call = toFetch(router({ 'POST /reports': submit(report), 'GET|HEAD|DELETE /tasks/{id}': status }))
  const post = (body: unknown, headers: Record<string, string> = {}) => call(new Request('http://test/reports', {
    method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body),
  }))
  return { tasks, call, post }
}

test('a report is taken in and done', async () => {
  const { tasks, call, post } = api()
  const accepted = await post({ year: 2025 }, { prefer: 'respond-async' })
  assert.equal(accepted.status, 202)
  const { taskId } = await accepted.json() as { taskId: string }
  await tasks.wait(taskId, { timeoutMs: 5000 })
  const shown = await call(new Request(`http://test/tasks/${taskId}`))
  assert.deepEqual((await shown.json() as { result: unknown }).result, { message: 'The report of 2025 is ready.' })
  await tasks.close()
})

test('a report without a year is refused', async () => {
  const { tasks, post } = api()
  const refused = await post({})
  assert.equal(refused.status, 400)
  assert.deepEqual((await refused.json() as { details: unknown }).details, [{ pointer: '/year', message: 'is required' }])
  await tasks.close()
})
// #endregion

// #region work
test('the work by itself', async () => {
  const shown: number[] = []
  const result = await report.run({ year: 2024 }, {
    taskId: 'test', attempt: 1, lastAttempt: true, owner: undefined, context: undefined,
    signal: AbortSignal.timeout(5000), progress: (done) => { shown.push(done) },
  })
  assert.deepEqual(result, { message: 'The report of 2024 is ready.' })
})
// #endregion

// #region failures
test('what clients see of a failure', async () => {
  const broken = defineTask({ name: 'broken', run: () => { throw new Error('password=123') } })
  const tasks = createTasks({ ...memory(), definitions: [broken], onError: () => undefined })
  const { taskId: id } = await tasks.submit(broken, {})
  const task = await tasks.wait(id, { timeoutMs: 5000 })
  assert.equal(task?.status, 'failed')
  assert.deepEqual((await tasks.get(id))?.error, { code: 'task_failed', message: 'The task failed.' })
  await tasks.close()
})
// #endregion

// #region time
test('tasks go when their time is over', async () => {
  const { MemoryStore, MemoryQueue } = await import('longhaul/memory')
  let now = Date.now()
  const tasks = createTasks({ store: new MemoryStore({ now: () => now }), queue: new MemoryQueue(), definitions: [report], retentionMs: 60_000 })
  const { taskId: id } = await tasks.submit(report, { year: 2023 })
  await tasks.wait(id, { timeoutMs: 5000 })
  assert.equal((await tasks.get(id))?.status, 'completed')
  now += 61_000
  assert.equal(await tasks.get(id), undefined)
  await tasks.close()
})
// #endregion
