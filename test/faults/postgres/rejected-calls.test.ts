// Calls that PostgreSQL rejects for good, among many that it takes.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { after, describe, test, type TestContext } from 'node:test'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { toNode } from 'longhaul/node'
import { postgres } from 'longhaul/postgres'
import { isStoreUnavailable } from 'longhaul/stores'
import pg from 'pg'
import type { NewTask } from '../../../src/engine/task.js'
import { Json } from '../../../src/runtime/json.js'
import { listen } from '../../kit/listen.js'
import { postgresForFile } from '../../servers/postgres-server.js'

const server = await postgresForFile()
const pool = new pg.Pool({ connectionString: server.url })
const { engine, store, blobs } = postgres({ pool })
after(async () => {
  await engine.close({ drainMs: 0 })
  await Promise.all([store.close(), blobs.close()])
  await pool.end()
})
await engine.now()
const report = defineTask({ name: 'report', run: () => 'done' })

const newTask = (id: string, properties: Partial<NewTask> = {}): NewTask => ({
  id, birth: id, owner: 'ann', caller: `caller ${id}`, limit: { group: '', max: 10 }, name: 'report',
  pool: 'nobody', priority: 0, input: Json.of({}), details: {}, keepMs: 3_600_000, ...properties,
})
const isBad = (n: number): boolean => n % 10 === 3
const eighty = Array.from({ length: 80 }, (_, n) => n)

async function outcomes<T>(work: (n: number) => Promise<T>): Promise<PromiseSettledResult<T>[]> {
  return Promise.allSettled(eighty.map((n) => work(n)))
}

function codeOf(error: unknown): unknown {
  return ((error as Error).cause as { readonly code?: unknown } | undefined)?.code
}

/** Eight calls were rejected with a `TypeError`, and 72 did what they should. */
function assertApart(settled: readonly PromiseSettledResult<unknown>[], code: string | undefined): void {
  for (const [n, each] of settled.entries()) {
    if (!isBad(n)) {
      assert.equal(each.status, 'fulfilled', `call ${n}: ${String((each as PromiseRejectedResult).reason)}`)
      continue
    }
    assert.ok(each.status === 'rejected' && each.reason instanceof TypeError, `call ${n}`)
    assert.equal(codeOf(each.reason), code)
  }
}

describe('a call that PostgreSQL rejects', () => {
  test('fails alone among requests of others if its owner has 3,000 characters', async (t) => {
    const errors: unknown[] = []
    const tasks = createTasks({
      engine, store, definitions: [report], worker: false, onError: (error) => { errors.push(error) },
    })
    const { submit } = taskEndpoints(tasks, {
      statusPath: '/tasks/{id}', owner: ({ headers }) => String(headers['x-user']),
    })
    const handler = toNode(router({ 'POST /tasks': submit(report) }), {
      onError: (error) => { errors.push(error) },
    })
    const { url, close } = await listen(createServer(handler))
    t.after(close)
    const statuses = await Promise.all(eighty.map(async (n) => {
      const user = isBad(n) ? randomBytes(1500).toString('hex') : `user-${String(n)}`
      const response = await fetch(`${url}/tasks`, {
        method: 'POST', body: '{}',
        headers: { 'x-user': user, 'content-type': 'application/json', prefer: 'respond-async' },
      })
      await response.text()
      return response.status
    }))
    assert.deepEqual(statuses, eighty.map((n) => isBad(n) ? 500 : 202))
    assert.equal(errors.length, 8)
    for (const error of errors) assert.match(String(error), /owner must be .*512 characters.*it has 3000/)
  })

  test('fails alone among tasks that are created together, if it violates a constraint of the operator', async () => {
    await server.query('ALTER TABLE longhaul.task_rows ADD CONSTRAINT own CHECK (owner <> \'bad\')')
    const settled = await outcomes((n) => (
      engine.create(newTask(`create-${n}`, { owner: isBad(n) ? 'bad' : 'good', key: `key ${n}` }))
    ))
    assertApart(settled, '23514')
    assert.equal((await engine.list({ of: { owner: 'good' }, order: 'newest', limit: 100 })).length, 72)
  })

  test('fails alone among changes that are made together', async () => {
    await Promise.all(eighty.map((n) => engine.create(newTask(`change-${n}`))))
    await server.query('ALTER TABLE longhaul.task_rows ADD CONSTRAINT own2 CHECK (result <> \'"bad"\')')
    const settled = await outcomes(async (n) => engine.change(
      { id: `change-${n}`, birth: `change-${n}` }, { version: 1 },
      { status: 'failed', result: isBad(n) ? '"bad"' : '"good"' },
    ))
    assertApart(settled, '23514')
    for (const n of eighty) {
      const task = await engine.read(`change-${n}`)
      assert.equal(task?.status, isBad(n) ? 'queued' : 'failed')
    }
  })

  test('fails alone and does not end the process if its lifetime is not a number', async () => {
    const settled = await outcomes((n) => (
      engine.create(newTask(`lifetime-${n}`, isBad(n) ? { keepMs: Number.NaN } : {}))
    ))
    assertApart(settled, undefined)
  })

  test('throws a TypeError if its table is missing, while other tables work', async () => {
    await server.query('ALTER TABLE longhaul.counters RENAME TO elsewhere')
    try {
      await assert.rejects(store.increment('key', 1, { ttlMs: 1000 }), (error) => (
        error instanceof TypeError && codeOf(error) === '42P01'
      ))
      assert.equal((await store.create('key', 'value', { ttlMs: 1000 })).created, true)
    } finally {
      await server.query('ALTER TABLE longhaul.elsewhere RENAME TO counters')
    }
  })
})

describe('a database with the encoding', () => {
  for (const encoding of ['LATIN1', 'SQL_ASCII', 'UTF8']) {
    test(`${encoding} is checked at the first use`, async (t) => {
      const name = `encoding_${encoding.toLowerCase()}`
      await server.query(
        `CREATE DATABASE ${name} ENCODING '${encoding}' LOCALE 'C' TEMPLATE template0`,
      )
      const url = new URL(server.url)
      url.pathname = `/${name}`
      const tasks = tasksAt(t, { connectionString: url.href })
      if (encoding === 'UTF8') {
        const { taskId } = await tasks.submit(report, { note: '😀' }, { owner: '😀 é' })
        assert.deepEqual((await tasks.ownedBy('😀 é').list()).items.map((task) => task.taskId), [taskId])
        return
      }
      const expected = new RegExp(`the encoding ${encoding}, and must have UTF8.*CREATE DATABASE`)
      await assert.rejects(tasks.submit(report, {}), (error) => (
        error instanceof TypeError && !isStoreUnavailable(error) && expected.test(error.message)
      ))
      const { ok, error } = await tasks.health()
      assert.equal(ok, false)
      assert.match(String(error), expected)
    })
  }
})

function tasksAt(t: TestContext, config: pg.PoolConfig) {
  const own = new pg.Pool(config)
  const parts = postgres({ pool: own })
  const tasks = createTasks({ ...parts, definitions: [report], worker: false })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await Promise.all([parts.store.close(), parts.blobs.close()])
    await own.end()
  })
  return tasks
}
