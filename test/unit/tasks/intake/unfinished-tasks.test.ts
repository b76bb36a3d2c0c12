import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { memory } from '../../../../adapters/memory/index.js'
import type { BodySource, Handler } from '../../../../src/http/exchange.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { ask } from '../../kit/request.js'
import { deferred, eventually } from '../../../kit/wait.js'

const MAX = 100
const empty: BodySource = {
  parsed: undefined,
  bytes: async () => Buffer.alloc(0),
  stream: async function* () {
    yield Buffer.alloc(0)
  },
}
const body: BodySource = {
  parsed: { value: {} },
  bytes: async () => Buffer.from('{}'),
  stream: async function* () {
    yield Buffer.from('{}')
  },
}

interface Site {
  readonly post: (
    owner: string,
    headers?: Record<string, string>,
  ) => Promise<{ readonly status: number; readonly id: string; readonly code: string }>
  readonly tasks: ReturnType<typeof createTasks>
  readonly gate: ReturnType<typeof deferred<void>>
  readonly retry: (owner: string, id: string) => Promise<number>
}

/** Endpoints whose tasks wait for a gate. With `worker: false` nothing in this process ends them. */
function site(t: TestContext, parts = memory(), worker = true): Site {
  const gate = deferred<void>()
  const definitions = [
    defineTask({ name: 'slow', run: () => gate.promise }),
    defineTask({ name: 'other', run: () => gate.promise }),
    defineTask({ name: 'fails', run: () => { throw new Error('no') } }),
    defineTask({ name: 'own', maxPerOwner: 150, run: () => gate.promise }),
    defineTask({ name: 'any', maxPerOwner: Infinity, run: () => gate.promise }),
  ] as const
  const tasks = createTasks({ ...parts, definitions, worker, onError: () => undefined })
  t.after(() => tasks.close({ drainMs: 0 }))
  const endpoints = taskEndpoints(tasks, {
    statusPath: '/tasks/{id}',
    anonymous: true,
    owner: ({ headers }) => headers['x-user'] as string,
  })
  const submit: Record<string, Handler> = Object.fromEntries(
    definitions.map((each) => [each.name, endpoints.submit(each)]),
  )
  const post: Site['post'] = async (owner, headers = {}) => {
    const { 'x-kind': kind = 'slow', ...rest } = headers
    const reply = await ask(submit[kind] as Handler, {
      method: 'POST',
      path: '/',
      body,
      headers: { 'x-user': owner, 'content-type': 'application/json', 'prefer': 'respond-async', ...rest },
    })
    const { code = '', taskId = '' } = reply.json as { code?: string, taskId?: string }
    return { status: reply.status, id: taskId, code }
  }
  const retry = async (owner: string, id: string) => (await ask(endpoints.retry, {
    method: 'POST', path: `/tasks/${id}/retry`, body: empty, headers: { 'x-user': owner },
  })).status
  return { post, tasks, gate, retry }
}

async function fill({ post }: Site, owner: string, count = MAX): Promise<string[]> {
  const made = await Promise.all(Array.from({ length: count }, () => post(owner)))
  assert.deepEqual([...new Set(made.map(({ status }) => status))], [202])
  return made.map(({ id }) => id)
}

describe('the default of maxPerOwner', () => {
  test('keeps one owner from filling the queue of a server without options', async (t) => {
    const { post } = site(t)
    const flood = await Promise.all(Array.from({ length: 1500 }, () => post('mallory')))
    const codes = flood.map(({ status, code }) => `${String(status)} ${code}`)
    assert.equal(codes.filter((each) => each.startsWith('202')).length, MAX)
    assert.equal(codes.filter((each) => each === '429 too_many_tasks').length, 1400)
    assert.equal((await post('ann')).status, 202)
  })

  test('counts tasks of all kinds together, and a definition may have another limit', async (t) => {
    const here = site(t)
    await fill(here, 'ann', 60)
    for (let n = 0; n < 40; n++) assert.equal((await here.post('ann', { 'x-kind': 'other' })).status, 202)
    assert.equal((await here.post('ann', { 'x-kind': 'other' })).status, 429)
    for (let n = 0; n < 150; n++) assert.equal((await here.post('ann', { 'x-kind': 'own' })).status, 202)
    assert.equal((await here.post('ann', { 'x-kind': 'own' })).status, 429)
    for (let n = 0; n < 200; n++) assert.equal((await here.post('ann', { 'x-kind': 'any' })).status, 202)
  })

  test('does not count tasks that have ended', async (t) => {
    const here = site(t)
    const ids = await fill(here, 'ann')
    assert.equal((await here.post('ann')).status, 429)
    await here.tasks.cancel(ids[0] as string)
    assert.equal((await here.post('ann')).status, 202)
    assert.equal((await here.post('ann')).status, 429)
    here.gate.resolve()
    await eventually(async () => (await here.tasks.get(ids[99] as string))?.status === 'completed')
    await fill(here, 'ann', 99)
  })

  test('never gives a 429 when another process has ended all tasks of the owner', async (t) => {
    const parts = memory()
    const web = site(t, parts, false)
    const ids = await fill(web, 'ann')
    const other = site(t, parts)
    assert.equal((await web.post('ann')).status, 429)
    for (const id of ids) await other.tasks.cancel(id)
    assert.equal((await web.post('ann')).status, 202)
    await fill(web, 'ann', 50)
  })

  test('gives the last place to one of many waiting requests', async (t) => {
    const parts = memory()
    const web = site(t, parts, false)
    const ids = await fill(web, 'ann')
    await site(t, parts).tasks.cancel(ids[0] as string)
    const flood = await Promise.all(Array.from({ length: 500 }, () => web.post('ann')))
    assert.equal(flood.filter(({ status }) => status === 202).length, 1)
  })

  test('accepts a retry of an accepted request at the limit, and counts a retried task', async (t) => {
    const here = site(t)
    const failed = await here.post('ann', { 'x-kind': 'fails' })
    await eventually(async () => (await here.tasks.get(failed.id))?.status === 'failed')
    const first = await here.post('ann', { 'idempotency-key': 'k' })
    await fill(here, 'ann', MAX - 1)
    assert.equal((await here.post('ann')).status, 429)
    assert.deepEqual(await here.post('ann', { 'idempotency-key': 'k' }), first)
    assert.equal((await here.post('ann', { 'idempotency-key': 'new' })).status, 429)
    assert.equal(await here.retry('ann', failed.id), 429)
    await here.tasks.cancel(first.id)
    assert.equal(await here.retry('ann', failed.id), 202)
  })

  test('does not count tasks that the application submits', async (t) => {
    const here = site(t)
    const slow = here.tasks.definition('slow')
    assert.ok(slow)
    for (let n = 0; n < MAX; n++) await here.tasks.submit(slow, {}, { owner: 'ann' })
    await fill(here, 'ann')
  })
})
