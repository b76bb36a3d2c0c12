import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { toFetch } from '../../../../adapters/fetch/index.js'
import { MemoryBlobs, memory, type MemoryOptions } from '../../../../adapters/memory/index.js'
import { httpError } from '../../../../src/http/errors.js'
import { ndjsonUpload } from '../../../../src/ndjson/upload.js'
import { router } from '../../../../src/resources/router.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../../src/tasks/http/endpoints.js'
import type { TaskEndpointsOptions } from '../../../../src/tasks/http/settings.js'
import type { TasksOptions } from '../../../../src/tasks/core/tasks-options.js'
import { Spy, spyEngine, SpyStore } from '../../kit/tasks.js'
import { deferred } from '../../../kit/wait.js'

const LINES = `${JSON.stringify({ text: 'x'.repeat(100_000) })}\n`.repeat(10)

interface SetUp {
  readonly tasks?: Partial<TasksOptions>
  readonly endpoints?: Partial<TaskEndpointsOptions>
  readonly maxPerOwner?: number
  readonly memory?: MemoryOptions
}

/** A server that takes uploads in the background; their tasks wait until `go`. */
function setUp(t: TestContext, { tasks: more = {}, endpoints = {}, maxPerOwner, memory: bounds = {} }: SetUp = {}) {
  const { store, engine } = memory(bounds)
  const blobs = new MemoryBlobs()
  const spy = new Spy()
  const gate = deferred()
  const upload = ndjsonUpload({
    write: () => gate.promise, maxBodyBytes: 2_000_000,
    background: { name: 'upload', blobs, ...maxPerOwner === undefined ? {} : { maxPerOwner } },
  })
  const other = defineTask({ name: 'other', run: () => gate.promise })
  const tasks = createTasks({
    store: new SpyStore(store, spy),
    engine: spyEngine(engine, spy),
    definitions: [upload.task, other],
    onError: () => undefined,
    ...more,
  })
  const made = taskEndpoints(tasks, {
    statusPath: '/tasks/{id}',
    anonymous: true,
    owner: ({ headers }) => headers['x-user'] as string | undefined,
    ...endpoints,
  })
  const handler = upload.handler(made)
  const call = toFetch(router({ 'POST /uploads': handler }), { onError: () => undefined })
  t.after(async () => {
    gate.resolve()
    await tasks.close({ drainMs: 1000 })
  })
  const send = async (headers: Record<string, string> = {}, body: string | ReadableStream = LINES) => {
    const response = await call(
      new Request('http://test/uploads', {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/x-ndjson', 'prefer': 'respond-async', ...headers },
        duplex: 'half',
      }),
    )
    const text = await response.text()
    return { status: response.status, code: text === '' ? undefined : (JSON.parse(text) as { code?: string }).code }
  }
  return { tasks, store, blobs, spy, gate, other, send, count: () => blobs.usage().blobs }
}

describe('a rejected upload leaves nothing in the blobs', () => {
  test('if it turns out to be too large, with a 413', async (t) => {
    const { send, blobs } = setUp(t)
    const large = new ReadableStream({ pull: (controller) => { controller.enqueue(Buffer.alloc(100_000, '1')) } })
    assert.deepEqual(await send({}, large), { status: 413, code: 'body_too_large' })
    assert.deepEqual(blobs.usage(), { blobs: 0, bytes: 0 })
  })

  test('if the connection of its client breaks', async (t) => {
    const { send, blobs } = setUp(t)
    let pieces = 0
    const cut = new ReadableStream({ pull: (controller) => {
      if (pieces++ < 5) controller.enqueue(Buffer.alloc(100_000, '1'))
      else controller.error(new Error('gone'))
    } })
    assert.ok((await send({}, cut)).status >= 400)
    assert.deepEqual(blobs.usage(), { blobs: 0, bytes: 0 })
  })

  for (const [title, bounds] of [
    ['tasks', { maxUnfinished: 2 }],
    ['bytes', { maxBytes: 5000 }],
  ] as const)
    test(`if the engine has no space for more ${title}, with a 503`, async (t) => {
      const { send, count } = setUp(t, { memory: bounds, tasks: { concurrency: 1 } })
      for (let at = 0; at < 2; at++) assert.equal((await send()).status, 202)
      for (let at = 0; at < 5; at++)
        assert.deepEqual(await send({ 'idempotency-key': `"${String(at)}"` }), { status: 503, code: 'queue_full' })
      assert.deepEqual(await send(), { status: 503, code: 'queue_full' })
      assert.equal(count(), 2)
    })

  test('if the owner has too many tasks, with a 429', async (t) => {
    const { send, count } = setUp(t, { maxPerOwner: 1 })
    assert.equal((await send({ 'x-user': 'ann' })).status, 202)
    for (let at = 0; at < 5; at++)
      assert.deepEqual(await send({ 'x-user': 'ann' }), { status: 429, code: 'too_many_tasks' })
    assert.equal(count(), 1)
  })

  test('if the server closes, with a 503', async (t) => {
    const { send, count, tasks, gate } = setUp(t)
    gate.resolve()
    await tasks.close()
    for (const headers of [{}, { 'idempotency-key': '"a"' }]) {
      assert.deepEqual(await send(headers as Record<string, string>), { status: 503, code: 'shutting_down' })
    }
    assert.equal(count(), 0)
  })

  test('if the store is full, with a 503', async (t) => {
    const { send, count, store } = setUp(t, { memory: { store: { maxBytes: 2000 } } })
    await store.create('rest', 'x'.repeat(1600), { ttlMs: 60_000 })
    for (const headers of [{}, { 'idempotency-key': '"a"' }]) {
      assert.deepEqual(await send(headers as Record<string, string>), { status: 503, code: 'store_full' })
    }
    assert.equal(count(), 0)
  })

  test('if the store fails before it stores the task, with a 503', async (t) => {
    const { send, count, spy } = setUp(t)
    spy.fault = (call) => (call.startsWith('get idempotency') || call.startsWith('readByKey') ? 'after' : undefined)
    assert.equal((await send({ 'idempotency-key': '"a"' })).status, 503)
    assert.equal(count(), 0)
  })

  test('if the context function or the callback function of the application throws or rejects', async (t) => {
    for (const endpoints of [
      {
        context: () => {
          throw new Error('on purpose')
        },
      },
      { context: () => 1n },
      {
        callback: () => {
          throw new Error('on purpose')
        },
      },
      {
        callback: () => {
          throw httpError('service_unavailable')
        },
      },
    ] as Partial<TaskEndpointsOptions>[]) {
      const { send, count } = setUp(t, {
        endpoints,
        ...('callback' in endpoints && {
          tasks: {
            callbacks: {
              open: () => ({
                startProcessing: () => undefined,
                beginClose: () => undefined,
                close: async () => undefined,
              }),
            } as never,
          },
        }),
      })
      assert.ok((await send()).status >= 500)
      assert.equal(count(), 0)
    }
  })

  test('if its key belongs to a task with other input, a response, or a running request', async (t) => {
    const { send, count } = setUp(t)
    const key = { 'idempotency-key': '"a"' }
    assert.equal((await send(key)).status, 202)
    for (let at = 0; at < 3; at++) {
      assert.equal((await send(key)).status, 202, 'a replay')
      assert.equal((await send(key, '{}\n')).status, 422)
    }
    assert.equal(count(), 1)
  })

  test('two concurrent requests with one key are one task with one upload', async (t) => {
    const { send, count, gate, tasks } = setUp(t)
    const answers = await Promise.all(Array.from({ length: 5 }, () => send({ 'idempotency-key': '"a"' })))
    assert.deepEqual(answers.map(({ status }) => status), [202, 202, 202, 202, 202])
    assert.equal(count(), 1)
    gate.resolve()
    await tasks.close()
    assert.equal(count(), 0)
  })
})

test('an upload is kept if it is unknown whether its task was accepted', async (t) => {
  const { send, count, spy } = setUp(t)
  spy.fault = (call) => (/^create [^:]+$/.test(call) ? 'after' : undefined)
  assert.equal((await send()).status, 503)
  assert.equal(count(), 1)
})

test('an upload is kept if its task was accepted and only the response fails', async (t) => {
  const { send, count, spy, gate, tasks } = setUp(t)
  spy.fault = (call) => (call.startsWith('watch') ? 'before' : undefined)
  assert.equal((await send({ prefer: 'respond-async, wait=10' })).status, 503)
  assert.equal(count(), 1)
  gate.resolve()
  await tasks.close()
  assert.equal(count(), 0)
})
