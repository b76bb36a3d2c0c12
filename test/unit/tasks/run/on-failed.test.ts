// The task of `onFailed`: what needs no server. `test/faults/tasks/on-failed.slow.test.ts` has the rest.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memory } from '../../../../adapters/memory/index.js'
import { withFaults } from '../../../../conformance/engine/faults.js'
import { bulkCreate } from '../../../../src/bulk/index.js'
import { callbacks } from '../../../../src/callbacks/index.js'
import { exportTask } from '../../../../src/export/index.js'
import { createTasks, defineTask, jsonSchema, taskEndpoints, type FailedWork } from '../../../../src/index.js'
import type { TasksOptions } from '../../../../src/tasks/core/tasks-options.js'
import { inject, testClock } from '../../../../src/testing/index.js'

function setUp(more: Partial<TasksOptions> = {}) {
  const clock = testClock()
  const seen: FailedWork[] = []
  const alert = defineTask({ name: 'alert', run: (failed: FailedWork) => { seen.push(failed) } })
  const order = defineTask({
    name: 'order', onFailed: alert,
    run: (_input: { readonly order?: number, readonly text?: string }) => { throw new Error('Out of stock') },
  })
  const heard: unknown[] = []
  const parts = memory({ clock })
  const tasks = createTasks({
    ...parts, definitions: [order, alert], onError: (error) => { heard.push(error) }, ...more,
  })
  return { clock, seen, alert, order, heard, tasks, parts }
}

describe('onFailed', () => {
  test('makes one task, although the response to its creation is lost', async () => {
    const parts = memory()
    const clock = testClock()
    const { engine, store } = memory({ clock })
    let created = 0
    const lossy = withFaults(engine, (call) => {
      if (call === 'create') created++
      return call === 'create' && created === 2 ? 'lost' : undefined
    })
    const { tasks, order, alert, seen, heard } = setUp({ ...parts, engine: lossy, store })
    await tasks.submit(order, { order: 7 })
    await clock.advance(1000)
    assert.deepEqual([created, heard.length, seen.length], [2, 2, 1])
    await clock.advance(60_000)
    assert.deepEqual([created, heard.length, seen.length], [3, 2, 1])
    assert.equal((await tasks.list({ task: alert })).items.length, 1)
    await clock.advance(600_000)
    assert.equal(created, 3)
  })

  test('makes its task before the callback is sent', async () => {
    const sent: string[] = []
    const { tasks, order, clock, seen } = setUp({
      callbacks: callbacks({
        secrets: () => ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
        sender: { check: () => undefined, send: async ({ body }) => {
          sent.push((JSON.parse(String(body)) as { type: string }).type)
          return { status: 200 }
        } },
      }),
    })
    const { taskId } = await tasks.submit(order, { order: 7 }, { callbackUrl: 'https://example.org/hook' })
    await clock.advance(1000)
    assert.deepEqual([sent, seen.length, (await tasks.get(taskId))?.callback?.state], [['task.failed'], 1, 'delivered'])
    assert.equal(await tasks.redeliver(taskId), true)
    await clock.advance(1000)
    assert.deepEqual([sent.length, seen.length], [2, 1])
  })

  test('gives its task the whole input and context, and no real error with storeErrors: false', async () => {
    const { tasks, order, clock, seen } = setUp({ storeErrors: false })
    const input = { text: 'x'.repeat(100_000) }
    const { taskId } = await tasks.submit(order, input, { context: { tenant: 'acme' } })
    await clock.advance(1000)
    const error = { code: 'task_failed', message: 'The task failed.' }
    assert.deepEqual(seen, [{ taskId, task: 'order', attempt: 1, error, input, context: { tenant: 'acme' } }])
  })

  test('shows no data of its task in the failed task', async () => {
    const { tasks, order, clock } = setUp()
    const { taskId } = await tasks.submit(order, { order: 7 }, { owner: 'ann' })
    await clock.advance(1000)
    const { body } = { body: JSON.stringify(await tasks.ownedBy('ann').get(taskId)) }
    assert.equal(/followUp|alert|Out of stock/.test(body), false)
  })

  test('makes its task after a synchronous request has failed', async () => {
    const { tasks, order, alert } = setUp(memory())
    const { submit } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
    const response = await inject(submit(order), { method: 'POST', path: '/orders', body: { order: 7 } })
    assert.equal(response.status, 500)
    await tasks.close()
    assert.equal((await tasks.list({ task: alert, status: 'completed' })).items.length, 1)
  })

  test('must be a definition that createTasks has', () => {
    const alert = defineTask({ name: 'alert', run: (_failed: FailedWork) => undefined })
    const order = defineTask({ name: 'order', onFailed: alert, run: () => undefined })
    assert.throws(() => createTasks({ ...memory(), definitions: [order] }), /order has onFailed: alert, which is not among the definitions; add it there/)
    assert.throws(() => defineTask({ name: 'order', onFailed: 'alert' as never, run: () => undefined }), /onFailed must be a definition/)
  })

  test('is an option of bulk endpoints and exports', () => {
    const alert = defineTask({ name: 'alert', run: (_failed: FailedWork) => undefined })
    const { blobs } = memory()
    const { task } = bulkCreate({
      repository: { createMany: async () => [] }, schema: jsonSchema<object>({ type: 'object' }), background: { name: 'import', blobs, onFailed: alert },
    })
    const exported = exportTask({ name: 'export', onFailed: alert, records: () => [] })
    assert.deepEqual([task.onFailed, exported.onFailed], [alert, alert])
  })
})
