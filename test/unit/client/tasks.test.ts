import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  createClient, isClientError, isTaskFailed, type ClientError, type TaskStatus,
} from '../../../src/client/index.js'
import { BASE, event, events, fakeServer, json, lost, script } from '../kit/fake-server.js'

const accepted = () => json({ taskId: 't1', status: 'processing', message: 'ok' }, 202, { location: '/api/status/t1' })
const processing = (done: number) => ({
  taskId: 't1',
  status: 'processing',
  message: 'ok',
  progress: { done, total: 3 },
})
const completed = { taskId: 't1', status: 'completed', message: 'done', result: { message: 'Here.', n: 3 } }

describe('submit', () => {
  test('sends respond-async with a key, and reads the path of the status', async () => {
    const { client, seen } = fakeServer(accepted)
    const task = await client.submit('/work', { a: 1 })
    assert.equal(task.taskId, 't1')
    assert.equal(task.statusUrl, `${BASE}/api/status/t1`)
    const [request] = seen
    assert.equal(request?.method, 'POST')
    assert.equal(request?.url, `${BASE}/work`)
    assert.equal(request?.body, '{"a":1}')
    assert.equal(request?.headers['prefer'], 'respond-async')
    assert.equal(request?.headers['content-type'], 'application/json')
    assert.match(request?.headers['idempotency-key'] ?? '', /^[0-9a-f]{32}$/)
  })

  test('sends the options wait and background as preferences', async () => {
    const { client, seen } = fakeServer(() => json({ message: 'at once', n: 1 }))
    const task = await client.submit('/work', {}, { wait: 5, idempotencyKey: 'mine', headers: { 'x-a': 'b' } })
    assert.equal(seen[0]?.headers['prefer'], 'respond-async, wait=5')
    assert.equal(seen[0]?.headers['idempotency-key'], 'mine')
    assert.equal(seen[0]?.headers['x-a'], 'b')
    await client.submit('/work', {}, { background: false, idempotencyKey: false })
    assert.equal('prefer' in (seen[1]?.headers ?? {}), false)
    assert.equal('idempotency-key' in (seen[1]?.headers ?? {}), false)

    const heard: TaskStatus[] = []
    assert.deepEqual(
      await task.result({
        onProgress: (status) => {
          heard.push(status)
        },
      }),
      { message: 'at once', n: 1 },
    )
    assert.deepEqual(heard.map(({ status }) => status), ['completed'])
    assert.equal((await task.cancel()).status, 'completed')
    assert.equal((await task.status()).message, 'at once')
    assert.deepEqual(JSON.parse(JSON.stringify(task)), { result: { message: 'at once', n: 1 } })
    assert.deepEqual(await client.resume(JSON.stringify(task)).result(), { message: 'at once', n: 1 })
    assert.equal(seen.length, 2)
  })

  test('finds the status path in the body or by a template, or throws', async () => {
    const { client } = fakeServer(({ url }) => {
      if (url.endsWith('/job')) return json({ jobId: 7, statusUrl: '/job-status/7' }, 202)
      return json({ taskId: 'a/b', message: 'ok' }, 202)
    })
    assert.equal((await client.submit('/job', {})).statusUrl, `${BASE}/job-status/7`)
    assert.equal((await client.submit('/job', {})).taskId, '7')
    assert.equal(
      (await client.submit('/task', {}, { statusPath: '/task-status/{id}' })).statusUrl,
      `${BASE}/task-status/a%2Fb`,
    )
    await assert.rejects(client.submit('/task', {}), { name: 'ClientError', code: 'no_status_url', status: 202 })
  })

  test('rejects a Location that is not http or https', async () => {
    const { client } = fakeServer(() => json({ taskId: 't' }, 202, { location: 'data:application/json,{}' }))
    await assert.rejects(client.submit('/work', {}), { code: 'bad_answer' })
    assert.throws(() => client.resume({ statusUrl: 'file:///etc/passwd' }), { code: 'bad_answer' })
  })

  test('resends a lost request with the same key', async () => {
    const { client, seen } = fakeServer(script(lost, () => json({}, 503), accepted))
    await client.submit('/work', {})
    assert.equal(seen.length, 3)
    assert.equal(new Set(seen.map(({ headers }) => headers['idempotency-key'])).size, 1)
  })

  test('does not resend a lost request without a key, but resends one that was rejected before any work', async () => {
    const first = fakeServer(script(lost, accepted))
    await assert.rejects(first.client.submit('/work', {}, { idempotencyKey: false }), { code: 'network_error' })
    assert.equal(first.seen.length, 1)
    const second = fakeServer(script(() => json({ error: 'no' }, 429, { 'retry-after': '0' }), accepted))
    await second.client.submit('/work', {}, { idempotencyKey: false })
    assert.equal(second.seen.length, 2)
  })

  test('waits for an earlier request with this key that is still running', async () => {
    const { client, seen } = fakeServer(
      script(() => json({ error: 'busy', code: 'idempotent_request_running' }, 409), accepted),
    )
    await client.submit('/work', {})
    assert.equal(seen.length, 2)
  })

  for (const [status, code] of [
    [400, 'invalid_input'],
    [409, 'conflict'],
    [500, 'task_failed'],
    [504, 'task_timeout'],
  ] as const) {
    test(`does not retry ${status} ${code}`, async () => {
      const body = { error: 'No.', code, details: [{ pointer: '/a', message: 'is required' }] }
      const { client, seen } = fakeServer(() => json(body, status, { 'retry-after': '0' }))
      const error = await client.submit('/work', {}).then(
        () => assert.fail(),
        (error: unknown) => error,
      )
      assert.ok(isClientError(error))
      assert.deepEqual(
        [error.status, error.code, error.message, error.details, error.body],
        [status, code, 'No.', body.details, body],
      )
      assert.equal(seen.length, 1)
    })
  }

  test('does not retry 503 sync_timeout, unless Retry-After announces a later outcome for the same key', async () => {
    for (const [headers, tries] of [[{}, 1], [{ 'retry-after': '0' }, 2]] as const) {
      const { client, seen } = fakeServer(
        script(
          () => json({ error: 'Late.', code: 'sync_timeout' }, 503, headers),
          () => json({ message: 'done' }, 200),
        ),
      )
      const outcome = await client
        .run('/work', {}, { background: false })
        .catch((error: unknown) => isClientError(error) && error.code)
      assert.deepEqual([outcome, seen.length], [tries === 1 ? 'sync_timeout' : { message: 'done' }, tries])
    }
  })

  test('gives up after retry.attempts failures, with the last failure', async () => {
    const { client, seen } = fakeServer(() => new Response('<h1>Bad gateway</h1>', { status: 502 }))
    await assert.rejects(client.submit('/work', {}), {
      code: 'http_502',
      status: 502,
      message: 'The server responded with 502.',
      body: '<h1>Bad gateway</h1>',
    })
    assert.equal(seen.length, 4)
  })

  test('reads a problem (RFC 9457)', async () => {
    const { client } = fakeServer(() =>
      json({ type: 'about:blank', title: 'Conflict', detail: 'It is taken.', status: 409 }, 409),
    )
    await assert.rejects(client.submit('/work', {}), { code: 'http_409', message: 'It is taken.' })
  })

  test('obeys Retry-After, as seconds and as a date', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout', 'Date'], now: Date.UTC(2026, 0, 1) })
    for (const field of ['7', 'Thu, 01 Jan 2026 00:00:07 GMT']) {
      t.mock.timers.setTime(Date.UTC(2026, 0, 1))
      const { client, seen } = fakeServer(
        script(() => json({}, 503, { 'retry-after': field }), accepted),
        { retry: { baseMs: 1, maxMs: 10_000 } },
      )
      const submitted = client.submit('/work', {})
      await turns()
      t.mock.timers.tick(6900)
      await turns()
      assert.equal(seen.length, 1)
      t.mock.timers.tick(1000)
      await submitted
      assert.equal(seen.length, 2)
    }
  })

  test('throws the error if Retry-After is longer than retry.maxMs', async () => {
    const { client, seen } = fakeServer(() =>
      json({ error: 'Later.', code: 'needs_shared_database' }, 503, { 'retry-after': '3600' }),
    )
    await assert.rejects(client.submit('/work', {}), { code: 'needs_shared_database', retryAfter: 3600 })
    assert.equal(seen.length, 1)
  })

  test('rejects with the reason of an abort, in a request and in a pause', async () => {
    const reason = new Error('enough')
    const controller = new AbortController()
    const hanging = fakeServer(({ signal }) => new Promise((_, reject) => {
      signal.addEventListener('abort', () => { reject(new DOMException('aborted', 'AbortError')) })
      setImmediate(() => { controller.abort(reason) })
    }))
    await assert.rejects(hanging.client.submit('/work', {}, { signal: controller.signal }), reason)
    await assert.rejects(hanging.client.submit('/work', {}, { signal: controller.signal }), reason)
    assert.equal(hanging.seen.length, 1)

    const pausing = new AbortController()
    const failing = fakeServer(() => {
      setImmediate(() => { pausing.abort(reason) })
      return lost()
    }, { retry: { baseMs: 60_000, maxMs: 60_000 } })
    await assert.rejects(failing.client.submit('/work', {}, { signal: pausing.signal }), reason)
  })

  test('fails if the server sends nothing', async () => {
    const { client, seen } = fakeServer(({ signal }) => new Promise((_, reject) => {
      signal.addEventListener('abort', () => { reject(new DOMException('aborted', 'AbortError')) })
    }), { timeoutMs: 5 })
    await assert.rejects(client.submit('/work', {}), { code: 'timeout', status: 0 })
    assert.equal(seen.length, 4)
  })
})

describe('the paths of a client', () => {
  test('are relative to the base URL, and an absolute URL is used unchanged', async () => {
    const { client, seen } = fakeServer(accepted, { baseUrl: 'https://api.test/v1/' })
    for (const path of ['/work', 'work', '//evil.test/work', 'https://other.test/work?a=b', '/work?a=b'])
      await client.submit(path, {})
    assert.deepEqual(
      seen.map(({ url }) => url),
      [
        'https://api.test/v1/work', 'https://api.test/v1/work',
        'https://api.test/v1/evil.test/work', 'https://other.test/work?a=b',
        'https://api.test/v1/work?a=b',
      ],
    )
  })

  test('are rejected at construction with other invalid options', () => {
    for (const options of [
      {},
      { baseUrl: '/api' },
      { baseUrl: 'ftp://x' },
      { baseUrl: 'https://x', retry: { attempts: 0 } },
      { baseUrl: 'https://x', timeoutMs: NaN },
    ]) {
      assert.throws(() => createClient(options), TypeError)
    }
  })
})

describe('the credentials of a client', () => {
  test('are read again for each attempt', async () => {
    let count = 0
    const { client, seen } = fakeServer(script(lost, accepted), {
      headers: async () => ({ Authorization: `Bearer ${++count}` }),
    })
    await client.submit('/work', {})
    assert.deepEqual(seen.map(({ headers }) => headers['authorization']), ['Bearer 1', 'Bearer 2'])
  })

  test('are sent to the origin of baseUrl only', async () => {
    const { client, seen } = fakeServer(({ method }) => method === 'POST'
      ? json({ taskId: 't' }, 202, { location: 'https://evil.test/status' })
      : json({ status: 'completed', result: { message: '' } }), { headers: { authorization: 'Bearer s3cret' } })
    await (await client.submit('/work', {})).result()
    await client.resume({ statusUrl: 'http://api.test/status' }).status()
    assert.deepEqual(seen.map(({ headers }) => headers['authorization']), ['Bearer s3cret', undefined, undefined])
  })

  test('may throw an error, which is thrown unchanged, and nothing is sent', async () => {
    const error = new Error('signed out')
    const { client, seen } = fakeServer(accepted, { headers: () => { throw error } })
    await assert.rejects(client.submit('/work', {}), error)
    assert.equal(seen.length, 0)
  })
})

describe('result', () => {
  const resumed = (reply: Parameters<typeof fakeServer>[0], options?: Parameters<typeof fakeServer>[1]) => {
    const { client, seen } = fakeServer(reply, options)
    return {
      task: client.resume<{ message: string; n?: number }>({ taskId: 't1', statusUrl: `${BASE}/api/status/t1` }),
      seen,
    }
  }

  test('shows each change once by events, with one request', async () => {
    const { task, seen } = resumed(() =>
      events([
        'retry: 2000\n\n',
        event('1', processing(1)),
        ': still here\n\n',
        event('1', processing(1)),
        event('2', processing(2)),
        event('3', completed),
      ]),
    )
    const heard: (number | undefined)[] = []
    assert.deepEqual(
      await task.result({
        onProgress: ({ progress }) => {
          heard.push(progress?.done)
        },
      }),
      { message: 'Here.', n: 3 },
    )
    assert.deepEqual(heard, [1, 2, undefined])
    assert.equal(seen.length, 1)
    assert.match(seen[0]?.headers['accept'] ?? '', /^text\/event-stream/)
  })

  test('resumes by events after a reset', async () => {
    const { task, seen } = resumed(
      script(
        () => events([event('1', processing(1))], true),
        lost,
        () => json({}, 502),
        () => events([event('2', processing(2)), event('3', completed)]),
      ),
    )
    const heard: (number | undefined)[] = []
    await task.result({ onProgress: ({ progress }) => { heard.push(progress?.done) } })
    assert.deepEqual(heard, [1, 2, undefined])
    assert.deepEqual(seen.map(({ headers }) => headers['last-event-id']), [undefined, '1', '1', '1'])
  })

  test('survives any number of resets if events arrive between them', async () => {
    const resets = Array.from({ length: 9 }, (_, at) => () => events([event(String(at), processing(at))], true))
    const { task, seen } = resumed(script(...resets, () => events([event('9', completed)])))
    assert.equal((await task.result()).n, 3)
    assert.equal(seen.length, 10)
  })

  test('polls after streams without events', async () => {
    const { task, seen } = resumed(script(() => events(['retry: 1\n\n']), () => events([]), () => json(completed)))
    await task.result()
    assert.deepEqual(seen.map(({ headers }) => headers['accept']?.startsWith('text/event-stream')), [true, true, false])
  })

  for (const status of [406, 503]) {
    test(`polls after a ${status} to the request for events`, async () => {
      const { task, seen } = resumed(script(() => json({}, status), () => json(completed)))
      await task.result()
      assert.equal(seen[1]?.headers['accept'], 'application/json')
    })
  }

  test('uses ETag in long polls, without a pause', async (t) => {
    const waited = { 'preference-applied': 'wait=25', 'retry-after': '9' }
    const { task, seen } = resumed(
      script(
        () => json(processing(1), 200, { etag: '"1"', ...waited }),
        () => json(undefined, 304, { etag: '"1"', ...waited }),
        () => json(processing(2), 200, { etag: '"2"', ...waited }),
        () => json(completed),
      ),
      { retry: {} },
    )
    const heard: (number | undefined)[] = []
    const real = setTimeout
    const pauses: number[] = []
    t.mock.method(globalThis, 'setTimeout', (work: () => void, ms: number) => {
      pauses.push(ms)
      return real(work, ms)
    })
    await task.result({ onProgress: ({ progress }) => { heard.push(progress?.done) } })
    // Requests have a time limit of a minute. The base of the polls is 1 ms.
    assert.deepEqual(pauses.filter((ms) => ms > 1 && ms < 60_000), [], 'it does not wait as Retry-After says')
    assert.deepEqual(heard, [1, 2, undefined])
    assert.deepEqual(seen.map(({ headers }) => headers['if-none-match']), [undefined, '"1"', '"1"', '"2"'])
    assert.deepEqual(seen.map(({ headers }) => headers['prefer']), [undefined, 'wait=25', 'wait=25', 'wait=25'])
  })

  test('obeys Retry-After between polls', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout', 'Date'] })
    const { task, seen } = resumed(
      script(
        () => json(processing(1), 200, { 'retry-after': '2' }),
        () => json(completed),
      ),
      { retry: {} },
    )
    const result = task.result()
    await turns()
    t.mock.timers.tick(1900)
    await turns()
    assert.equal(seen.length, 1)
    t.mock.timers.tick(400)
    await result
    assert.equal(seen.length, 2)
  })

  test('polls with growing pauses without Retry-After', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout', 'Date'] })
    t.mock.method(Math, 'random', () => 0)
    const at: number[] = []
    const { task } = resumed((_, n) => {
      at.push(Date.now())
      return json(n === 8 ? completed : processing(0))
    }, { poll: { baseMs: 100, maxMs: 500 } })
    const result = task.result()
    while (at.length < 9) {
      await turns()
      t.mock.timers.tick(1)
    }
    await result
    const gaps = at.slice(1).map((time, index) => time - (at[index] ?? 0))
    assert.ok(
      [100, 150, 225, 338, 500, 500, 500, 500].every((gap, index) => Math.abs(gap - (gaps[index] ?? 0)) <= 1),
      String(gaps),
    )
  })

  test('waits for a server that is away for a while', async () => {
    const { task, seen } = resumed(
      script(
        () => json(processing(1)),
        lost,
        lost,
        lost,
        () => json(processing(2)),
        lost,
        lost,
        lost,
        () => json(completed),
      ),
    )
    assert.equal((await task.result()).n, 3)
    assert.equal(seen.length, 9)
  })

  test('gives up on a server that stays away', async () => {
    const { task, seen } = resumed(lost)
    await assert.rejects(task.result(), { code: 'network_error' })
    assert.equal(seen.length, 4)
  })

  for (const status of [401, 403, 404, 410]) {
    test(`ends the wait at once after ${status}`, async () => {
      const { task, seen } = resumed(() => json({ error: 'no', code: 'c' }, status))
      await assert.rejects(task.result(), { status, code: 'c' })
      assert.equal(seen.length, 1)
    })
  }

  test('rejects for a failed task', async () => {
    const { task } = resumed(() =>
      json({ taskId: 't1', status: 'failed', error: { code: 'no_stock', message: 'None left.' } }),
    )
    const error = await task.result().then(() => assert.fail(), (error: unknown) => error)
    assert.ok(isTaskFailed(error))
    assert.deepEqual(
      [error.code, error.message, error.task.status, error.task.taskId],
      ['no_stock', 'None left.', 'failed', 't1'],
    )
    assert.equal(isClientError(error), false)
  })

  test('rejects for a cancelled task, and for failures with few details', async () => {
    for (const [body, code, message] of [
      [{ status: 'cancelled' }, 'task_cancelled', 'The task was cancelled.'],
      [{ state: 'failed' }, 'task_failed', 'The task failed.'],
      [{ state: 'failed', error: 'Out of paper' }, 'task_failed', 'Out of paper'],
    ] as const) {
      await assert.rejects(resumed(() => json(body)).task.result(), { name: 'TaskFailedError', code, message })
    }
  })

  test('follows a job of a server that implements only SPEC', async () => {
    const { task } = resumed(
      script(
        () => json({ id: 1, state: 'waiting' }),
        () => json({ id: 1, state: 'active' }),
        () => json({ id: 1, state: 'completed' }),
      ),
    )
    const statuses: string[] = []
    assert.deepEqual(await task.result({ onProgress: ({ status }) => { statuses.push(status) } }), { message: '' })
    assert.deepEqual(statuses, ['processing', 'processing', 'completed'])
  })

  test('has the properties of the response, except those of a wrong type', async () => {
    const times = { createdAt: '2026-01-01T00:00:00.000Z', startedAt: '2026-01-01T00:00:01.000Z' }
    const callback = { state: 'waiting', attempts: 0 }
    const running = {
      taskId: 't1',
      status: 'processing',
      message: 'ok',
      task: 'work',
      attempt: 2,
      progress: { done: 1 },
      callback,
      ...times,
    }
    const finishedAt = '2026-01-01T00:00:02.000Z'
    const error = { code: 'invalid_row', message: 'Row 3 is empty.', details: [{ pointer: '/3', message: 'is empty' }] }
    for (const body of [running, { ...completed, finishedAt }, { taskId: 't1', status: 'failed', error, finishedAt }]) {
      assert.deepEqual(await resumed(() => json(body)).task.status(), { ...body, body })
    }
    const wrong = {
      jobId: 7,
      status: 'Running',
      message: 5,
      task: null,
      attempt: 'one',
      progress: 3,
      callback: 'none',
      createdAt: 0,
      finishedAt,
    }
    assert.deepEqual(await resumed(() => json(wrong)).task.status(), { taskId: '7', status: 'processing', body: wrong })
  })

  test('rejects for a response that is not a status', async () => {
    for (const reply of [
      () => json([1]),
      () => json({ status: 1 }),
      () => new Response('<html>'),
      () => events(['data: {\n\n']),
    ]) {
      await assert.rejects(resumed(reply).task.result(), { code: 'bad_answer' })
    }
  })

  test('rejects with the error of onProgress, and closes the stream', async () => {
    let cancelled = false
    const body = new ReadableStream<Uint8Array>({
      start(controller) { controller.enqueue(new TextEncoder().encode(event('1', processing(1)))) },
      cancel() { cancelled = true },
    })
    const { task } = resumed(() => new Response(body, { headers: { 'content-type': 'text/event-stream' } }))
    const error = new Error('mine')
    await assert.rejects(task.result({ onProgress: () => { throw error } }), error)
    assert.equal(cancelled, true)
  })

  test('ends a silent stream after an abort', async () => {
    const controller = new AbortController()
    const { task } = resumed(() => {
      setImmediate(() => { controller.abort(new Error('enough')) })
      return new Response(new ReadableStream(), { headers: { 'content-type': 'text/event-stream' } })
    })
    await assert.rejects(task.result({ signal: controller.signal }), { message: 'enough' })
  })

  test('reopens a stream that has become silent', async () => {
    const { task, seen } = resumed(
      script(
        () =>
          new Response(
            new ReadableStream({
              start(controller) {
                controller.enqueue(new TextEncoder().encode(event('1', processing(1))))
              },
            }),
            { headers: { 'content-type': 'text/event-stream' } },
          ),
        () => events([event('2', completed)]),
      ),
      { timeoutMs: 20 },
    )
    await task.result()
    assert.equal(seen[1]?.headers['last-event-id'], '1')
  })

  test('allows the reader to leave the loop over changes', async () => {
    const { task, seen } = resumed(() => json(processing(1)))
    for await (const { status } of task.changes()) {
      assert.equal(status, 'processing')
      break
    }
    assert.equal(seen.length, 1)
  })
})

describe('cancel', () => {
  const task = (reply: Parameters<typeof fakeServer>[0]) => {
    const { client, seen } = fakeServer(reply)
    return { handle: client.resume({ statusUrl: `${BASE}/s` }), seen }
  }

  const methodsOf = (seen: readonly { method: string }[]) => seen.map(({ method }) => method)

  test('returns the status', async () => {
    const { handle, seen } = task(script(() => json(processing(1)), () => json({ status: 'cancelled' })))
    assert.equal((await handle.cancel()).status, 'cancelled')
    assert.deepEqual(methodsOf(seen), ['GET', 'DELETE'])
  })

  test('leaves a task unchanged that had ended before, because a server may delete it instead', async () => {
    const { handle, seen } = task(() => json(completed))
    assert.equal((await handle.cancel()).status, 'completed')
    assert.deepEqual(methodsOf(seen), ['GET'])
  })

  test('leaves a task unchanged that ends meanwhile', async () => {
    const { handle, seen } = task(
      script(
        () => json(processing(1)),
        () => json({ code: 'task_already_final' }, 409),
        () => json(completed),
      ),
    )
    assert.equal((await handle.cancel()).status, 'completed')
    assert.deepEqual(methodsOf(seen), ['GET', 'DELETE', 'GET'])
  })

  describe('If-Match', () => {
    const tagged = (body: unknown, etag: string) => () => json(body, 200, { etag })
    const changed = () => json({ code: 'precondition_failed' }, 412)
    const requestsOf = (seen: readonly { method: string, headers: Record<string, string> }[]) => (
      seen.map(({ method, headers }) => `${method} ${headers['if-match'] ?? '-'}`)
    )

    test('has the tag of the last status, so that a task that ends meanwhile is not deleted', async () => {
      const { handle, seen } = task(script(tagged(processing(1), '"1"'), changed, tagged(completed, '"2"')))
      assert.equal((await handle.cancel()).status, 'completed')
      assert.deepEqual(requestsOf(seen), ['GET -', 'DELETE "1"', 'GET -'])
    })

    test('does not delete, in a repeated request, the task that the first request has cancelled', async () => {
      const { handle, seen } = task(
        script(tagged(processing(1), '"1"'), lost, changed, tagged({ status: 'cancelled' }, '"2"')),
      )
      assert.equal((await handle.cancel()).status, 'cancelled')
      assert.deepEqual(requestsOf(seen), ['GET -', 'DELETE "1"', 'DELETE "1"', 'GET -'])
    })

    test('is left out in the fourth try for a task whose progress changes all the time', async () => {
      let at = 0
      const { handle, seen } = task(({ method, headers }) => {
        if (method === 'GET') return json(processing(at), 200, { etag: `"${at++}"` })
        return headers['if-match'] === undefined ? json({ status: 'cancelled' }) : changed()
      })
      assert.equal((await handle.cancel()).status, 'cancelled')
      const tries = ['GET -', 'DELETE "0"', 'GET -', 'DELETE "1"', 'GET -', 'DELETE "2"', 'GET -', 'DELETE -']
      assert.deepEqual(requestsOf(seen), tries)
    })

    test('is not sent for a weak tag, which never matches, and a 412 without If-Match is an error', async () => {
      const { handle, seen } = task(script(tagged(processing(1), 'W/"1"'), changed))
      await assert.rejects(handle.cancel(), { status: 412 })
      assert.deepEqual(requestsOf(seen), ['GET -', 'DELETE -'])
    })
  })

  test('polls after a response without a body', async () => {
    const { handle } = task(
      script(
        () => json(processing(1)),
        () => json(undefined, 204),
        () => json({ status: 'cancelled' }),
      ),
    )
    assert.equal((await handle.cancel()).status, 'cancelled')
  })

  test('rejects if the server cannot cancel', async () => {
    await assert.rejects(
      task(() => json({ error: 'no' }, 405)).handle.cancel(),
      (error: ClientError) => error.status === 405,
    )
  })
})

/** Lets everything run that needs no timer. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => { setImmediate(resolve) })
}
