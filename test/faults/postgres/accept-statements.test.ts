// Accepting a task on PostgreSQL: the number of statements, and what happens to them when one part fails.
import assert from 'node:assert/strict'
import { after, beforeEach, describe, test } from 'node:test'
import { createTasks, defineTask } from 'longhaul'
import { postgres, type PostgresPoolClient } from 'longhaul/postgres'
import pg from 'pg'
import { listedTask } from '../../../src/conformance/task-index/context.js'
import { postgresForFile } from '../../servers/postgres-server.js'

const server = await postgresForFile()
const statements: string[] = []
const pool = countedPool()
const engine = postgres({ pool })
const report = defineTask({ name: 'report', run: () => 'done' })
const tasks = createTasks({ ...engine, definitions: [report], worker: false })
after(async () => {
  await tasks.close()
  await engine.store.close()
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

/** The first writes of tasks, and those of jobs. */
function writes(): string[] {
  return statements.filter((text) => /^WITH created|INSERT INTO \S+\.job /.test(text))
}

describe('accepting on PostgreSQL', () => {
  test('one task takes one statement for record, check and list entry, and one for its job', async () => {
    const task = await tasks.submit(report, {}, { owner: 'ann' })
    assert.equal(writes().length, 2, writes().join('\n'))
    assert.match(writes()[0] ?? '', /\.entries[^]*\.task_checks[^]*\.tasks/)
    assert.match(writes()[1] ?? '', /\.job /)
    assert.deepEqual((await tasks.ownedBy('ann').list()).items.map(({ taskId }) => taskId), [task.taskId])
    const [check] = await server.query('SELECT entry FROM longhaul.task_checks WHERE entry LIKE $1', [`${task.taskId}~%`])
    assert.ok(check, 'the check was written')
  })

  test('fifty tasks at once take as many statements as one', async () => {
    const accepted = await Promise.all(Array.from({ length: 50 }, () => tasks.submit(report, {}, { owner: 'bob' })))
    assert.equal(writes().length, 2, writes().join('\n'))
    const listed = await tasks.ownedBy('bob').list({ limit: 100 })
    assert.deepEqual(listed.items.map(({ taskId }) => taskId).sort(), accepted.map(({ taskId }) => taskId).sort())
  })

  test('a page of fifty tasks reads all records with one statement', async () => {
    const page = await tasks.ownedBy('bob').list({ limit: 50 })
    assert.equal(page.items.length, 50)
    const reads = statements.filter((text) => /^SELECT [^]*\.entries/.test(text))
    assert.equal(reads.length, 1, reads.join('\n'))
  })

  test('inputs above the size of a batch travel in several statements', async () => {
    const text = 'x'.repeat(200_000)
    const accepted = await Promise.all([1, 2, 3].map((n) => tasks.submit(report, { n, text })))
    const jobs = writes().filter((text) => text.includes('.job '))
    assert.equal(jobs.length, 3)
    // An input has an entry of its own, which is written first. Records of one turn share a statement.
    const records = writes().length - jobs.length
    assert.ok(records >= 1 && records <= 3, String(records))
    assert.equal(new Set(accepted.map(({ taskId }) => taskId)).size, 3)
  })

  test('does not wait while a transaction of the application has locked entries, lists and checks', async () => {
    await engine.index.put(listedTask({ id: 'locked' }))
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      await client.query('SELECT 1 FROM longhaul.entries FOR UPDATE')
      await client.query('SELECT 1 FROM longhaul.tasks FOR UPDATE')
      await client.query('SELECT 1 FROM longhaul.task_checks FOR UPDATE')
      engine.index.putSoon({ ...listedTask({ id: 'locked' }), version: 2, status: 'completed' })
      await tasks.submit(report, {})
    } finally {
      await client.query('ROLLBACK')
      client.release()
    }
  })

  test('a later status of a locked task is left out, and its check stays for the sweep', async () => {
    await engine.index.put(listedTask({ id: 'busy' }))
    await engine.index.add('busy~job', 60_000)
    await engine.index.add('free~job', 60_000)
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      await client.query('SELECT 1 FROM longhaul.tasks WHERE id = \'busy\' FOR UPDATE')
      const final = { version: 2, status: 'completed' } as const
      engine.index.putSoon({ ...listedTask({ id: 'busy' }), ...final })
      engine.index.putSoon({ ...listedTask({ id: 'free' }), ...final })
      engine.index.remove('busy~job')
      engine.index.remove('free~job')
      await engine.index.list({ of: 'all', order: 'newest', limit: 1 })
    } finally {
      await client.query('ROLLBACK')
      client.release()
    }
    const rows = await server.query(
      'SELECT id, version FROM longhaul.tasks WHERE id IN (\'busy\', \'free\') ORDER BY id',
    )
    assert.deepEqual(rows, [{ id: 'busy', version: 1 }, { id: 'free', version: 2 }])
    const checks = await server.query(
      'SELECT entry FROM longhaul.task_checks WHERE entry IN (\'busy~job\', \'free~job\')',
    )
    assert.deepEqual(checks, [{ entry: 'busy~job' }])
  })

  test('a statement whose reply was lost is sent again, and creates nothing twice', async () => {
    let isCut = false
    const cut = async (client: PostgresPoolClient, text: string, values: unknown[]) => {
      const reply = await client.query(text, values)
      if (isCut || !text.startsWith('WITH created')) return reply
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
    const { store } = postgres({ pool: cutting as never })
    try {
      const created = await store.create('task:lost-reply', 'value', { ttlMs: 60_000, notify: false })
      assert.ok(isCut && created.created)
      const again = await store.create('task:lost-reply', 'other', { ttlMs: 60_000, notify: false })
      assert.ok(!again.created && again.entry.value === 'value')
    } finally {
      await store.close()
      await own.end()
    }
  })
})
