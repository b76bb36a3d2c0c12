// Direct answers obey the limits of queued work.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { toFetch } from '../../../adapters/fetch/index.js'
import { memory } from '../../../adapters/memory/index.js'
import { createTasks, coreOf } from '../../../src/tasks/tasks.js'
import { defineTask, type AnyTaskDefinition } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import type { TasksOptions } from '../../../src/tasks/core/tasks-options.js'
import { deferred, eventually, keepAlive, within } from '../../kit/wait.js'

type Options = Partial<TasksOptions> & { readonly syncTimeoutMs?: number, readonly parts?: ReturnType<typeof memory> }

function api(
  t: TestContext,
  work: AnyTaskDefinition,
  { syncTimeoutMs = 5000, parts = memory(), ...options }: Options = {},
) {
  const tasks = createTasks({ ...parts, definitions: [work], onError: () => undefined, ...options })
  const owner = ({ headers }: { headers: Readonly<Record<string, unknown>> }) => headers['x-user'] as string | undefined
  const { submit } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner, anonymous: true, syncTimeoutMs })
  const handle = toFetch(submit(work), { onError: () => undefined })
  t.after(() => tasks.close({ drainMs: 0 }))
  const send = (headers: Record<string, string> = {}, signal?: AbortSignal) =>
    handle(
      new Request('http://x/work', {
        method: 'POST',
        body: '{}',
        headers: { 'content-type': 'application/json', ...headers },
        ...(signal && { signal }),
      }),
    )
  return { tasks, send, store: parts.store }
}

/** Counts how many run at once. */
function counted() {
  const gate = deferred()
  const seen = { running: 0, most: 0, begun: 0 }
  const work = defineTask({
    name: 'work', run: async () => {
      seen.begun++
      seen.most = Math.max(seen.most, ++seen.running)
      await gate.promise
      seen.running--
    },
  })
  return { work, gate, seen }
}

async function codeOf(response: Response): Promise<unknown> {
  return (await response.json() as { code?: unknown }).code
}

describe('the concurrency of tasks', () => {
  for (const direct of ['request', 'task'] as const) {
    test(`limits synchronous requests and queued work together, with direct: ${direct}`, async (t) => {
      const { work, gate, seen } = counted()
      const { send, tasks } = api(t, work, { concurrency: 3, direct })
      const answers = Array.from({ length: 6 }, () => send())
      const accepted = await Promise.all(Array.from({ length: 6 }, () => send({ prefer: 'respond-async' })))
      assert.ok(accepted.every(({ status }) => status === 202))
      await eventually(() => seen.begun === 3)
      await new Promise((resolve) => { setTimeout(resolve, 50) })
      assert.equal(seen.begun, 3)
      gate.resolve()
      assert.deepEqual((await Promise.all(answers)).map(({ status }) => status), Array(6).fill(200))
      await eventually(() => seen.begun === 12)
      assert.equal(seen.most, 3)
      await eventually(async () => (await tasks.health()).running === 0)
    })
  }

  test('gives a 503 with Retry-After to a synchronous request that gets no place in time, and rejects one above the waiting limit', async (t) => {
    const { work, gate, seen } = counted()
    const { send } = api(t, work, { concurrency: 1, maxWaiters: 1, syncTimeoutMs: 100 })
    const first = send()
    await eventually(() => seen.begun === 1)
    const waiting = send()
    const full = await send()
    assert.deepEqual([full.status, full.headers.get('retry-after'), await codeOf(full)], [503, '1', 'overloaded'])
    const late = await waiting
    assert.deepEqual([late.status, late.headers.get('retry-after'), await codeOf(late)], [503, '1', 'sync_timeout'])
    const stopped = await first
    assert.deepEqual(
      [stopped.status, stopped.headers.get('retry-after'), await codeOf(stopped)],
      [503, null, 'sync_timeout'],
    )
    assert.equal(seen.begun, 1)
    gate.resolve()
  })

  test('never starts the work of a client that disconnects while it waits', async (t) => {
    const { work, gate, seen } = counted()
    const { send, tasks } = api(t, work, { concurrency: 1 })
    const first = send()
    await eventually(() => seen.begun === 1)
    const client = new AbortController()
    const second = send({}, client.signal)
    await eventually(async () => (await tasks.pools()).some(({ waiting }) => waiting === 1))
    client.abort()
    await within(second)
    await eventually(() => coreOf(tasks).waiters.size === 0)
    gate.resolve()
    assert.equal((await first).status, 200)
    await eventually(async () => (await tasks.pools()).every(({ waiting }) => waiting === 0))
    assert.equal(seen.begun, 1)
  })

  test('delays the close of a queue by synchronous requests for no longer than its drain time', async (t) => {
    const { work, gate, seen } = counted()
    const { send, tasks } = api(t, work, { concurrency: 1 })
    const first = send()
    await eventually(() => seen.begun === 1)
    await send({ prefer: 'respond-async' })
    await eventually(async () => (await tasks.pools()).some(({ waiting }) => waiting === 1))
    await within(tasks.close({ drainMs: 0 }))
    assert.equal((await first).status, 503)
    assert.equal(seen.begun, 1)
    gate.resolve()
  })
})

describe('a process with worker: false', () => {
  test('runs no synchronous request itself, and waits for a worker', async (t) => {
    const { work, gate, seen } = counted()
    gate.resolve()
    const { send, store } = api(t, work, { worker: false, syncTimeoutMs: 100 })
    const late = await send()
    assert.deepEqual(
      [late.status, late.headers.get('retry-after'), await codeOf(late), seen.begun],
      [503, '1', 'sync_timeout', 0],
    )
    await eventually(() => store.usage().entries === 0)
  })

  test("runs synchronous requests itself with direct: 'request'", async (t) => {
    const { work, gate, seen } = counted()
    gate.resolve()
    const { send } = api(t, work, { worker: false, direct: 'request' })
    assert.deepEqual([(await send()).status, seen.begun], [200, 1])
  })
})

describe('limits that the engine counts', () => {
  test('apply to synchronous requests: one above maxPerOwner gets a 429 for this owner', async (t) => {
    const gate = deferred()
    const work = defineTask({ name: 'work', maxPerOwner: 1, run: () => gate.promise })
    const { send, store, tasks } = api(t, work)
    const first = send({ 'x-user': 'ann' })
    await eventually(async () => (await tasks.health()).running === 1)
    for (const headers of [{}, { prefer: 'respond-async' }] as Record<string, string>[]) {
      const refused = await send({ 'x-user': 'ann', ...headers })
      assert.deepEqual([refused.status, await codeOf(refused)], [429, 'too_many_tasks'])
    }
    const other = send({ 'x-user': 'bob' })
    gate.resolve()
    assert.deepEqual(
      [(await first).status, (await other).status, (await send({ 'x-user': 'ann' })).status],
      [200, 200, 200],
    )
    await eventually(() => store.usage().entries === 0, 30_000)
  })

  test('apply to attempts: a synchronous request is retried after its back-off', async (t) => {
    const tried: number[] = []
    const work = defineTask({
      name: 'work', attempts: 3, backoff: { type: 'fixed', delayMs: 5 },
      run: (_, { attempt }) => {
        tried.push(attempt)
        if (attempt < 3) throw new Error('on purpose')
        return { message: 'third' }
      },
    })
    const { send, store } = api(t, work)
    keepAlive(t)
    const response = await send()
    assert.deepEqual([response.status, await response.json(), tried], [200, { message: 'third' }, [1, 2, 3]])
    await eventually(() => store.usage().entries === 0)
  })
})

test('createTasks rejects any other value of direct', () => {
  assert.throws(() => createTasks({ ...memory(), definitions: [], direct: 'there' as 'request' }), {
    name: 'TypeError',
    message: /request.*task/,
  })
})
