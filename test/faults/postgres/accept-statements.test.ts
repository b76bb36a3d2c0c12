// Accepting a task on PostgreSQL: the number of statements, and what happens to them when one part fails.
import assert from 'node:assert/strict'
import { after, beforeEach, describe, test } from 'node:test'
import { createTasks, defineTask } from 'longhaul'
import { postgres } from 'longhaul/postgres'
import type { PostgresPoolClient } from '../../../adapters/postgres/connections.js'
import pg from 'pg'
import { Json } from '../../../src/runtime/json.js'
import { postgresForFile } from '../../servers/postgres-server.js'

const server = await postgresForFile()
const statements: string[] = []
const pool = countedPool()
const { engine, store } = postgres({ pool })
const report = defineTask({ name: 'report', run: () => 'done' })
const tasks = createTasks({ engine, store, definitions: [report], worker: false })
after(async () => {
  await tasks.close()
  await store.close()
  await pool.end()
})
await (await tasks.submit(report, {})).cancel()
beforeEach(() => { statements.length = 0 })

/** A pool that notes the statements of the engine. */
function countedPool(): pg.Pool {
  const counted = new pg.Pool({ connectionString: server.url })
  const noted = new WeakSet<object>()
  const connect = counted.connect.bind(counted) as () => Promise<pg.PoolClient>
  counted.connect = (async () => {
    const client = await connect()
    if (!noted.has(client)) {
      noted.add(client)
      const query = client.query.bind(client) as (...values: unknown[]) => unknown
      client.query = ((...values: unknown[]) => {
        statements.push(values[0] as string)
        return query(...values)
      }) as typeof client.query
    }
    return client
  }) as typeof counted.connect
  return counted
}

/** Statements that create tasks. */
function writes(): string[] {
  return statements.filter((text) => /INSERT INTO \S+\.task_rows/.test(text))
}

describe('accepting tasks on PostgreSQL', () => {
  test('one task takes one statement, and is listed', async () => {
    const task = await tasks.submit(report, {}, { owner: 'ann' })
    assert.equal(writes().length, 1, writes().join('\n'))
    assert.deepEqual((await tasks.ownedBy('ann').list()).items.map(({ taskId }) => taskId), [task.taskId])
  })

  test('fifty tasks at once take as many statements as one', async () => {
    const accepted = await Promise.all(Array.from({ length: 50 }, () => tasks.submit(report, {}, { owner: 'bob' })))
    assert.equal(writes().length, 1, writes().join('\n'))
    const listed = await tasks.ownedBy('bob').list({ limit: 100 })
    assert.deepEqual(listed.items.map(({ taskId }) => taskId).sort(), accepted.map(({ taskId }) => taskId).sort())
  })

  test('a page of fifty tasks is read with one statement', async () => {
    const page = await tasks.ownedBy('bob').list({ limit: 50 })
    assert.equal(page.items.length, 50)
    const reads = statements.filter((text) => /FROM \S+\.task_rows/.test(text))
    assert.equal(reads.length, 1, reads.join('\n'))
  })

  test('inputs above the size of a batch take several statements', async () => {
    const text = 'x'.repeat(200_000)
    const accepted = await Promise.all([1, 2, 3].map((n) => tasks.submit(report, { n, text })))
    assert.equal(writes().length, 3)
    assert.equal(new Set(accepted.map(({ taskId }) => taskId)).size, 3)
  })

  test('a submission does not wait while a transaction of the application has locked tasks and callers', async () => {
    await tasks.submit(report, {}, { owner: 'carl' })
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      for (const table of ['entries', 'task_rows', 'task_callers']) {
        await client.query(`SELECT 1 FROM longhaul.${table} FOR UPDATE`)
      }
      await tasks.submit(report, {}, { owner: 'carl' })
    } finally {
      await client.query('ROLLBACK')
      client.release()
    }
  })

  test('an open transaction of a new caller delays no task of another caller', async () => {
    const start = { at: Date.now() + 60_000 }
    const submit = (id: string, caller: string, transaction?: pg.PoolClient) => engine.create({
      id, birth: id, owner: caller, caller, limit: { group: 'all', max: 100 }, name: 'report', pool: 'nobody',
      priority: 0, input: Json.of(1), details: {}, keepMs: 60_000, start,
    }, transaction && { transaction })
    const client = await pool.connect()
    let same: Promise<unknown>[] = []
    try {
      await client.query('BEGIN')
      await submit('open-1', 'open-eve', client)
      same = [submit('open-2', 'open-eve')]
      const others: Promise<unknown>[] = []
      for (let n = 0; n < 20; n++) {
        others.push(submit(`open-3-${String(n)}`, 'open-fred'), submit(`open-4-${String(n)}`, `open-new-${String(n)}`))
        same.push(submit(`open-5-${String(n)}`, 'open-eve'))
        await new Promise((resolve) => { setTimeout(resolve, 5) })
      }
      same.forEach((submitted) => { submitted.catch(() => undefined) })
      // If they waited for the transaction, which is open, they would be rejected.
      await Promise.all(others)
    } finally {
      await client.query('COMMIT')
      client.release()
    }
    await Promise.all(same)
  })

  test('a change of a locked task delays no change of another task', async () => {
    const [busy, free] = [await tasks.submit(report, {}), await tasks.submit(report, {})]
    const client = await pool.connect()
    let cancelled: Promise<unknown> = Promise.resolve()
    try {
      await client.query('BEGIN')
      await client.query('SELECT 1 FROM longhaul.task_rows WHERE id = $1 FOR UPDATE', [busy.taskId])
      cancelled = busy.cancel()
      assert.equal((await free.cancel())?.status, 'cancelled')
      assert.equal((await busy.get())?.status, 'queued')
    } finally {
      await client.query('ROLLBACK')
      client.release()
    }
    await cancelled
    assert.equal((await busy.get())?.status, 'cancelled')
  })

  test('a statement whose reply was lost is sent again, and creates each task once', async () => {
    let isCut = false
    const cut = async (client: PostgresPoolClient, text: string, values: unknown[]) => {
      const reply = await client.query(text, values)
      if (isCut || !/INSERT INTO \S+\.task_rows/.test(text)) return reply
      isCut = true
      throw Object.assign(new Error('Connection terminated unexpectedly'), { code: 'ECONNRESET' })
    }
    const own = new pg.Pool({ connectionString: server.url })
    const cutting = {
      on: own.on.bind(own), options: own.options,
      connect: async () => {
        const client = await own.connect()
        return {
          query: (text: string, values: unknown[]) => cut(client, text, values),
          release: client.release.bind(client), on: client.on.bind(client),
        }
      },
    }
    const { engine: cutEngine, store: cutStore } = postgres({ pool: cutting as never })
    const cutTasks = createTasks({ engine: cutEngine, store: cutStore, definitions: [report], worker: false })
    try {
      const task = await cutTasks.submit(report, {}, { id: 'lost-reply', owner: 'dora' })
      assert.ok(isCut && task.created)
      assert.equal((await cutTasks.submit(report, {}, { id: 'lost-reply', owner: 'dora' })).created, false)
      assert.equal((await tasks.ownedBy('dora').list()).items.length, 1)
    } finally {
      await cutTasks.close()
      await cutStore.close()
      await own.end()
    }
  })
})
