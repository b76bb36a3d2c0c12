// A user's test in CommonJS, for Jest as it comes and for node:test, run against the installed package.
const assert = require('node:assert/strict')
const entries = require('./entries.json')

const test = globalThis.test ?? require('node:test').test

// NestJS 12 consists of ES modules only, which Jest cannot require.
const isLoaded = (entry) => entry !== 'longhaul/nestjs' || globalThis.test === undefined

for (const entry of entries.filter(isLoaded)) {
  test(`${entry} can be required`, () => {
    assert.ok(Object.keys(require(entry)).length > 0)
  })
}

if (isLoaded('longhaul/nestjs')) {
  test('the module of Nest has its name, which Nest logs', () => {
    assert.equal(require('longhaul/nestjs').LonghaulModule.name, 'LonghaulModule')
  })
}

test('a handler is called without a server', async () => {
  const { createTasks, defineTask, router, taskEndpoints } = require('longhaul')
  const { memory } = require('longhaul/memory')
  const { inject } = require('longhaul/testing')
  const { engine, store } = memory()
  const double = defineTask({ name: 'double', run: ({ amount }) => ({ amount: amount * 2 }) })
  const tasks = createTasks({ engine, store, definitions: [double] })
  const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: () => 'somebody' })
  const api = router({ 'POST /double': submit(double), 'GET|HEAD|DELETE /tasks/{id}': status })

  const headers = { prefer: 'respond-async' }
  const accepted = await inject(api, { method: 'POST', path: '/double', headers, body: { amount: 4 } })
  assert.equal(accepted.status, 202)
  const shown = await inject(api, { path: accepted.headers.location, headers: { prefer: 'wait=10' } })
  assert.equal((await shown.json()).result.amount, 8)
  await tasks.close()
  await store.close()
})
