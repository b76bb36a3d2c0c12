// Work for later over HTTP. SPEC 3.1, SPEC 4.6
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { toFetch } from '../../../adapters/fetch/index.js'
import { memory } from '../../../adapters/memory/index.js'
import { bulkCreate } from '../../../src/bulk/create.js'
import type { HttpError } from '../../../src/http/errors.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { parseStart } from '../../../src/tasks/http/start-at.js'
import { jobFormat } from '../../../src/tasks/http/formats.js'
import type { FindStart } from '../../../src/tasks/http/settings.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { testClock } from '../../../src/testing/test-clock.js'

const HOUR_MS = 3_600_000

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly json: Record<string, unknown>
}

function api(t: TestContext, startAt: FindStart = (body) => body['startAt']) {
  const clock = testClock()
  const runs: unknown[] = []
  const work = defineTask({ name: 'work', run: (input) => { runs.push(input) } })
  const tasks = createTasks({ ...memory({ clock }), definitions: [work] })
  const options = { owner: 'anyone', startAt } as const
  const asTask = taskEndpoints(tasks, { statusPath: '/tasks/{id}', ...options })
  const asJob = taskEndpoints(tasks, { statusPath: '/jobs/{id}', format: jobFormat, ...options })
  const submit = asTask.submit(work)
  const handle = toFetch(async (request) => (
    await asTask.status(request) ?? await asJob.status(request) ?? await submit(request)
  ), { onError: () => undefined })
  t.after(() => tasks.close({ drainMs: 0 }))
  const send = async (
    method: string,
    path: string,
    headers: Record<string, string> = {},
    body?: unknown,
  ): Promise<Answer> => {
    const response = await handle(
      new Request(`http://x${path}`, {
        method,
        headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      }),
    )
    const text = await response.text()
    return {
      status: response.status,
      headers: response.headers,
      json: text.startsWith('{') ? (JSON.parse(text) as Answer['json']) : {},
    }
  }
  const post = (startAt: unknown, headers: Record<string, string> = { prefer: 'respond-async' }) => (
    send('POST', '/work', headers, { startAt })
  )
  return { clock, tasks, runs, send, post }
}

describe('SPEC 3.1: a task with a later start', () => {
  for (const startAt of ['PT1H', 'PT60M', 'PT3600S', 'P0DT1H', new Date(Date.now() + HOUR_MS).toISOString()]) {
    test(`is processing with a start at ${startAt.replace(/^\d.*/, 'a time')}, and runs then`, async (t) => {
      const { clock, send, post, runs, tasks } = api(t)
      const { status, headers, json } = await post(startAt)
      assert.equal(status, 202)
      assert.equal(json['status'], 'processing')
      const startsIn = Date.parse(json['startAt'] as string) - Date.now()
      assert.ok(Math.abs(startsIn - HOUR_MS) < 60_000, `${String(startsIn)} ms`)
      const retryAfter = Number(headers.get('retry-after'))
      assert.ok(retryAfter > 3500 && retryAfter <= 3600, `${String(retryAfter)} s`)
      const id = json['taskId'] as string
      assert.equal((await tasks.get(id))?.status, 'scheduled')
      const job = await send('GET', `/jobs/${id}`)
      assert.equal(job.json['state'], 'scheduled')
      await clock.advance(HOUR_MS - 60_000)
      assert.equal(runs.length, 0)
      await clock.advance(61_000)
      assert.equal((await send('GET', `/tasks/${id}`)).json['status'], 'completed')
      assert.equal(runs.length, 1)
    })
  }

  test('RFC 7240 section 2: gets a 202 without a preference, because it has no result yet', async (t) => {
    const { post } = api(t)
    const { status, headers } = await post('PT1H', {})
    assert.equal(status, 202)
    assert.equal(headers.get('preference-applied'), null)
  })

  test('never runs if it is cancelled before its start', async (t) => {
    const { clock, send, post, runs } = api(t)
    const { headers } = await post('PT1H')
    const cancelled = await send('DELETE', headers.get('location') ?? '')
    assert.deepEqual([cancelled.status, cancelled.json['status']], [200, 'cancelled'])
    await clock.advance(2 * HOUR_MS)
    assert.equal(runs.length, 0)
  })

  test('starts in time if its start is in more than 24.8 days', async (t) => {
    const { clock, post, runs } = api(t)
    assert.equal((await post('P8W')).status, 202)
    await clock.advance(55 * 24 * HOUR_MS)
    assert.equal(runs.length, 0)
    await clock.advance(25 * HOUR_MS)
    assert.equal(runs.length, 1)
  })

  test('completes a long poll at its start, and another one at its end', async (t) => {
    const { clock, send, post } = api(t)
    const { headers } = await post('PT1H')
    const path = headers.get('location') ?? ''
    const early = await send('GET', path, { prefer: 'wait=1' })
    assert.deepEqual([early.status, early.json['status']], [200, 'processing'])
    const late = send('GET', path, { prefer: 'wait=20' })
    await clock.advance(HOUR_MS + 1000)
    assert.equal((await late).json['status'], 'completed')
  })

  test('has another entity tag after its start, because the state of a job has changed', async (t) => {
    const { send, tasks } = api(t)
    const work = tasks.definition('work')
    assert.ok(work)
    // The clock of the queue stands still, so it does not run.
    const { taskId } = await tasks.submit(work, {}, { startAt: new Date(Date.now() + 400) })
    const before = await send('GET', `/jobs/${taskId}`)
    assert.equal(before.json['state'], 'scheduled')
    let after = before
    while (after.json['state'] === 'scheduled') after = await send('GET', `/jobs/${taskId}`)
    assert.equal(after.json['state'], 'queued')
    assert.notEqual(after.headers.get('etag'), before.headers.get('etag'))
  })

  test('is found by a retry with its Idempotency-Key after its start', async (t) => {
    const { clock, post } = api(t)
    const keyed = { 'prefer': 'respond-async', 'idempotency-key': 'a-key' }
    const startAt = new Date(Date.now() + 300).toISOString()
    const first = await post(startAt, keyed)
    assert.equal(first.status, 202)
    await clock.advance(1000)
    await new Promise((resolve) => { setTimeout(resolve, Math.max(Date.parse(startAt) + 1200 - Date.now(), 0)) })
    const again = await post(startAt, keyed)
    assert.deepEqual([again.status, again.json['taskId']], [202, first.json['taskId']])
    assert.equal(again.headers.get('idempotent-replayed'), 'true')
  })
})

describe('the error of an invalid start points at its place in the body', () => {
  type Body = Readonly<Record<string, unknown>>
  const nested: FindStart = (body) => (body['schedule'] as Body)['a/b']
  const fromHeader: FindStart = (_, { headers }) => headers['x-start']
  const cases: [title: string, find: FindStart, body: Body, pointer: string][] = [
    ['in an object', nested, { schedule: { 'a/b': 'tomorrow' } }, '/schedule/a~1b'],
    ['in an array', (body) => (body['runs'] as Body[])[1]?.['at'], { runs: [{}, { at: null }] }, '/runs/1/at'],
    ['out of range', nested, { schedule: { 'a/b': 'P367D' } }, '/schedule/a~1b'],
    [
      'startAt, although another member is equal',
      (body) => body['startAt'],
      { note: 'now', startAt: 'now' },
      '/startAt',
    ],
    ['in one of two members, which cannot be told', nested, { note: 'now', schedule: { 'a/b': 'now' } }, ''],
    ['in a header field', fromHeader, { note: 'never' }, ''],
  ]
  for (const [title, startAt, body, pointer] of cases) {
    test(title, async (t) => {
      const { send } = api(t, startAt)
      const { json } = await send('POST', '/work', { 'prefer': 'respond-async', 'x-start': 'tomorrow' }, body)
      assert.equal((json['details'] as { pointer: string }[])[0]?.pointer, pointer)
    })
  }

  test('with a search that ends at the second match, so that a large body costs little', () => {
    const body = { note: 'now', schedule: { at: 'now' }, get more() { return assert.fail('it was read') } }
    assert.throws(() => parseStart('now', body), (error: HttpError) => error.details?.[0]?.pointer === '')
  })

  test('except in the items of a bulk request, at any depth', async (t) => {
    const { engine, store, blobs } = memory()
    const create = bulkCreate<object, object>({
      repository: { create: (draft) => draft }, items: '/users', background: { name: 'create', blobs },
    })
    const tasks = createTasks({ engine, store, definitions: [create.task] })
    t.after(() => tasks.close({ drainMs: 0 }))
    const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone', startAt: fromHeader })
    const handle = toFetch(create.handler(endpoints), { onError: () => undefined })
    for (const start of ['tomorrow', 'P367D']) {
      for (const users of [`[{"note":"${start}"}]`, `[${'['.repeat(50_000)}${']'.repeat(50_000)}]`]) {
        const headers = { 'content-type': 'application/json', 'prefer': 'respond-async', 'x-start': start }
        const answer = await handle(
          new Request('http://x/users', { method: 'POST', headers, body: `{"users":${users}}` }),
        )
        const { code, details } = await answer.json() as { code: string, details: { pointer: string }[] }
        assert.equal(code, start === 'tomorrow' ? 'invalid_start_at' : 'start_at_out_of_range')
        assert.equal(details[0]?.pointer, '')
      }
    }
  })
})

describe('RFC 3339 section 5.6: an invalid start', () => {
  const malformed = [
    '',
    'tomorrow',
    '2026-12-24',
    '2026-12-24T18:00:00',
    '2026-02-30T18:00:00Z',
    'P',
    'PT',
    'P1Y',
    'P1M',
    'PT1.5H',
    '-PT1H',
    'PT1H30',
    3600,
    null,
    {},
    [],
    true,
  ]
  for (const startAt of malformed) {
    test(`is rejected as malformed: ${JSON.stringify(startAt)}`, async (t) => {
      const { post, runs } = api(t)
      const { status, json } = await post(startAt)
      assert.deepEqual([status, json['code']], [400, 'invalid_start_at'])
      assert.equal((json['details'] as { pointer: string }[])[0]?.pointer, '/startAt')
      assert.equal(runs.length, 0)
    })
  }

  const outside = ['2020-01-01T00:00:00Z', new Date(Date.now() - 10_000).toISOString(), 'P367D', '9999-12-31T23:59:59Z']
  for (const startAt of outside) {
    test(`is rejected as out of range: ${startAt}`, async (t) => {
      const { post, tasks } = api(t)
      const { status, json } = await post(startAt)
      assert.deepEqual([status, json['code']], [422, 'start_at_out_of_range'])
      assert.equal((json['details'] as { pointer: string }[])[0]?.pointer, '/startAt')
      assert.equal((await tasks.list()).items.length, 0)
    })
  }

  test('leaves the Idempotency-Key free', async (t) => {
    const { send } = api(t)
    const keyed = { 'prefer': 'respond-async', 'idempotency-key': 'a-key' }
    assert.equal((await send('POST', '/work', keyed, { startAt: 'P400D' })).status, 422)
    assert.equal((await send('POST', '/work', keyed, { startAt: 'P4D' })).status, 202)
  })
})

test('submit accepts either a start or a delay', async (t) => {
  const { tasks, clock, runs } = api(t)
  const work = tasks.definition('work')
  assert.ok(work)
  await assert.rejects(tasks.submit(work, 1, { startAt: new Date(), delayMs: 1 }), TypeError)
  await assert.rejects(tasks.submit(work, 1, { startAt: new Date(NaN) }), TypeError)
  await assert.rejects(tasks.submit(work, 1, { startAt: new Date(8e15) }), TypeError)
  await tasks.submit(work, 'past', { startAt: new Date(0) })
  await clock.advance(0)
  assert.deepEqual(runs, ['past'])
})
