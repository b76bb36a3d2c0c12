// What a handle changes about its task: cancel, retry, forget, redeliver. And its files.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import { BASE, fakeServer, json, lost, pieces, script } from './fake-server.js'

const saved = { taskId: '1', statusUrl: `${BASE}/tasks/1` }
const failed = { taskId: '1', status: 'failed', error: { code: 'no_paper', message: 'There is none.' } }
const processing = { taskId: '1', status: 'processing' }
const completed = { taskId: '1', status: 'completed', result: { message: 'Done.' } }
const conflict = (code: string) => json({ error: 'No.', code }, 409)
const linesOf = (seen: readonly { method: string, url: string }[]) => seen.map(({ method, url }) => `${method} ${url.slice(BASE.length)}`)

describe('a handle', () => {
  test('retries its task and waits for the new run', async () => {
    const { client, seen } = fakeServer(script(() => json(failed), () => json(processing, 202), () => json(completed)))
    const task = client.resume(saved)
    await assert.rejects(task.result(), { code: 'no_paper' })
    assert.equal((await task.retry()).status, 'processing')
    assert.deepEqual(await task.result(), { message: 'Done.' })
    assert.deepEqual(linesOf(seen), ['GET /tasks/1', 'POST /tasks/1/retry', 'GET /tasks/1'])
  })

  test('repeats a retry whose answer was lost with the same key, and a task that runs already stays as it is', async () => {
    const { client, seen } = fakeServer(script(lost, () => conflict('task_not_final'), () => json(processing)))
    assert.equal((await client.resume(saved).retry()).status, 'processing')
    assert.deepEqual(linesOf(seen), ['POST /tasks/1/retry', 'POST /tasks/1/retry', 'GET /tasks/1'])
    const [first, second] = seen.map(({ headers }) => headers['idempotency-key'])
    assert.ok(first !== undefined && first === second)
    await assert.rejects(fakeServer(() => json({ error: 'No.', code: 'not_found' }, 404)).client.resume(saved).retry(), { status: 404 })
  })

  test('a task that is completed is not retried, and one without callback has none to send', async () => {
    for (const [call, code] of [['retry', 'task_already_completed'], ['redeliver', 'no_callback'], ['redeliver', 'task_not_final']] as const) {
      const { client, seen } = fakeServer(() => conflict(code))
      await assert.rejects(client.resume(saved)[call](), { status: 409, code })
      assert.equal(seen.length, 1)
      assert.deepEqual([seen[0]?.body, seen[0]?.headers['content-type']], ['{}', 'application/json'])
    }
    const pending = fakeServer(script(() => conflict('callback_pending'), () => json(completed)))
    assert.equal((await pending.client.resume(saved).redeliver()).status, 'completed')
  })

  test('asks for the callback again', async () => {
    const callback = { state: 'pending', attempts: 0 }
    const { client, seen } = fakeServer(script(() => json({ ...completed, callback }, 202)))
    assert.deepEqual((await client.resume(saved).redeliver()).callback, callback)
    assert.deepEqual(linesOf(seen), ['POST /tasks/1/callback'])
  })

  test('forgets its task: cancels it before, and needs no second answer', async () => {
    const running = fakeServer(script(() => json({ ...processing, status: 'cancelled' }, 202), () => json(undefined, 204)))
    await running.client.resume(saved).forget()
    assert.deepEqual(linesOf(running.seen), ['DELETE /tasks/1', 'DELETE /tasks/1'])
    const final = fakeServer(script(lost, () => json({ error: 'No.', code: 'task_not_found' }, 404)))
    await final.client.resume(saved).forget()
    assert.equal(final.seen.length, 2)
    await assert.rejects(fakeServer(() => conflict('task_already_final')).client.resume(saved).forget(), { code: 'task_already_final' })
  })

  test('of a result that came at once changes nothing', async () => {
    const task = fakeServer(() => json({ message: 'Done.' })).client.resume({ result: { message: 'Done.' } })
    assert.deepEqual([(await task.retry()).status, (await task.redeliver()).status, await task.forget()], ['completed', 'completed', undefined])
    assert.throws(() => task.file('a.csv'), TypeError)
  })

  test('downloads a file by name or entry, resumes it and checks its digest', async () => {
    const content = Buffer.from('id,name\n1,Ann\n')
    const headers = {
      'etag': '"f"', 'content-type': 'text/csv', 'repr-digest': `sha-256=:${createHash('sha256').update(content).digest('base64')}:`,
    }
    const { client, seen } = fakeServer(script(
      () => new Response(pieces([content.subarray(0, 5)], true), { status: 206, headers: { ...headers, 'content-range': `bytes 0-${content.length - 1}/${content.length}` } }),
      () => new Response(content.subarray(5), { status: 206, headers: { ...headers, 'content-range': `bytes 5-${content.length - 1}/${content.length}` } }),
    ))
    const blob = await client.resume(saved).file('a b.csv', { headers: { 'x-a': '1' } }).blob()
    assert.deepEqual([await blob.text(), blob.type], [content.toString(), 'text/csv'])
    assert.deepEqual(linesOf(seen), ['GET /tasks/1/files/a%20b.csv', 'GET /tasks/1/files/a%20b.csv'])
    assert.deepEqual(seen.map(({ headers: asked }) => [asked['range'], asked['want-repr-digest'], asked['x-a']]), [['bytes=0-', 'sha-256=1', '1'], ['bytes=5-', 'sha-256=1', '1']])

    const wrong = fakeServer(() => new Response('other', { status: 200, headers }))
    await assert.rejects(wrong.client.resume(saved).file({ url: '/v1/tasks/1/files/a.csv' }).blob(), { code: 'digest_mismatch' })
    assert.deepEqual(linesOf(wrong.seen), ['GET /v1/tasks/1/files/a.csv'])
  })
})
