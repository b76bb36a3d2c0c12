import { PGlite } from '@electric-sql/pglite'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as runner from 'node:test'
import { after, describe, test } from 'node:test'
import { storeConformance } from 'longhaul/conformance'
import pg from 'pg'
import { overPglite } from '../../examples/postgres-store/pglite.js'
import { overPool } from '../../examples/postgres-store/postgres.js'
import { PostgresStore } from '../../examples/postgres-store/store.js'
import { startPostgres } from '../servers/postgres-server.js'

test('the store of the guide has at most 150 lines', () => {
  const text = readFileSync(join(import.meta.dirname, '../../examples/postgres-store/store.ts'), 'utf8')
  assert.ok(text.split('\n').length <= 151)
})

describe('PostgresStore on pglite', async () => {
  const db = overPglite(await PGlite.create())
  storeConformance(runner, async () => ({ store: await PostgresStore.open(db) }), { toleranceMs: 200, title: 'on pglite' })
})

const url = process.env['DATABASE_URL']
describe('PostgresStore on a server', { concurrency: 8 }, async () => {
  const server = url === undefined ? await startPostgres() : undefined
  const pool = new pg.Pool({ connectionString: url ?? server?.url, connectionTimeoutMillis: 5000, query_timeout: 10_000 })
  pool.on('error', () => undefined)
  after(async () => {
    await pool.end()
    await server?.stop()
  })
  const db = overPool(pool)
  storeConformance(runner, async () => ({ store: await PostgresStore.open(db), second: new PostgresStore(db) }), { toleranceMs: 200 })
})
