// Pools and priorities of tasks, in memory, on Redis and on PostgreSQL.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { Redis } from 'ioredis'
import { createTasks, defineTask, taskEndpoints, type TasksOptions } from 'longhaul'
import { toFetch } from 'longhaul/fetch'
import { memory } from 'longhaul/memory'
import { postgres } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'
import pg from 'pg'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisUrl } from '../../servers/redis-server.js'
import { deferred, eventually } from '../../kit/wait.js'

type Engine = Pick<TasksOptions, 'store' | 'engine'>

let made = 0

interface Closable {
  close(options?: { readonly drainMs: number }): Promise<unknown>
}

const opened = new WeakMap<TestContext, Closable[]>()

/** Closes what a test has opened after the test, the last first. */
function closeAfter(t: TestContext, closable: Closable): void {
  const list = opened.get(t)
  if (list) return void list.unshift(closable)
  const all = [closable]
  opened.set(t, all)
  t.after(async () => {
    for (const each of all) await each.close({ drainMs: 0 })
  })
}

const durable: Record<string, (t: TestContext) => Promise<() => Engine>> = {
  Redis: async (t) => {
    const client = new Redis(await redisUrl(), { maxRetriesPerRequest: null })
    closeAfter(t, { close: async () => { client.disconnect() } })
    const namespace = `pools-${String(process.pid)}-${String(made++)}`
    return () => {
      const parts = redis({ client, namespace })
      closeAfter(t, parts.store)
      return parts
    }
  },
  PostgreSQL: async (t) => {
    const pool = new pg.Pool({ connectionString: await postgresUrl(), max: 30 })
    closeAfter(t, { close: () => pool.end() })
    const schema = `pools_${String(process.pid)}_${String(made++)}`
    return () => {
      const engine = postgres({ pool, schema })
      closeAfter(t, engine.store)
      return engine
    }
  },
}

const engines: typeof durable = {
  memory: () => Promise.resolve(() => memory()), ...durable,
}

/** Definitions of which each run waits for `gate`. */
function kinds() {
  const gate = deferred()
  const ran: unknown[] = []
  const run = async (input: unknown) => {
    ran.push(input)
    await gate.promise
  }
  const light = defineTask({ name: 'light', run })
  const heavy = defineTask({ name: 'heavy', pool: 'heavy', run })
  return { gate, ran, light, heavy, definitions: [light, heavy] as const }
}

const POOLS = { heavy: { concurrency: 2 } }

for (const [title, open] of Object.entries(engines)) {
  test(`${title}: a full pool delays no other pool, and shows its waiting tasks`, async (t) => {
    const { gate, ran, light, heavy, definitions } = kinds()
    const tasks = createTasks({ ...(await open(t))(), definitions, pools: POOLS, concurrency: 1 })
    closeAfter(t, tasks)
    const handles = []
    for (const n of [1, 2, 3, 4]) handles.push(await tasks.submit(heavy, `heavy ${String(n)}`))
    await eventually(() => ran.length === 2)
    handles.push(await tasks.submit(light, 'light'))
    await eventually(() => ran.length === 3)
    assert.deepEqual(ran.toSorted(), ['heavy 1', 'heavy 2', 'light'])
    const counts = await tasks.pools()
    const numbers = counts.map(({ oldestWaitingMs: _, ...rest }) => rest)
    assert.deepEqual(numbers, [
      { pool: 'default', isPaused: false, running: 1, waiting: 0, delayed: 0 },
      { pool: 'heavy', isPaused: false, running: 2, waiting: 2, delayed: 0 },
    ])
    assert.ok((counts[1]?.oldestWaitingMs ?? -1) >= 0)
    const cancelled = handles[3]
    assert.equal((await cancelled?.cancel())?.status, 'cancelled')
    assert.equal((await tasks.pools())[1]?.waiting, 1, 'the cancelled task no longer waits')
    gate.resolve()
    for (const each of handles) {
      const end = await each.wait({ timeoutMs: 10_000 })
      assert.equal(end?.status, each === cancelled ? 'cancelled' : 'completed')
    }
    assert.equal(ran.length, 4)
  })
}

for (const [title, open] of Object.entries(durable)) {
  test(`${title}: a process runs only tasks of its own pools, and a pool without a process keeps its tasks`, async (t) => {
    const { gate, ran, light, heavy, definitions } = kinds()
    gate.resolve()
    const engine = await open(t)
    const common = { definitions, pools: POOLS }
    const web = createTasks({ ...engine(), ...common, worker: ['default'] })
    closeAfter(t, web)
    const waiting = await web.submit(heavy, 'heavy')
    const done = await web.submit(light, 'light')
    assert.equal((await done.wait({ timeoutMs: 10_000 }))?.status, 'completed')
    assert.equal((await waiting.get())?.status, 'queued')
    assert.equal((await web.pools())[1]?.waiting, 1)
    const worker = createTasks({ ...engine(), ...common, worker: ['heavy'] })
    closeAfter(t, worker)
    assert.equal((await waiting.wait({ timeoutMs: 15_000 }))?.status, 'completed')
    assert.deepEqual(ran, ['light', 'heavy'])
  })

  test(`${title}: a synchronous request waits for the process that runs its pool`, async (t) => {
    const { gate, definitions, heavy } = kinds()
    gate.resolve()
    const engine = await open(t)
    const web = createTasks({ ...engine(), definitions, pools: POOLS, worker: ['default'] })
    closeAfter(t, web)
    const { submit } = taskEndpoints(web, { statusPath: '/tasks/{id}', owner: 'anyone', syncTimeoutMs: 20_000 })
    const answer = toFetch(submit(heavy))(new Request('http://x/work', {
      method: 'POST', body: '{}', headers: { 'content-type': 'application/json' },
    }))
    await eventually(async () => (await web.pools())[1]?.waiting === 1)
    const worker = createTasks({ ...engine(), definitions, pools: POOLS, worker: ['heavy'] })
    closeAfter(t, worker)
    assert.equal((await answer).status, 200)
  })

  test(`${title}: a task that waits is cancelled before its start and leaves nothing in its pool`, async (t) => {
    const { light, definitions, ran } = kinds()
    const tasks = createTasks({ ...(await open(t))(), definitions, pools: POOLS })
    closeAfter(t, tasks)
    const task = await tasks.submit(light, 1, { startAt: new Date(Date.now() + 3_600_000) })
    assert.equal((await task.get())?.status, 'scheduled')
    assert.equal((await tasks.pools())[0]?.delayed, 1)
    assert.equal((await task.cancel())?.status, 'cancelled')
    assert.equal((await tasks.pools())[0]?.delayed, 0)
    assert.deepEqual(ran, [])
  })

  test(`${title}: a task whose process ends before its start runs in another process`, async (t) => {
    const { gate, light, definitions, ran } = kinds()
    gate.resolve()
    const engine = await open(t)
    const first = createTasks({ ...engine(), definitions, pools: POOLS })
    const { taskId } = await first.submit(light, 'late', { delayMs: 1500 })
    await first.close({ drainMs: 0 })
    assert.deepEqual(ran, [])
    const second = createTasks({ ...engine(), definitions, pools: POOLS })
    closeAfter(t, second)
    assert.equal((await second.wait(taskId, { timeoutMs: 15_000 }))?.status, 'completed')
  })
}

for (const [title, open] of Object.entries(durable)) {
  test(`${title}: a retry runs in the pool that its definition has now`, async (t) => {
    const engine = await open(t)
    const work = { name: 'work', attempts: 1 }
    const before = defineTask({ ...work, pool: 'heavy', run: () => { throw new Error('broken') } })
    const old = createTasks({ ...engine(), definitions: [before], pools: POOLS })
    const failed = await old.submit(before, {})
    assert.equal((await failed.wait({ timeoutMs: 15_000 }))?.status, 'failed')
    await old.close({ drainMs: 0 })
    for (const pool of ['large', undefined]) {
      const now = defineTask({ ...work, ...pool !== undefined && { pool }, run: (_input, { attempt }) => {
        if (attempt === 2) throw new Error('broken')
      } })
      const tasks = createTasks({ ...engine(), definitions: [now], pools: pool === undefined ? {} : { large: {} } })
      await tasks.retry(failed.taskId)
      const end = await tasks.wait(failed.taskId, { timeoutMs: 15_000 })
      assert.equal(end?.status, pool === undefined ? 'completed' : 'failed')
      await tasks.close({ drainMs: 0 })
    }
  })

  test(`${title}: a task of a pool can be cancelled while the process closes`, async (t) => {
    const engine = await open(t)
    const { gate, heavy, definitions } = kinds()
    const web = createTasks({ ...engine(), definitions, pools: POOLS, worker: false })
    closeAfter(t, web)
    const { taskId } = await web.submit(heavy, 'waits')
    const closing = createTasks({ ...engine(), definitions, pools: POOLS, worker: false })
    await closing.close({ drainMs: 0 })
    assert.equal((await closing.cancel(taskId))?.status, 'cancelled')
    gate.resolve()
  })
}

test('tasks start by the priority of their definition or submission', async (t) => {
  const { gate, ran, light } = kinds()
  const low = defineTask({ name: 'low', priority: 10, run: (input) => { ran.push(input) } })
  const tasks = createTasks({ ...memory(), definitions: [light, low], concurrency: 1 })
  closeAfter(t, tasks)
  await tasks.submit(light, 'first')
  await eventually(() => ran.length === 1)
  await tasks.submit(low, 'low')
  await tasks.submit(low, 'urgent', { priority: 1 })
  const last = await tasks.submit(light, 'next')
  gate.resolve()
  await last.wait({ timeoutMs: 60_000 })
  await eventually(() => ran.length === 4)
  assert.deepEqual(ran, ['first', 'next', 'urgent', 'low'])
  await assert.rejects(tasks.submit(low, 1, { priority: -1 }), TypeError)
})

test('a synchronous response obeys the concurrency of its pool', async (t) => {
  const { gate, ran, heavy, definitions } = kinds()
  const tasks = createTasks({ ...memory(), definitions, pools: POOLS })
  closeAfter(t, tasks)
  const { submit } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const handle = toFetch(submit(heavy))
  const send = () =>
    handle(new Request('http://x/work', { method: 'POST', body: '1', headers: { 'content-type': 'application/json' } }))
  const answers = [send(), send(), send()]
  // The third one waits for a place.
  await eventually(async () => ran.length === 2 && (await tasks.pools())[1]?.waiting === 1)
  assert.equal(ran.length, 2)
  gate.resolve()
  assert.deepEqual((await Promise.all(answers)).map(({ status }) => status), [200, 200, 200])
})

describe('createTasks rejects', () => {
  const { definitions } = kinds()
  const wrong: Record<string, [Partial<TasksOptions>, RegExp]> = {
    'a definition whose pool is not in pools': [{}, /the definition heavy names the pool heavy, which is not in pools/],
    'an unknown pool in worker': [{ pools: POOLS, worker: ['none'] }, /worker names none/],
    'an empty list': [{ pools: POOLS, worker: [] }, /worker: false/],
    'a list of pools with an engine in memory': [{ pools: POOLS, worker: ['heavy'] }, /this engine is for one process/],
    'a pool with a bad name': [{ pools: { ...POOLS, 'a b': {} } }, /1 to 64/],
    'a concurrency of the pool default': [
      { pools: { ...POOLS, default: { concurrency: 2 } } },
      /the option concurrency/,
    ],
    'a concurrency of 0': [{ pools: { heavy: { concurrency: 0 } } }, /concurrency/],
    'an unknown setting of a pool': [{ pools: { heavy: { size: 1 } as object } }, /size/],
  }
  for (const [title, [options, message]] of Object.entries(wrong)) {
    test(title, () => {
      assert.throws(() => createTasks({ ...memory(), definitions, ...options }), (error: Error) => (
        error instanceof TypeError && message.test(error.message)
      ))
    })
  }
})
