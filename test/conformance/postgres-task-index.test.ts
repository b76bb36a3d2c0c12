import { PGlite } from '@electric-sql/pglite'
import assert from 'node:assert/strict'
import * as runner from 'node:test'
import { after, describe, test } from 'node:test'
import { taskIndexConformance } from 'longhaul/conformance'
import { postgres, type PostgresOptions, type PostgresPool } from 'longhaul/postgres'
import pg from 'pg'
import { pgBouncerForFile } from '../servers/pgbouncer.js'
import { POSTGRES_MAJORS } from '../servers/postgres-binary.js'
import { postgresForFile } from '../servers/postgres-server.js'

const engines: (() => void)[] = []
after(() => { for (const close of engines) close() })
let made = 0

/** Runs the suite with the indexes of two engines on one database. Each test has a schema. */
function suite(title: string, anyPool: PostgresOptions['pool']): void {
  const pool = anyPool as PostgresPool
  taskIndexConformance(runner, async () => {
    const schema = `index_${String(made++)}`
    const open = () => {
      const { store, index } = postgres({ pool, schema, timeoutMs: 15_000 })
      engines.push(() => { void store.close() })
      return index
    }
    return { index: open(), ...'connect' in pool && { second: open() } }
  }, { title, timeoutMs: 20_000 })
}

function poolOf(connectionString: string): pg.Pool {
  const pool = new pg.Pool({ connectionString, connectionTimeoutMillis: 20_000 })
  pool.on('error', () => undefined)
  after(() => pool.end())
  return pool
}

describe('PostgresTaskIndex', () => {
  describe('in this process', async () => {
    const db = await PGlite.create()
    after(() => db.close())
    suite('on PGlite', db)
  })

  for (const major of [POSTGRES_MAJORS[0], POSTGRES_MAJORS.at(-1)]) {
    if (major === undefined) throw new Error('there are no servers')
    describe(`on PostgreSQL ${major}`, async () => {
      const server = await postgresForFile({ major })
      suite(`on PostgreSQL ${server.version}`, poolOf(server.url))
    })
  }

  describe('through a pooler in transaction mode', async () => {
    const server = await postgresForFile()
    const pooler = await pgBouncerForFile(server)
    suite('through PgBouncer', poolOf(pooler.url))
  })

  describe('beside the store', async () => {
    const server = await postgresForFile()
    const pool = poolOf(server.url)
    const { store, index } = postgres({ pool })
    engines.push(() => { void store.close() })
    const task = (id: string) => ({
      id, owner: 'ann', name: 'report', status: 'completed', createdAt: 1, version: 1, ttlMs: 60_000,
    } as const)

    test('finds stored tasks without an entry, and unfinished ones without a check', async () => {
      for (let n = 0; n < 300; n++) await store.create(`task:t${String(n)}`, 'x', { ttlMs: 60_000 })
      await store.create('task;', 'x', { ttlMs: 60_000 })
      await store.create('claim:t', 'x', { ttlMs: 60_000 })
      for (let n = 0; n < 300; n += 3) await index.put(task(`t${String(n)}`))
      await index.put({ ...task('t1'), status: 'processing' })
      await index.add('t1~job', 60_000)
      await index.put({ ...task('t2'), status: 'processing' })
      await index.add('t22~job', 60_000)
      const found = new Set<string>()
      for (let slices = 1; ; slices++) {
        const { ids, isUrgent } = await index.unlisted(10)
        for (const id of ids) found.add(id)
        if (!isUrgent) break
        assert.ok(slices < 300, 'it never ends')
      }
      const expected = Array.from({ length: 300 }, (_, n) => n).filter((n) => n % 3 !== 0 && n !== 1)
      assert.deepEqual([...found].sort(), expected.map((n) => `t${String(n)}`).sort())
    })

    test('reads a page from its indexes', async () => {
      await pool.query(`INSERT INTO longhaul.tasks SELECT 'x' || n, 'owner' || n % 100, 'n' || n % 3, n % 6, 1, n,
        now() + interval '1 day', 2147483647 FROM generate_series(1, 20000) AS n`)
      await pool.query('ANALYZE longhaul.tasks')
      for (const of of ['all', { owner: 'owner7' }] as const) {
        for (const order of ['newest', 'oldest'] as const) {
          await pool.query('SELECT pg_stat_reset()')
          const client = await pool.connect()
          try {
            const page = await index.list({ of, order, limit: 50, after: { createdAt: 10_000, id: 'x10000' } })
            assert.equal(page.length, 50)
          } finally {
            client.release()
          }
          const { rows } = await pool.query<{ n: string }>(`SELECT seq_tup_read AS n FROM pg_stat_user_tables
            WHERE schemaname = 'longhaul' AND relname = 'tasks'`)
          assert.ok(Number(rows[0]?.n) < 1000, `it read ${String(rows[0]?.n)} rows`)
        }
      }
    })
  })
})
