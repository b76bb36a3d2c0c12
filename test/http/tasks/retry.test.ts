// POST {status}/retry and DELETE with `remove: 'forget'`, as a client sees them.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { httpError } from '../../../src/http/errors.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { jobFormat } from '../../../src/tasks/http/formats.js'
import { ended } from '../../unit/kit/tasks.js'
import { BINDINGS, members, site, type Binding } from '../kit/tasks.js'
import { deferred } from '../../kit/wait.js'

/** Work that fails until it is allowed to succeed. */
function unlucky() {
  const runs: number[] = []
  const released: string[] = []
  const state = { succeeds: false, runs, released }
  const work = defineTask({
    name: 'unlucky',
    run: (_: unknown, { attempt }) => {
      runs.push(attempt)
      if (!state.succeeds) throw httpError('unprocessable', { message: 'Bad luck.' })
      return { message: 'done' }
    },
    external: { of: () => 'upload', release: (name) => { released.push(name) } },
  })
  return { state, work }
}

/** A site with one failed task of Ann. */
async function failedSite(
  t: Parameters<typeof site>[0], options: Parameters<typeof site>[3] = {}, binding: Binding = 'node',
) {
  const { state, work } = unlucky()
  const made = await site(t, binding, work, options)
  const ann = { 'x-user': 'ann' }
  const { taskId, jobId = taskId } = await members(await made.start({}, ann))
  const id = String(jobId)
  await ended(made.tasks, id)
  const path = `${options.mountPath ?? ''}/api/status/${id}`
  const retry = (headers: Record<string, string> = {}, body?: unknown) => (
    made.call('POST', `${path}/retry`, { headers: { ...ann, ...headers }, body })
  )
  return { ...made, id, path, state, ann, retry }
}

for (const binding of BINDINGS) {
  test(`a retry over ${binding} is a 202 with the status of the task, below the mount path`, async (t) => {
    const { retry, path, state, tasks, id } = await failedSite(t, { mountPath: '/v1' }, binding)
    state.succeeds = true
    const response = await retry()
    assert.equal(response.status, 202)
    assert.deepEqual(
      ['location', 'content-location'].map((name) => response.headers.get(name)), [path, path],
    )
    assert.match(response.headers.get('retry-after') ?? '', /^[0-9]+$/)
    const { status, taskId, error } = await members(response)
    assert.deepEqual([status, taskId, error], ['processing', id, undefined])
    const end = await ended(tasks, id)
    assert.deepEqual([end.status, end.attempt, state.runs], ['completed', 2, [1, 2]])
  })
}

describe('POST {status}/retry', () => {
  test('gets a 409 if the task runs or is completed, with a code for each case', async (t) => {
    const gate = deferred()
    const work = defineTask({ name: 'work', run: () => gate.promise })
    const { call, start, tasks } = await site(t, 'node', work)
    const { taskId } = await members(await start())
    const retry = async () => {
      const response = await call('POST', `/api/status/${String(taskId)}/retry`)
      return [response.status, (await members(response))['code']]
    }
    assert.deepEqual(await retry(), [409, 'task_not_final'])
    gate.resolve()
    await ended(tasks, String(taskId))
    assert.deepEqual(await retry(), [409, 'task_already_completed'])
  })

  test('runs the task once if a client repeats it after a lost response', async (t) => {
    const { retry, state, tasks, id } = await failedSite(t)
    state.succeeds = true
    const key = { 'idempotency-key': '"retry-1"' }
    const first = await retry(key)
    const body = await first.text()
    await ended(tasks, id)
    const again = await retry(key)
    assert.deepEqual([again.status, again.headers.get('idempotent-replayed')], [202, 'true'])
    assert.deepEqual([await again.text(), state.runs], [body, [1, 2]])
    assert.equal((await retry()).status, 409, 'without the key')
  })

  test('waits for the result if the client requests that', async (t) => {
    const { retry, state } = await failedSite(t)
    const failure = await retry({ prefer: 'wait=5' })
    assert.deepEqual([failure.status, (await members(failure))['error']], [422, 'Bad luck.'])
    state.succeeds = true
    const response = await retry({ prefer: 'wait=5' })
    assert.deepEqual([response.status, await members(response)], [200, { message: 'done' }])
    assert.equal(response.headers.get('preference-applied'), 'wait=5')
  })

  test('takes no body, or an empty object', async (t) => {
    const { retry, tasks, id } = await failedSite(t)
    for (const body of [{ a: 1 }, [], 'x', 1]) {
      const response = await retry({}, body)
      assert.deepEqual([response.status, (await members(response))['code']], [400, 'invalid_input'])
    }
    assert.equal((await tasks.get(id))?.attempt, 1)
    assert.equal((await retry({}, {})).status, 202)
  })

  test('gets a 403 if a page of another site sends it, and nothing runs', async (t) => {
    const { retry, state } = await failedSite(t)
    const pages = [
      { 'sec-fetch-site': 'cross-site' }, { 'sec-fetch-site': 'cross-site, none' },
      // Older browsers, and pages of http, send Origin alone.
      { origin: 'https://evil.example' }, { origin: 'null' },
    ]
    let own = ''
    for (const headers of pages) {
      const response = await retry(headers)
      own = new URL(response.url).origin
      assert.deepEqual(
        [response.status, (await members(response))['code']],
        [403, 'cross_site'],
        JSON.stringify(headers),
      )
    }
    assert.deepEqual(state.runs, [1])
    assert.equal((await retry({ origin: own })).status, 202)
  })

  test('gets a 503 if the queue is full, and the task stays unchanged', async (t) => {
    const gate = deferred()
    const other = defineTask({ name: 'other', run: () => gate.promise })
    const { retry, tasks, id, spy } = await failedSite(t, { more: [other], maxUnfinished: 1 })
    const before = await tasks.get(id)
    const { taskId } = await tasks.submit(other, {})
    const response = await retry()
    assert.deepEqual([response.status, (await members(response))['code']], [503, 'queue_full'])
    assert.ok(response.headers.has('retry-after'))
    assert.deepEqual(await tasks.get(id), before)
    gate.resolve()
    await ended(tasks, taskId)
    spy.fault = (call) => call.startsWith('change') ? 'before' : undefined
    assert.equal((await retry()).status, 503)
    assert.deepEqual(await tasks.get(id), before)
  })

  test('gets a 410 once the data of its input are no longer stored', async (t) => {
    const work = defineTask({
      name: 'unlucky', run: () => { throw httpError('unprocessable') },
      external: { of: () => 'upload', release: () => undefined, renew: () => !isGone },
    })
    let isGone = false
    const { call, start, tasks } = await site(t, 'node', work)
    const id = String((await members(await start()))['taskId'])
    await ended(tasks, id)
    isGone = true
    const response = await call('POST', `/api/status/${id}/retry`)
    assert.deepEqual([response.status, (await members(response))['code']], [410, 'gone'])
    assert.equal((await tasks.get(id))?.status, 'failed')
  })

  test('gets a 404 for a task that expires at this moment, and leaves nothing', async (t) => {
    const { retry, spy, store, engine, id } = await failedSite(t)
    // The task expires between the read and the change.
    const task = await engine.read(id)
    spy.fault = (call) => {
      if (call === `change ${id}` && task) void engine.delete(task, task.version)
      return undefined
    }
    const response = await retry()
    assert.equal(response.status, 404)
    assert.deepEqual([store.usage().entries, engine.usage().tasks], [0, 0])
  })

  test('gets a 405 with Allow for other methods', async (t) => {
    const { call, path, ann } = await failedSite(t)
    for (const method of ['GET', 'DELETE', 'PUT']) {
      const response = await call(method, `${path}/retry`, { headers: ann })
      assert.deepEqual([response.status, response.headers.get('allow')?.includes('POST')], [405, true])
    }
  })

  test('SPEC 3.1: shows the job format if the status resource does', async (t) => {
    const { retry, id } = await failedSite(t, { endpoints: { format: jobFormat } })
    const { state, jobId, attempts } = await members(await retry())
    assert.deepEqual([state, jobId], ['queued', id])
    assert.deepEqual(
      (attempts as { attempt: number }[]).map(({ attempt }) => attempt),
      [1],
      'SPEC 3.1 allows more members',
    )
  })
})

describe("DELETE with remove: 'forget'", () => {
  const forget = { endpoints: { remove: 'forget' } } as const

  test('deletes a final task and all its data, after which its id is unknown', async (t) => {
    const { call, path, ann, state, retry } = await failedSite(t, forget)
    const unknown = await (await call('GET', '/api/status/unknown', { headers: ann })).text()
    assert.deepEqual(state.released, [])
    const kept = await call('DELETE', path, { headers: ann })
    assert.deepEqual([kept.status, (await members(kept))['code'], state.released], [428, 'precondition_required', []])
    const etag = (await call('GET', path, { headers: ann })).headers.get('etag') ?? ''
    const gone = await call('DELETE', path, { headers: { ...ann, 'if-match': etag } })
    assert.deepEqual([gone.status, await gone.text(), state.released], [204, '', ['upload']])
    for (const answer of [
      await call('GET', path, { headers: ann }),
      await call('DELETE', path, { headers: ann }),
      await retry(),
    ]) {
      assert.deepEqual([answer.status, await answer.text()], [404, unknown])
    }
  })

  test('still cancels an unfinished task', async (t) => {
    const work = defineTask({ name: 'work', run: () => new Promise(() => undefined) })
    const { call, start } = await site(t, 'node', work, forget)
    const { taskId } = await members(await start())
    const remove = () => call('DELETE', `/api/status/${String(taskId)}`)
    const cancelled = await remove()
    assert.deepEqual([cancelled.status, (await members(cancelled))['status']], [200, 'cancelled'])
    // Its answer was lost: RFC 9110 section 9.2.2.
    const repeated = await remove()
    assert.deepEqual([repeated.status, (await members(repeated))['status']], [200, 'cancelled'])
  })

  test('does not delete a task that the first of two equal requests with If-Match has cancelled', async (t) => {
    const work = defineTask({ name: 'work', run: () => new Promise(() => undefined) })
    const { call, start } = await site(t, 'node', work, forget)
    const path = `/api/status/${String((await members(await start()))['taskId'])}`
    const tag = async () => (await call('GET', path)).headers.get('etag') ?? ''
    const remove = (headers: Record<string, string>) => call('DELETE', path, { headers })
    const first = await tag()
    for (const headers of [{ 'if-match': '"other"' }, { 'if-match': `W/${first}` }, { 'if-none-match': '*' }]) {
      const refused = await remove(headers)
      assert.deepEqual([refused.status, (await members(refused))['code']], [412, 'precondition_failed'])
      assert.equal(refused.headers.get('etag'), first)
    }
    assert.equal((await remove({ 'if-match': first })).status, 200)
    const repeated = await remove({ 'if-match': first })
    assert.deepEqual([repeated.status, repeated.headers.get('etag')], [412, await tag()])
    assert.equal((await remove({ 'if-match': '*' })).status, 200)
    assert.equal((await remove({ 'if-none-match': '*' })).status, 412)
    assert.equal((await remove({ 'if-match': await tag() })).status, 204)
    // RFC 9110 section 13.2.1: conditions count only where the answer would be a success.
    assert.equal((await remove({ 'if-match': first })).status, 404)
  })

  test('frees the Idempotency-Key of the task', async (t) => {
    const { work } = unlucky()
    const { start, call, tasks } = await site(t, 'node', work, forget)
    const key = { 'idempotency-key': '"k"' }
    const { taskId } = await members(await start({}, key))
    await ended(tasks, String(taskId))
    const path = `/api/status/${String(taskId)}`
    const etag = (await call('GET', path)).headers.get('etag') ?? ''
    assert.equal((await call('DELETE', path, { headers: { 'if-match': etag } })).status, 204)
    const next = await start({}, key)
    assert.deepEqual([next.status, next.headers.get('idempotent-replayed')], [202, null])
    assert.notEqual((await members(next))['taskId'], taskId)
  })

  test('is off by default, so that a final task gets a 409', async (t) => {
    const { call, path, ann } = await failedSite(t)
    for (const headers of [ann, { ...ann, 'if-match': '"other"' }]) {
      assert.equal((await call('DELETE', path, { headers })).status, 409)
    }
  })

  test('is off by default, so that a cancelled task stays and repeats its response', async (t) => {
    const work = defineTask({ name: 'work', run: () => new Promise(() => undefined) })
    const { call, start } = await site(t, 'node', work)
    const path = `/api/status/${String((await members(await start()))['taskId'])}`
    const first = await call('DELETE', path)
    const again = await call('DELETE', path)
    assert.deepEqual([first.status, again.status, await again.text()], [200, 200, await first.text()])
    const tagged = await call('DELETE', path, { headers: { 'if-match': first.headers.get('etag') ?? '' } })
    assert.deepEqual([tagged.status, (await members(tagged))['code']], [409, 'task_already_final'])
  })
})

test('GET and HEAD of a status honour If-Match', async (t) => {
  const { call, path, ann } = await failedSite(t)
  const tag = (await call('GET', path, { headers: ann })).headers.get('etag') ?? ''
  for (const [wanted, status] of [['"other"', 412], [tag, 200], ['*', 200]] as const) {
    const answer = await call('GET', path, { headers: { ...ann, 'if-match': wanted } })
    assert.equal(answer.status, status, wanted)
  }
  const both = { ...ann, 'if-match': '"other"', 'if-none-match': tag }
  assert.equal((await call('GET', path, { headers: both })).status, 412)
})

test('only the owner retries, deletes or redelivers a task, and other users get the response of an unknown id', async (t) => {
  const { work } = unlucky()
  const { call, start, tasks } = await site(t, 'fetch', work, { endpoints: { remove: 'forget' } })
  const owners = [undefined, 'ann', 'bob', 'ann ', 'undefined', 'null'] as const
  const asOwner = (owner: string | undefined): Record<string, string> =>
    owner === undefined ? {} : { 'x-user': owner }
  const requests = [
    ['POST', '/retry'],
    ['POST', '/callback'],
    ['DELETE', ''],
  ] as const
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...owners),
      fc.constantFrom(...owners),
      fc.constantFrom(...requests),
      fc.constantFrom({}, { prefer: 'wait=1' }, { 'idempotency-key': '"k1"' }),
      async (owner, other, [method, below], headers) => {
        fc.pre(owner?.trim() !== other?.trim())
        const { taskId } = await members(await start({}, asOwner(owner)))
        const id = String(taskId)
        const before = await ended(tasks, id)
        const send = async (target: string) => {
          const response = await call(method, `/api/status/${target}${below}`, {
            headers: { ...headers, ...asOwner(other) },
          })
          return [response.status, await response.text()]
        }
        assert.deepEqual(await send(id), await send('unknown'))
        assert.deepEqual(await tasks.get(id), before)
        const outcomes = [
          await tasks.ownedBy(other).retry(id),
          await tasks.ownedBy(other).delete(id),
          await tasks.ownedBy(other).redeliver(id),
        ]
        assert.deepEqual(outcomes, [undefined, false, false])
        assert.deepEqual(await tasks.get(id), before)
      },
    ),
    { numRuns: 60 },
  )
})
