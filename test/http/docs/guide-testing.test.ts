// The tests that docs/guide/testing-your-handlers.md shows. The page takes its regions from here.
// guide-testing-runners.test.ts runs this file under vitest and jest.
// #region handler
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTasks, defineTask, jsonSchema, router, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { inject, testClock, testContext } from 'longhaul/testing'

const report = defineTask({
  name: 'report',
  input: jsonSchema<{ year: number }>({
    type: 'object', required: ['year'], properties: { year: { type: 'integer' } },
  }),
  run: ({ year }, { progress }) => {
    progress(1, 1)
    return { message: `The report of ${year} is ready.` }
  },
})

/** What your server mounts, created anew for each test. */
function setUp() {
  const tasks = createTasks({ ...memory(), definitions: [report] })
  const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const api = router({ 'POST /reports': submit(report), 'GET|HEAD|DELETE /tasks/{id}': status })
  return { tasks, api }
}

test('a report is accepted and done', async () => {
  const { tasks, api } = setUp()
  const accepted = await inject(api, {
    method: 'POST', path: '/reports', headers: { prefer: 'respond-async' }, body: { year: 2025 },
  })
  assert.equal(accepted.status, 202)
  const { taskId } = await accepted.json<{ taskId: string }>()
  await tasks.wait(taskId, { timeoutMs: 5000 })
  const shown = await inject(api, { path: `/tasks/${taskId}` })
  const { result } = await shown.json<{ result: unknown }>()
  assert.deepEqual(result, { message: 'The report of 2025 is ready.' })
  await tasks.close()
})

test('a report without a year is rejected', async () => {
  const { tasks, api } = setUp()
  const rejected = await inject(api, { method: 'POST', path: '/reports', body: {} })
  assert.equal(rejected.status, 400)
  const { details } = await rejected.json<{ details: unknown }>()
  assert.deepEqual(details, [{ pointer: '/year', message: 'is required' }])
  await tasks.close()
})
// #endregion

// #region work
test('the work returns its result', async () => {
  const context = testContext(report)
  const result = await report.run({ year: 2024 }, context)
  assert.deepEqual(result, { message: 'The report of 2024 is ready.' })
  assert.deepEqual(context.reports, [{ done: 1, total: 1, message: undefined }])
})

test('the work stops when its task is cancelled', async () => {
  const endless = defineTask({
    name: 'endless',
    run: (_input, { signal }) => new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => { reject(signal.reason as Error) })
    }),
  })
  const context = testContext(endless)
  const running = endless.run({}, context)
  context.abort(new Error('cancelled'))
  await assert.rejects(async () => running, /cancelled/)
})
// #endregion

// #region retries
test('a failed run is retried after ten minutes', async () => {
  const clock = testClock()
  const flaky = defineTask({
    name: 'flaky',
    attempts: 2,
    backoff: { type: 'fixed', delayMs: 600_000 },
    run: (_input, { attempt }) => {
      if (attempt === 1) throw new Error('The database is unavailable')
    },
  })
  const tasks = createTasks({
    ...memory({ clock }), definitions: [flaky], onError: () => undefined, retentionMs: 3_600_000,
  })
  const task = await tasks.submit(flaky, {})

  await clock.advance(599_999)
  assert.equal((await task.get())?.status, 'queued')
  await clock.advance(1)
  assert.equal((await task.get())?.status, 'completed')
  await clock.advance(3_600_000)
  assert.equal(await task.get(), undefined)
  await tasks.close()
})
// #endregion

import { partialResults } from 'longhaul/partial'

test('readers get what a task emits', async () => {
  const { engine, store } = memory()
  const words = partialResults<string>({ store })
  const speak = defineTask({
    name: 'speak',
    external: words.external,
    run: words.run(async (_input: unknown, { emit }) => { for (const word of ['Hello', 'world']) await emit(word) }),
  })
  const tasks = createTasks({ engine, store, definitions: [speak] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const api = router({
    'POST /speak': endpoints.submit(speak, { respond: 'always' }),
    'GET /tasks/{id}/partial-results': words.endpoint(endpoints),
  })

  const accepted = await inject(api, { method: 'POST', path: '/speak', body: {} })
  const { taskId } = await accepted.json<{ taskId: string }>()
  await tasks.wait(taskId, { timeoutMs: 5000 })
  const shown = await inject(api, { path: `/tasks/${taskId}/partial-results` })
  const { results } = await shown.json<{ results: { value: string }[] }>()
  assert.deepEqual(results.map(({ value }) => value), ['Hello', 'world'])
  await tasks.close()
})

// #region failures
test('clients see no details of a failure', async () => {
  const broken = defineTask({ name: 'broken', run: () => { throw new Error('password=123') } })
  const errors: unknown[] = []
  const tasks = createTasks({
    ...memory(), definitions: [broken], onError: (error) => { errors.push(error) },
  })
  const task = await tasks.submit(broken, {})
  const end = await task.wait({ timeoutMs: 5000 })
  assert.equal(end?.status, 'failed')
  assert.deepEqual(end.error, { code: 'task_failed', message: 'The task failed.' })
  assert.match(String(errors[0]), /password=123/)
  await tasks.close()
})
// #endregion
