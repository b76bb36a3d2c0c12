// What a handle changes about its task: cancel, retry, forget, redeliver. And its files.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import { BASE, fakeServer, json, lost, pieces, script } from '../kit/fake-server.js'

const saved = { taskId: '1', statusUrl: `${BASE}/tasks/1` }
const failed = { taskId: '1', status: 'failed', error: { code: 'no_paper', message: 'There is none.' } }
const processing = { taskId: '1', status: 'processing' }
const completed = { taskId: '1', status: 'completed', result: { message: 'Done.' } }
const conflict = (code: string) => json({ error: 'No.', code }, 409)
const linesOf = (seen: readonly { method: string; url: string }[]) =>
  seen.map(({ method, url }) => `${method} ${url.slice(BASE.length)}`)

describe('a handle', () => {
  test('retries its task and waits for the new run', async () => {
    const { client, seen } = fakeServer(script(() => json(failed), () => json(processing, 202), () => json(completed)))
    const task = client.resume(saved)
    await assert.rejects(task.result(), { code: 'no_paper' })
    assert.equal((await task.retry()).status, 'processing')
    assert.deepEqual(await task.result(), { message: 'Done.' })
    assert.deepEqual(linesOf(seen), ['GET /tasks/1', 'POST /tasks/1/retry', 'GET /tasks/1'])
  })

  test('repeats a retry with its key after a lost response, and leaves a running task as it is', async () => {
    const { client, seen } = fakeServer(script(lost, () => conflict('task_not_final'), () => json(processing)))
    assert.equal((await client.resume(saved).retry()).status, 'processing')
    assert.deepEqual(linesOf(seen), ['POST /tasks/1/retry', 'POST /tasks/1/retry', 'GET /tasks/1'])
    const [first, second] = seen.map(({ headers }) => headers['idempotency-key'])
    assert.ok(first !== undefined && first === second)
    await assert.rejects(
      fakeServer(() => json({ error: 'No.', code: 'not_found' }, 404))
        .client.resume(saved)
        .retry(),
      { status: 404 },
    )
  })

  test('does not retry a completed task, and has no callback to send for a task without one', async () => {
    for (const [call, code] of [
      ['retry', 'task_already_completed'],
      ['redeliver', 'no_callback'],
      ['redeliver', 'task_not_final'],
    ] as const) {
      const { client, seen } = fakeServer(() => conflict(code))
      await assert.rejects(client.resume(saved)[call](), { status: 409, code })
      assert.equal(seen.length, 1)
      assert.deepEqual([seen[0]?.body, seen[0]?.headers['content-type']], ['{}', 'application/json'])
    }
    const pending = fakeServer(script(() => conflict('callback_pending'), () => json(completed)))
    assert.equal((await pending.client.resume(saved).redeliver()).status, 'completed')
  })

  test('requests the callback again', async () => {
    const callback = { state: 'pending', attempts: 0 }
    const { client, seen } = fakeServer(script(() => json({ ...completed, callback }, 202)))
    assert.deepEqual((await client.resume(saved).redeliver()).callback, callback)
    assert.deepEqual(linesOf(seen), ['POST /tasks/1/callback'])
  })

  describe('deletes its task', () => {
    const cancelled = { ...processing, status: 'cancelled' }
    const requestsOf = (seen: readonly { method: string, headers: Record<string, string> }[]) => (
      seen.map(({ method, headers }) => `${method} ${headers['if-match'] ?? '-'}`)
    )
    const gone = () => json({ error: 'No.', code: 'task_not_found' }, 404)
    const deleted = () => json(undefined, 204)
    const tagged = (body: unknown, etag: string) => () => json(body, 200, { etag })

    test('with the tag of the task that it has read', async () => {
      const { client, seen } = fakeServer(script(tagged(completed, '"2"'), deleted))
      await client.resume(saved).forget()
      assert.deepEqual(requestsOf(seen), ['GET -', 'DELETE "2"'])
    })

    test('after it has cancelled it', async () => {
      const { client, seen } = fakeServer(
        script(tagged(processing, '"1"'), () => json(cancelled, 202), tagged(cancelled, '"2"'), deleted),
      )
      await client.resume(saved).forget()
      assert.deepEqual(requestsOf(seen), ['GET -', 'DELETE -', 'GET -', 'DELETE "2"'])
    })

    test('even if it has ended, or was retried, since it was read', async () => {
      const refused = (status: number) => () => json({ error: 'No.', code: 'no' }, status)
      const { client, seen } = fakeServer(
        script(
          tagged(processing, '"1"'),
          refused(428),
          tagged(completed, '"2"'),
          refused(412),
          tagged(completed, '"4"'),
          deleted,
        ),
      )
      await client.resume(saved).forget()
      assert.deepEqual(requestsOf(seen), ['GET -', 'DELETE -', 'GET -', 'DELETE "2"', 'GET -', 'DELETE "4"'])
    })

    test('even if a response is lost, and rejects if the server deletes no tasks', async () => {
      const { client, seen } = fakeServer(script(tagged(completed, '"2"'), lost, gone))
      await client.resume(saved).forget()
      assert.deepEqual(requestsOf(seen), ['GET -', 'DELETE "2"', 'DELETE "2"'])
      await fakeServer(gone).client.resume(saved).forget()
      const keeps = fakeServer(({ method }) =>
        method === 'GET' ? json(completed, 200, { etag: '"2"' }) : conflict('task_already_final'),
      )
      await assert.rejects(keeps.client.resume(saved).forget(), { code: 'task_already_final' })
      const mute = fakeServer(() => json(cancelled, 200, { etag: '"2"' }))
      await assert.rejects(mute.client.resume(saved).forget(), { code: 'bad_answer' })
    })
  })

  test('does nothing if the result came at once', async () => {
    const task = fakeServer(() => json({ message: 'Done.' })).client.resume({ result: { message: 'Done.' } })
    assert.deepEqual(
      [(await task.retry()).status, (await task.redeliver()).status, await task.forget()],
      ['completed', 'completed', undefined],
    )
    assert.throws(() => task.file('a.csv'), TypeError)
  })

  test('downloads a file by name or entry, resumes it and checks its digest', async () => {
    const content = Buffer.from('id,name\n1,Ann\n')
    const headers = {
      'etag': '"f"',
      'content-type': 'text/csv',
      'repr-digest': `sha-256=:${createHash('sha256').update(content).digest('base64')}:`,
    }
    const { client, seen } = fakeServer(
      script(
        () =>
          new Response(pieces([content.subarray(0, 5)], true), {
            status: 206,
            headers: { ...headers, 'content-range': `bytes 0-${content.length - 1}/${content.length}` },
          }),
        () =>
          new Response(content.subarray(5), {
            status: 206,
            headers: { ...headers, 'content-range': `bytes 5-${content.length - 1}/${content.length}` },
          }),
      ),
    )
    const blob = await client.resume(saved).file('a b.csv', { headers: { 'x-a': '1' } }).blob()
    assert.deepEqual([await blob.text(), blob.type], [content.toString(), 'text/csv'])
    assert.deepEqual(linesOf(seen), ['GET /tasks/1/files/a%20b.csv', 'GET /tasks/1/files/a%20b.csv'])
    assert.deepEqual(
      seen.map(({ headers: asked }) => [asked['range'], asked['want-repr-digest'], asked['x-a']]),
      [
        ['bytes=0-', 'sha-256=1', '1'],
        ['bytes=5-', 'sha-256=1', '1'],
      ],
    )

    const wrong = fakeServer(() => new Response('other', { status: 200, headers }))
    await assert.rejects(wrong.client.resume(saved).file({ url: '/v1/tasks/1/files/a.csv' }).blob(), {
      code: 'digest_mismatch',
    })
    assert.deepEqual(linesOf(wrong.seen), ['GET /v1/tasks/1/files/a.csv'])
  })
})
