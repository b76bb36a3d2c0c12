// Expired rows of the store on PostgreSQL: all are deleted, in small batches, beside other work.
import assert from 'node:assert/strict'
import { after, describe, test, type TestContext } from 'node:test'
import pg from 'pg'
import { Database } from '../../../adapters/postgres/database.js'
import { expiredRows, Sweeper, type SweepBatch } from '../../../adapters/postgres/expiry.js'
import { PostgresBlobs } from '../../../adapters/postgres/blobs/blobs.js'
import type { Query } from '../../../adapters/postgres/connections.js'
import { EXPIRED, PostgresStore } from '../../../adapters/postgres/store.js'
import { postgresForFile } from '../../servers/postgres-server.js'
import { eventually } from '../../kit/wait.js'

const server = await postgresForFile()
const pool = new pg.Pool({ connectionString: server.url })
after(() => pool.end())
let schemas = 0

const expiredEntries = (query: Query, entries: string): SweepBatch => (
  expiredRows(query, entries, 'key', EXPIRED)
)

/** A schema of its own, with 2500 expired entries of the last day and 500 live ones. */
async function filled(t: TestContext) {
  const schema = `sweep_${String(++schemas)}`
  const database = new Database({ pool, schema, timeoutMs: 20_000 })
  await database.ready()
  const entries = `${schema}.entries`
  await server.query(`INSERT INTO ${entries} (key, value, revision, expires_at, sweep_slot)
    SELECT 'expired ' || n, '', '', expiry, ceil(extract(epoch FROM expiry) / 600)
    FROM generate_series(1, 2500) AS n,
      LATERAL (SELECT now() - interval '10 minutes' - n * interval '30 s' AS expiry) AS at
    UNION ALL
    SELECT 'live ' || n, '', '', now() + interval '1 hour',
      ceil(extract(epoch FROM now() + interval '1 hour') / 600)
    FROM generate_series(1, 500) AS n`)
  const sweeper = new Sweeper([expiredEntries(database.background, entries)])
  t.after(() => { sweeper.close() })
  const count = async (): Promise<number> => (
    Number((await server.query(`SELECT count(*) AS count FROM ${entries}`))[0]?.['count'])
  )
  return { database, entries, sweeper, count }
}

describe('the sweep of expired rows', () => {
  test('deletes all expired rows, and no others', async (t) => {
    const { sweeper, entries, count } = await filled(t)
    await sweeper.sweep()
    assert.equal(await count(), 500)
    assert.equal((await server.query(`SELECT 1 FROM ${entries} WHERE key LIKE 'expired%'`)).length, 0)
  })

  test('deletes at most a thousand rows in one statement', async (t) => {
    const { database, entries, count } = await filled(t)
    const batch = expiredEntries(database.background, entries)
    assert.equal(await batch(), true)
    assert.equal(await count(), 2000)
  })

  test('leaves rows that a transaction has locked, and does not wait for them', async (t) => {
    const { sweeper, entries, count } = await filled(t)
    const client = await pool.connect()
    t.after(() => { client.release() })
    await client.query('BEGIN')
    await client.query(`SELECT 1 FROM ${entries} WHERE key IN ('expired 1', 'expired 2') FOR UPDATE`)
    await sweeper.sweep()
    assert.equal(await count(), 502)
    await client.query('COMMIT')
    await sweeper.sweep()
    assert.equal(await count(), 500)
  })

  test('locks no table, so that other calls read and write meanwhile', async (t) => {
    const { database, entries, count } = await filled(t)
    const client = await pool.connect()
    t.after(() => { client.release() })
    await client.query('BEGIN')
    await expiredEntries(async <Row>(text: string, values: readonly unknown[] = []) => (
      (await client.query(text, [...values])).rows as Row[]
    ), entries)()
    await database.query(`UPDATE ${entries} SET value = 'x' WHERE key = 'live 1'`)
    await database.query(`DELETE FROM ${entries} WHERE key = 'live 2'`)
    await client.query('COMMIT')
    assert.equal(await count(), 1999)
  })

  test('deletes each row once if two processes sweep at once', async (t) => {
    const { database, entries, sweeper, count } = await filled(t)
    const other = new Sweeper([expiredEntries(database.background, entries)])
    t.after(() => { other.close() })
    await Promise.all([sweeper.sweep(), other.sweep()])
    await sweeper.sweep()
    assert.equal(await count(), 500)
  })
})

test('updates of an entry do not write its indexes', async () => {
  const own = new pg.Pool({ connectionString: server.url })
  const database = new Database({ pool: own, schema: 'updates', timeoutMs: 20_000 })
  const store = new PostgresStore(database, { maxEntries: 100_000, maxBytes: 2 ** 26 })
  const options = { ttlMs: 86_400_000, evictable: true, caller: 'ann' }
  for (let n = 0; n < 200; n++) {
    const key = `task ${String(n)}`
    const created = await store.create(key, 'x'.repeat(500), options)
    assert.ok(created.created)
    const replaced = await store.replace(key, 'y'.repeat(500), created.revision, options)
    assert.ok(replaced.replaced)
    await store.replace(key, 'z'.repeat(500), replaced.revision, options)
  }
  await store.close()
  // A server process publishes its statistics when it ends.
  await own.end()
  let counts: Record<string, unknown> | undefined
  await eventually(async () => {
    [counts] = await server.query(`SELECT n_tup_upd::float8 AS updates, n_tup_hot_upd::float8 AS hot
      FROM pg_stat_user_tables WHERE schemaname = 'updates' AND relname = 'entries'`)
    return counts?.['updates'] === 400
  }, 10_000, 'the statistics are there')
  assert.ok(Number(counts?.['hot']) > 360, `${String(counts?.['hot'])} of 400 updates`)
})

test('an expired blob that a transaction has locked is left whole, and is swept later', async (t) => {
  const database = new Database({ pool, schema: 'locked_blob', timeoutMs: 20_000 })
  const blobs = new PostgresBlobs(database)
  t.after(() => blobs.close())
  const content = (async function* () { yield Buffer.from('content') })()
  await blobs.put('locked', content, { ttlMs: 1 })
  const rows = async (): Promise<number[]> => Promise.all(['blobs', 'blob_versions'].map(async (table) => (
    (await server.query(`SELECT 1 FROM locked_blob.${table}`)).length
  )))
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    await client.query('SELECT 1 FROM locked_blob.blobs FOR UPDATE')
    await blobs.sweep()
    assert.deepEqual(await rows(), [1, 1])
  } finally {
    await client.query('ROLLBACK')
    client.release()
  }
  await blobs.sweep()
  assert.deepEqual(await rows(), [0, 0])
})
