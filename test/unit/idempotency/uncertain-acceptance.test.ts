// An Idempotency-Key whose first request was not answered with its task.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { inject } from '../../../src/testing/index.js'
import { bench, ended } from '../kit/tasks.js'

function setUp(t: TestContext, maxUnfinished = 10) {
  let runs = 0
  const work = defineTask({ name: 'work', run: () => { runs++ } })
  const other = defineTask({ name: 'other', run: () => undefined })
  const made = bench({ definitions: [work, other], maxUnfinished })
  t.after(made.close)
  const { submit } = taskEndpoints(made.tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const post = async (key = 'one') => {
    const headers = { 'prefer': 'respond-async', 'idempotency-key': key, 'content-type': 'application/json' }
    const response = await inject(submit(work), {
      method: 'POST',
      path: '/work',
      headers,
      body: {},
      onError: () => undefined,
    })
    return {
      status: response.status,
      body: await response.json<{ readonly code?: string; readonly taskId?: string }>(),
    }
  }
  return { ...made, other, post, runs: () => runs }
}

describe('a keyed request', () => {
  for (const fault of ['before', 'after'] as const) {
    test(`gets a 503 if its write fails ${fault} it was made, and the retry gets the one task`, async (t) => {
      const { tasks, engine, spy, post, runs } = setUp(t)
      spy.fault = (call) => (call.startsWith('create') ? fault : undefined)
      assert.equal((await post()).status, 503)
      assert.equal((await post()).status, 503)
      spy.fault = () => undefined
      const { status, body: { taskId = '' } } = await post()
      assert.equal(status, 202)
      await ended(tasks, taskId)
      assert.deepEqual([(await post()).body.taskId, engine.usage().tasks, runs()], [taskId, 1, 1])
    })
  }

  test('leaves its key free if the engine has no space, and the retry starts the task', async (t) => {
    const { tasks, engine, post, other, runs } = setUp(t, 1)
    const { taskId } = await tasks.submit(other, {}, { delayMs: 60_000 })
    for (let times = 0; times < 2; times++)
      assert.deepEqual([(await post()).status, (await post()).body.code], [503, 'queue_full'])
    assert.equal(engine.usage().tasks, 1)
    await tasks.cancel(taskId)
    const accepted = await post()
    assert.equal(accepted.status, 202)
    await ended(tasks, accepted.body.taskId ?? '')
    assert.equal(runs(), 1)
  })

  test('starts one task, even beside concurrent requests with its key', async (t) => {
    const { engine, post } = setUp(t)
    const replies = await Promise.all(Array.from({ length: 20 }, () => post()))
    assert.deepEqual([...new Set(replies.map(({ status }) => status))], [202])
    assert.equal(new Set(replies.map(({ body }) => body.taskId)).size, 1)
    assert.equal(engine.usage().tasks, 1)
  })

  test('starts a new task if its task was deleted', async (t) => {
    const { tasks, post } = setUp(t)
    const { taskId = '' } = (await post()).body
    await ended(tasks, taskId)
    assert.equal(await tasks.delete(taskId), true)
    const again = await post()
    assert.deepEqual([again.status, again.body.taskId === taskId], [202, false])
  })
})
