// Callbacks of a task that is retried, and POST {status}/callback.
import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { describe, test } from 'node:test'
import { createTasks, defineTask, HttpError, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { inject } from 'longhaul/testing'
import { receiver, site } from '../kit/callbacks.js'
import { eventually } from '../../kit/wait.js'

/** The endpoint, and a way to call it. */
function endpointOf(tasks: Parameters<typeof taskEndpoints>[0]) {
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: () => 'ann' })
  return async (id: string, headers: Record<string, string> = {}) => {
    const response = await inject(endpoints.callback, { method: 'POST', path: `/tasks/${id}/callback`, headers })
    return { status: response.status, headers: response.headers, body: await response.json<Record<string, unknown>>() }
  }
}

describe('a retried task', () => {
  test('calls back at each end with a new message id, so that no receiver takes it for a repetition', async (t) => {
    const { url, seen } = await receiver(t)
    const { submit, settled, tasks } = site(t)
    const id = await submit(url, { fail: true }, 'ann')
    await settled(id)
    await tasks.retry(id)
    await eventually(() => seen.length === 2)
    await settled(id)
    const ids = seen.map(({ headers }) => headers['webhook-id'])
    assert.notEqual(ids[0], ids[1])
    assert.deepEqual(
      seen.map(({ body }) => (JSON.parse(body) as { type: string }).type),
      ['task.failed', 'task.failed'],
    )
    await tasks.redeliver(id)
    await eventually(() => seen.length === 3)
    assert.equal(seen[2]?.headers['webhook-id'], ids[1], 'the same message again')
  })

  test('no longer shows the delivery of its earlier end', async (t) => {
    const answers: ServerResponse[] = []
    const { url, seen } = await receiver(t, (answer) => { answers.push(answer) })
    const { submit, settled, tasks } = site(t, { timeoutMs: 60_000 })
    const id = await submit(url, { fail: true }, 'ann')
    await eventually(() => seen.length === 1)
    await tasks.retry(id)
    await eventually(() => seen.length === 2)
    // The receiver refuses the first message for good, and takes the second.
    answers[0]?.writeHead(400).end()
    await eventually(() => answers[0]?.writableFinished === true)
    answers[1]?.end('ok')
    const callback = await settled(id)
    assert.deepEqual([callback.state, callback.attempts, seen.length], ['delivered', 1, 2])
  })
})

describe('POST {status}/callback', () => {
  test('gets a 403 if a page of another site sends it, even if the browser shows this in Origin alone', async (t) => {
    const { url, seen } = await receiver(t)
    const { submit, settled, tasks } = site(t)
    const post = endpointOf(tasks)
    const id = await submit(url, undefined, 'ann')
    await settled(id)
    const pages: Record<string, string>[] = [
      { 'sec-fetch-site': 'cross-site' },
      { host: 'api.example.com', origin: 'http://evil.example' },
    ]
    for (const headers of pages) {
      const { status, body } = await post(id, headers)
      assert.deepEqual([status, body['code']], [403, 'cross_site'])
    }
    assert.equal(seen.length, 1)
    assert.equal((await post(id, { host: 'api.example.com', origin: 'http://api.example.com' })).status, 202)
  })

  test('sends the callback of a final task again: 202 with the status', async (t) => {
    const { url, seen } = await receiver(t)
    const { submit, settled, tasks } = site(t)
    const post = endpointOf(tasks)
    const id = await submit(url, undefined, 'ann')
    await settled(id)
    const { status, headers, body } = await post(id)
    assert.deepEqual(
      [status, headers['location'], headers['content-location'], body['status']],
      [202, `/tasks/${id}`, `/tasks/${id}`, 'completed'],
    )
    await eventually(() => seen.length === 2)
  })

  test('gets a 409 if the task runs, has no callback, or has a delivery under way', async (t) => {
    const { url, seen } = await receiver(t, () => undefined)
    const { submit, tasks } = site(t, { timeoutMs: 60_000 })
    const post = endpointOf(tasks)
    const running = await submit(url, { ms: 60_000 }, 'ann')
    assert.deepEqual([(await post(running)).status, (await post(running)).body['code']], [409, 'task_not_final'])
    const id = await submit(url, undefined, 'ann')
    await eventually(() => seen.length === 1)
    assert.deepEqual([(await post(id)).status, (await post(id)).body['code']], [409, 'callback_pending'])
    const plain = defineTask({ name: 'plain', run: () => { throw new HttpError(400, 'no') } })
    const engine = memory()
    const others = createTasks({ ...engine, definitions: [plain] })
    t.after(async () => {
      await others.close()
      await engine.store.close()
    })
    const { taskId } = await others.submit(plain, 1, { owner: 'ann' })
    await others.wait(taskId, { timeoutMs: 60_000 })
    assert.equal((await endpointOf(others)(taskId)).body['code'], 'no_callback')
    assert.equal((await endpointOf(others)('unknown')).status, 404)
  })

  test('starts one round of attempts if it is sent twice at once', async (t) => {
    const { url, seen } = await receiver(t)
    const { submit, settled, tasks } = site(t)
    const post = endpointOf(tasks)
    const id = await submit(url, undefined, 'ann')
    await settled(id)
    const answers = await Promise.all([post(id), post(id), post(id)])
    assert.deepEqual(answers.map(({ status }) => status).sort(), [202, 409, 409])
    await settled(id)
    assert.equal(seen.length, 2)
  })
})
