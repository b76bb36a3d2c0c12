import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import { checksum } from '../../../examples/reference-server/tasks/checksum.js'
import { exportUsers } from '../../../examples/reference-server/tasks/export-users.js'
import { wait } from '../../../examples/reference-server/tasks/wait.js'
import { MemoryUsers } from '../../../examples/reference-server/users/memory-users.js'
import { seededUsers } from '../../../examples/reference-server/users/seed.js'
import { testContext } from 'longhaul/testing'
import { useReference } from '../kit/reference.js'

const client = useReference()

const TASKS = '/api/long-running-task'
const STATUS = /^\/api\/status\/[A-Za-z0-9_-]{22}$/
const JOB_STATUS = /^\/job-status\/[A-Za-z0-9_-]{22}$/

function statusPath(answer: { headers: Headers }): string {
  const location = answer.headers.get('location')
  assert.ok(location)
  return location
}

describe('a long-running task with respond-async', () => {
  test('SPEC 4.6.1: gets a 202 before the work is done', async () => {
    const begun = await client.submit('wait', { ms: 60_000 })
    assert.equal(begun.status, 202)
    assert.equal(begun.headers.get('preference-applied'), 'respond-async')
    assert.match(begun.headers.get('vary') ?? '', /\bPrefer\b/)
    const now = await client.ask('GET', statusPath(begun))
    assert.equal(now.json.status, 'processing')
    await client.ask('DELETE', statusPath(begun))
  })

  for (const prefer of [
    'Respond-Async', 'respond-async;foo=bar', 'return=minimal, respond-async', 'respond-async=""',
  ]) {
    test(`SPEC 4.6.1: may be requested with Prefer: ${prefer}`, async () => {
      const begun = await client.submit('wait', { ms: 0 }, { headers: { prefer } })
      assert.equal(begun.status, 202)
    })
  }

  test('SPEC 4.6.2: has the path of its status resource in Location and Content-Location', async () => {
    const begun = await client.submit('wait', { ms: 0 })
    assert.match(statusPath(begun), STATUS)
    assert.equal(begun.headers.get('content-location'), statusPath(begun))
    assert.equal(statusPath(begun), `/api/status/${begun.json.taskId}`)
    assert.equal((await client.ask('GET', statusPath(begun))).status, 200)
  })

  test('SPEC 4.6.3, 2.4: has message and taskId in the body of the 202', async () => {
    const begun = await client.submit('wait', { ms: 0 })
    assert.equal(begun.headers.get('content-type'), 'application/json')
    assert.equal(typeof begun.json.message, 'string')
    assert.notEqual(begun.json.message, '')
    assert.equal(typeof begun.json.taskId, 'string')
    assert.notEqual(begun.json.taskId, '')
  })

  test('SPEC 4.6.4, 1.3: continues in the background after the client has disconnected', async () => {
    const begun = await client.submit('wait', { ms: 200 }, { headers: { connection: 'close' } })
    const ended = await client.ended(statusPath(begun))
    assert.equal(ended.json.status, 'completed')
    assert.deepEqual(ended.json.result, { message: 'Waited for 200 ms.', ms: 200 })
    assert.ok(Date.parse(ended.json.finishedAt) - Date.parse(ended.json.startedAt) >= 195)
  })

  test('SPEC 3.1: is processing at once, then completed with a result', async () => {
    const begun = await client.submit('wait', { ms: 300 })
    assert.equal(begun.json.status, 'processing')
    const now = await client.ask('GET', statusPath(begun))
    assert.equal(now.json.status, 'processing')
    assert.equal('result' in now.json, false)
    const ended = await client.ended(statusPath(begun))
    assert.equal(ended.json.status, 'completed')
    assert.equal(ended.json.result.message, 'Waited for 300 ms.')
  })

  test('gets its result if it is ready within wait=N, and otherwise the 202', async () => {
    const soon = await client.submit('wait', { ms: 50 }, { headers: { prefer: 'respond-async, wait=20' } })
    assert.equal(soon.status, 200)
    assert.deepEqual(soon.json, { message: 'Waited for 50 ms.', ms: 50 })
    const late = await client.submit('wait', { ms: 60_000 }, { headers: { prefer: 'respond-async, wait=1' } })
    assert.equal(late.status, 202)
    await client.ask('DELETE', statusPath(late))
  })

  test('runs once for two requests with one Idempotency-Key', async () => {
    const headers = { 'idempotency-key': '"once"' }
    const [one, two] = [
      await client.submit('wait', { ms: 1 }, { headers }),
      await client.submit('wait', { ms: 1 }, { headers }),
    ]
    assert.equal(two.status, 202)
    assert.equal(two.json.taskId, one.json.taskId)
    assert.equal(two.headers.get('idempotent-replayed'), 'true')
    assert.equal((await client.submit('wait', { ms: 2 }, { headers })).status, 422)
  })
})

describe('a long-running task without respond-async', () => {
  test('SPEC 4.6.5: gets a response with a message when the work is done, and no 202', async () => {
    const start = performance.now()
    const done = await client.ask('POST', TASKS, { body: { task: 'wait', data: { ms: 200 } } })
    assert.ok(performance.now() - start >= 195)
    assert.equal(done.status, 200)
    assert.deepEqual(done.json, { message: 'Waited for 200 ms.', ms: 200 })
    assert.equal(done.headers.get('location'), null)
    assert.match(done.headers.get('vary') ?? '', /\bPrefer\b/)
  })

  test('SPEC 4.6.5: gets no 202 for another preference', async () => {
    for (const prefer of ['wait=5', 'return=minimal', 'x-respond-async', 'handling=lenient; respond-async']) {
      const done = await client.ask('POST', TASKS, { body: { task: 'wait', data: { ms: 0 } }, headers: { prefer } })
      assert.equal(done.status, 200, prefer)
      assert.equal(typeof done.json.message, 'string')
    }
  })

  test('SPEC 7.422: gets its own status and code if its work fails', async () => {
    const failed = await client.ask('POST', TASKS, { body: { task: 'wait', data: { ms: 0, fail: true } } })
    assert.equal(failed.status, 422)
    assert.deepEqual(failed.json, { error: 'The task failed, as it was told to.', code: 'told_to_fail' })
  })
})

describe('the body of a submission', () => {
  test('SPEC 4.6, 2.8: has a string as task and an object as data', async () => {
    for (const headers of [{}, { prefer: 'respond-async' }]) {
      const done = await client.ask('POST', TASKS, { body: { task: 'wait', data: {} }, headers })
      assert.ok(done.status === 200 || done.status === 202)
    }
  })

  const wrong: [body: unknown, details: [string, string][]][] = [
    [
      {},
      [
        ['/task', 'is required'],
        ['/data', 'is required'],
      ],
    ],
    [{ task: 'wait' }, [['/data', 'is required']]],
    [{ data: {} }, [['/task', 'is required']]],
    [
      { task: 1, data: [] },
      [
        ['/task', 'must be string'],
        ['/data', 'must be object'],
      ],
    ],
    [
      { task: null, data: null },
      [
        ['/task', 'must be string'],
        ['/data', 'must be object'],
      ],
    ],
    [[], [['', 'must be object']]],
    ['"wait"', [['', 'must be object']]],
    [{ task: 'wait', data: { ms: 60_001 } }, [['/data/ms', 'must be <= 60000']]],
    [
      { task: 'wait', data: { ms: '5', fail: 1 } },
      [
        ['/data/ms', 'must be integer'],
        ['/data/fail', 'must be boolean'],
      ],
    ],
    [{ task: 'export-users', data: { role: 1 } }, [['/data/role', 'must be string']]],
  ]
  for (const [body, details] of wrong) {
    test(`SPEC 7.400: ${JSON.stringify(body)} is rejected with pointers, with and without the preference`, async () => {
      for (const headers of [{}, { prefer: 'respond-async' }]) {
        const refused = await client.ask('POST', TASKS, { body, headers })
        assert.equal(refused.status, 400)
        assert.equal(refused.json.code, 'invalid_input')
        assert.deepEqual(refused.json.details, details.map(([pointer, message]) => ({ pointer, message })))
      }
    })
  }

  test('SPEC 7.400: gets a 400 if it is missing or malformed', async () => {
    assert.equal((await client.ask('POST', TASKS, { body: '{"task":' })).json.code, 'malformed_json')
    assert.equal((await client.ask('POST', TASKS)).json.code, 'missing_body')
  })

  test('SPEC 4.6.3, 4.6.5, 2.8: may name any task, with and without the preference', async () => {
    for (const task of ['data-processing', 'bulk-create-users', '__proto__', 'constructor', '']) {
      const data = { input: 'x', nested: { list: [1, null] }, ms: 'soon' }
      const done = await client.ask('POST', TASKS, { body: { task, data } })
      assert.deepEqual([done.status, done.json], [200, { message: 'The task is completed.' }], task)
      const begun = await client.submit(task, data)
      assert.deepEqual([begun.status, typeof begun.json.message], [202, 'string'], task)
      const { json } = await client.ended(statusPath(begun))
      assert.deepEqual([json.status, json.result], ['completed', { message: 'The task is completed.' }], task)
    }
  })

  test('SPEC 4.6.4: makes a task of any name wait for the milliseconds in its data', async () => {
    const begun = await client.submit('data-processing', { ms: 200 })
    assert.equal((await client.ask('GET', statusPath(begun))).json.status, 'processing')
    const { json } = await client.ended(statusPath(begun))
    assert.ok(Date.parse(json.finishedAt) - Date.parse(json.startedAt) >= 195)
    const long = await client.submit('data-processing', { ms: 1e300 })
    assert.equal((await client.ask('DELETE', statusPath(long))).json.status, 'cancelled')
  })

  test('SPEC 7.422: gets a 422 for an unknown role, which violates a business rule', async () => {
    const refused = await client.submit('export-users', { role: 'king' })
    assert.equal(refused.status, 422)
    assert.equal(refused.json.code, 'unprocessable')
    assert.deepEqual(refused.json.details, [{ pointer: '/data/role', message: 'must be one of admin, editor, viewer' }])
  })
})

describe('the status of a task', () => {
  test('SPEC 4.6.poll, 2.5: is a 200 with status, and with result once it is completed', async () => {
    const begun = await client.submit('wait', { ms: 100 })
    const now = await client.ask('GET', statusPath(begun))
    assert.equal(now.status, 200)
    assert.equal(now.json.status, 'processing')
    assert.equal(now.headers.get('retry-after'), '1')
    const ended = await client.ended(statusPath(begun))
    assert.equal(ended.json.status, 'completed')
    assert.equal(typeof ended.json.result.message, 'string')
    assert.equal(ended.headers.get('retry-after'), null)
  })

  test('SPEC 4.6.poll, 7.404, 2.9: is a 404 with error if the task is unknown', async () => {
    for (const id of ['nope', 'AAAAAAAAAAAAAAAAAAAAAA', '%2e%2e%2fx']) {
      const missing = await client.ask('GET', `/api/status/${id}`)
      assert.equal(missing.status, 404)
      assert.equal(missing.text, '{"error":"No such task.","code":"task_not_found"}')
    }
  })

  test('SPEC 7.6: shows a failure in the background', async () => {
    const begun = await client.submit('wait', { ms: 0, fail: true })
    assert.equal(begun.status, 202)
    const ended = await client.ended(statusPath(begun))
    assert.equal(ended.status, 200)
    assert.equal(ended.json.status, 'failed')
    assert.deepEqual(ended.json.error, { code: 'told_to_fail', message: 'The task failed, as it was told to.' })
    assert.equal('result' in ended.json, false)
  })

  test('responds to HEAD as to GET, without the body', async () => {
    const begun = await client.submit('wait', { ms: 0 })
    await client.ended(statusPath(begun))
    const get = await client.ask('GET', statusPath(begun))
    const head = await client.ask('HEAD', statusPath(begun))
    assert.equal(head.status, 200)
    assert.equal(head.text, '')
    assert.equal(head.headers.get('etag'), get.headers.get('etag'))
    assert.equal(head.headers.get('content-length'), get.headers.get('content-length'))
  })
})

describe('the job queue of the reference server', () => {
  test('SPEC 4.7, 2.6: responds to POST /start-job with a 202, jobId and statusUrl', async () => {
    for (const body of [undefined, {}, { ms: 1 }, { task: 'none' }, { anything: ['goes'] }]) {
      const begun = await client.ask('POST', '/start-job', { body })
      assert.equal(begun.status, 202)
      assert.match(begun.json.statusUrl, JOB_STATUS)
      assert.equal(begun.json.statusUrl, `/job-status/${begun.json.jobId}`)
      assert.equal(begun.headers.get('location'), begun.json.statusUrl)
      assert.equal(begun.headers.get('content-location'), begun.json.statusUrl)
    }
  })

  test('SPEC 4.7, 2.6: responds to GET /job-status/{id} with a 200, id and state', async () => {
    const begun = await client.ask('POST', '/start-job', { body: { ms: 100 } })
    assert.ok(['queued', 'processing'].includes(begun.json.state))
    const now = await client.ask('GET', begun.json.statusUrl)
    assert.equal(now.status, 200)
    assert.equal(now.json.id, begun.json.jobId)
    assert.ok(['queued', 'processing', 'completed'].includes(now.json.state))
    const ended = await client.ended(begun.json.statusUrl)
    assert.equal(ended.json.id, begun.json.jobId)
    assert.equal(ended.json.state, 'completed')
    assert.equal(ended.json.result.message, 'Processed 10 bytes of job data.')
  })

  test('SPEC 4.7, 7.404: responds with a 404 with error for an unknown job', async () => {
    const missing = await client.ask('GET', '/job-status/nope')
    assert.equal(missing.status, 404)
    assert.equal(missing.text, '{"error":"No such job.","code":"job_not_found"}')
  })

  test('SPEC 4.7: does not depend on the preference', async () => {
    for (const prefer of ['respond-async', 'wait=5', 'return=minimal']) {
      assert.equal((await client.ask('POST', '/start-job', { body: { ms: 0 }, headers: { prefer } })).status, 202)
    }
  })

  test('SPEC 4.7, 7.400: responds with 400 to malformed job data', async () => {
    for (const body of ['{"a"', 'undefined', '{} {}', '[1,]']) {
      const { status, json } = await client.ask('POST', '/start-job', { body })
      assert.deepEqual([status, json.code], [400, 'malformed_json'], body)
    }
  })

  test('SPEC 4.7: passes job data of any shape to the job unchanged', async () => {
    const all = [
      { name: 'x', nested: { list: [1, null] } },
      { ms: -1, other: true },
      [],
      [1, { a: 2 }],
      3,
      'text',
      '',
      null,
      false,
      { data: { ms: 5 } },
      { task: 'none' },
      { task: 3 },
      { task: 'wait', msec: 1 },
      { startAt: 'PT1H' },
      { callbackUrl: 7, startAt: 'never' },
    ]
    for (const data of all) {
      const accepted = await client.ask('POST', '/start-job', { body: JSON.stringify(data) })
      assert.equal(accepted.status, 202, accepted.text)
      const { json } = await client.ended(accepted.headers.get('location') ?? '')
      assert.deepEqual([json.state, json.result.data], ['completed', data])
    }
  })
})

describe('the tasks of the reference server', () => {
  test('include checksum, which reads 64 MiB with progress', async () => {
    const done = await client.ask('POST', TASKS, { body: { task: 'checksum', data: {} } })
    assert.equal(done.json.bytes, 64 * 1024 * 1024)
    assert.equal(done.json.sha256, '96483465222d641e7b1355b562a95f49065bf625201a9a65b980ab1b5e45a820')
    const begun = await client.submit('checksum', {})
    const ended = await client.ended(statusPath(begun))
    assert.equal(ended.json.result.sha256, done.json.sha256)
    assert.deepEqual(ended.json.progress, { done: done.json.bytes, total: done.json.bytes })
  })

  test('include export-users, which writes all users or those of a role', async () => {
    const [all, ...some] = await Promise.all([undefined, 'viewer', 'editor', 'admin'].map(async (role) => {
      const data = role === undefined ? {} : { role }
      return (await client.ask('POST', TASKS, { body: { task: 'export-users', data } })).json
    }))
    const lines = seededUsers().map((user) => JSON.stringify(user) + '\n').join('')
    assert.ok(all.count >= 1000)
    assert.equal(all.bytes, Buffer.byteLength(lines))
    assert.equal(all.sha256, createHash('sha256').update(lines).digest('hex'))
    assert.equal(some.reduce((sum, { count }) => sum + count, 0), all.count)
  })

  test('stop in the middle when their signal aborts', { timeout: 30_000 }, async () => {
    const reports: number[] = []
    /** Aborts at the first report. */
    const context = () => {
      const stop = new AbortController()
      return {
        ...testContext(wait), signal: stop.signal,
        progress(done: number) {
          reports.push(done)
          stop.abort()
        }
      }
    }
    await assert.rejects(async () => wait.run({ ms: 60_000 }, { ...context(), signal: AbortSignal.timeout(10) }), {
      name: 'AbortError',
    })
    await assert.rejects(async () => checksum.run({}, context()), { name: 'AbortError' })
    const writer = exportUsers(new MemoryUsers(seededUsers()))
    const { files } = testContext(writer)
    await assert.rejects(async () => writer.run({}, { ...context(), files }), { name: 'AbortError' })
    assert.deepEqual(reports, [256 * 1024, 50])
  })
})

describe('the other paths and methods of the reference server', () => {
  test('SPEC 7.404: an unknown path gets a 404, with and without a token', async () => {
    for (const token of [null, 'writer-1']) {
      const missing = await client.ask('GET', '/nowhere', { token })
      assert.equal(missing.status, 404)
      assert.equal(missing.json.code, 'not_found')
    }
  })

  test('SPEC 7.405: a method that the path does not support gets a 405 with Allow', async () => {
    const refused = await client.ask('PUT', '/start-job')
    assert.equal(refused.status, 405)
    assert.equal(refused.headers.get('allow'), 'POST, OPTIONS')
    assert.equal(refused.json.code, 'method_not_allowed')
    const status = await client.ask('POST', '/api/status/x')
    assert.equal(status.headers.get('allow'), 'GET, HEAD, DELETE, OPTIONS')
  })

  test('OPTIONS is public and lists what is supported', async () => {
    for (const path of ['/api/long-running-task', '/start-job']) {
      const options = await client.ask('OPTIONS', path, { token: null })
      assert.equal(options.status, 200)
      assert.equal(options.headers.get('allow'), 'POST, OPTIONS')
    }
  })

  test('SPEC 7.501: an unknown method gets a 501', async () => {
    const unknown = await client.ask('BREW', '/start-job')
    assert.equal(unknown.status, 501)
    assert.equal(unknown.json.code, 'not_implemented')
  })

  test('SPEC 7.1, 7.2, 7.3: every rejection has error and code, and no internal detail', async () => {
    const refusals = await Promise.all([
      client.ask('GET', '/api/status/nope'),
      client.ask('GET', '/nowhere'),
      client.ask('PUT', '/start-job'),
      client.ask('BREW', '/'),
      client.ask('GET', '/api/status/nope', { token: null }),
      client.ask('POST', TASKS, { token: 'reader-1' }),
      client.ask('POST', TASKS, { body: '{' }),
      client.ask('POST', TASKS, { body: {} }),
      client.submit('export-users', { role: 'king' }),
      client.ask('POST', TASKS, { body: '<x/>', headers: { 'content-type': 'text/xml' } }),
      client.ask('POST', TASKS, { body: 'x'.repeat(1_100_000) }),
      client.submit('wait', {}, { headers: { 'idempotency-key': 'a b' } }),
    ])
    for (const { status, headers, json, text } of refusals) {
      assert.ok(status >= 400)
      assert.equal(headers.get('content-type'), 'application/json')
      assert.deepEqual(Object.keys(json).filter((key) => key !== 'details' && key !== 'reason'), ['error', 'code'])
      assert.match(json.error, /^[A-Z].*\.$/)
      assert.match(json.code, /^[a-z_]+$/)
      assert.doesNotMatch(text, /\bat \/|\.ts\b|\.js\b|node:|node_modules|SyntaxError|stack/)
    }
  })

  test('SPEC 7.2: a client that accepts problem+json gets the same error as problem details', async () => {
    const problem = await client.ask('GET', '/api/status/nope', { headers: { accept: 'application/problem+json' } })
    assert.equal(problem.headers.get('content-type'), 'application/problem+json')
    assert.equal(problem.json.status, 404)
    assert.equal(problem.json.code, 'task_not_found')
  })

  test('the front page is public and names every route', async () => {
    const page = await client.ask('GET', '/', { token: null })
    assert.equal(page.status, 200)
    assert.equal(page.headers.get('content-type'), 'text/html; charset=utf-8')
    for (const route of [
      'POST /api/long-running-task', 'GET /api/status/{id}', 'POST /start-job',
      'GET /job-status/{id}',
    ]) {
      assert.ok(page.text.includes(route), route)
    }
    assert.ok(page.text.includes(`${client.url}/api/long-running-task`))
  })
})
