// Requests that were refused leave no claim, and a claim is never evicted before its record.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { toFetch } from '../../../adapters/fetch/index.js'
import { memory, type MemoryStore } from '../../../adapters/memory/index.js'
import { createTasks, type Tasks } from '../../../src/tasks/tasks.js'
import { defineTask, type AnyTaskDefinition } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { ended } from '../../unit/kit/tasks.js'
import { deferred, eventually } from '../../kit/wait.js'

interface Api {
  readonly tasks: Tasks
  readonly store: MemoryStore
  readonly send: (
    key: string,
    how?: { readonly prefer?: string; readonly body?: unknown; readonly user?: string },
  ) => Promise<Response>
}

function api(
  t: TestContext,
  work: AnyTaskDefinition,
  options: { maxUnfinished?: number; maxBytes?: number; maxWaiters?: number } = {},
): Api {
  const { maxWaiters = 1000, ...rest } = options
  const { engine, store } = memory(rest)
  const tasks = createTasks({
    engine,
    store,
    definitions: [work],
    concurrency: 1,
    maxWaiters,
    onError: () => undefined,
  })
  const { submit } = taskEndpoints(tasks, {
    statusPath: '/tasks/{id}',
    anonymous: true,
    owner: ({ headers }) => headers['x-user'] as string | undefined,
  })
  const handle = toFetch(submit(work), { onError: () => undefined })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await store.close()
  })
  const send: Api['send'] = (key, { prefer = 'respond-async', body = {}, user } = {}) =>
    handle(
      new Request('http://x/work', {
        method: 'POST',
        body: JSON.stringify(body),
        headers: {
          'content-type': 'application/json',
          'idempotency-key': key,
          prefer,
          ...(user !== undefined && { 'x-user': user }),
        },
      }),
    )
  return { tasks, store, send }
}

describe('a rejected request leaves its Idempotency-Key free', () => {
  for (const prefer of ['respond-async', 'x']) {
    test(`after 5,000 rejections of a full queue, with Prefer: ${prefer}`, async (t) => {
      const gate = deferred()
      const { store, send, tasks } = api(t, defineTask({ name: 'work', run: () => gate.promise }), { maxUnfinished: 1 })
      await send('first')
      await eventually(async () => (await tasks.health()).running === 1)
      const before = store.usage().entries
      for (let n = 0; n < 5000; n++) {
        const { status } = await send(`k${String(n)}`, { prefer })
        assert.equal(status, 503)
      }
      assert.equal(store.usage().entries, before)
      gate.resolve()
    })
  }

  test('after 1,000 rejections of each kind: tasks above the limit, bad input, waiting requests above the limit', async (t) => {
    const gate = deferred()
    const work = defineTask({
      name: 'work',
      maxPerOwner: 1,
      input: jsonSchema({ type: 'object', required: ['n'] }),
      run: () => gate.promise,
    })
    const { store, send, tasks } = api(t, work, { maxWaiters: 0 })
    const ann = { user: 'ann', body: { n: 1 } }
    await send('first', ann)
    await eventually(async () => (await tasks.health()).running === 1)
    const before = store.usage().entries
    for (const [how, wanted] of [
      [ann, 429],
      [{ body: {} }, 400],
      [{ prefer: 'x', user: 'bob', body: { n: 1 } }, 503],
    ] as const) {
      for (let n = 0; n < 1000; n++) assert.equal((await send(`k${String(n)}`, how)).status, wanted)
      assert.equal(store.usage().entries, before, String(wanted))
    }
    gate.resolve()
  })

  test('for a retry, even with another body', async (t) => {
    const gate = deferred()
    const { send, tasks } = api(t, defineTask({ name: 'work', run: () => gate.promise }), { maxUnfinished: 1 })
    await send('first')
    await eventually(async () => (await tasks.health()).running === 1)
    assert.equal((await send('k')).status, 503)
    gate.resolve()
    await eventually(async () => (await tasks.health()).running === 0)
    assert.equal((await send('k', { body: { other: 1 } })).status, 202)
  })
})

test('a polled task is not run again for its key, even with a full store, because the key outlives the task', async (t) => {
  const runs: unknown[] = []
  const work = defineTask({ name: 'work', run: (input) => { runs.push(input); return { message: 'x'.repeat(2000) } } })
  const { tasks, store, send } = api(t, work, { maxBytes: 60_000 })
  const first = await (await send('mine', { body: 'mine' })).json() as { taskId: string }
  await ended(tasks, first.taskId)
  for (let n = 0; n < 300; n++) {
    const { taskId: id } = await tasks.submit(work, n)
    await ended(tasks, id)
    // Somebody polls the task, and nobody reads its claim.
    assert.ok(await tasks.get(first.taskId), `the record is kept as long as it is used, at ${String(n)}`)
  }
  assert.ok(store.usage().entries < 300, 'others were evicted')
  const again = await send('mine', { body: 'mine' })
  assert.deepEqual([again.status, again.headers.get('idempotent-replayed')], [202, 'true'])
  assert.equal(runs.filter((input) => input === 'mine').length, 1)
})
