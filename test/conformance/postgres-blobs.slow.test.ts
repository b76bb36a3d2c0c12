import * as runner from 'node:test'
import { describe } from 'node:test'
import { blobsConformance } from 'longhaul/conformance'
import { postgres, type PostgresPool } from 'longhaul/postgres'
import pg from 'pg'
import { pgBouncerForFile } from '../servers/pgbouncer.js'
import { POSTGRES_MAJORS } from '../servers/postgres-binary.js'
import { postgresForFile } from '../servers/postgres-server.js'

/** Runs the suite with the blobs of two engines on one database. */
function suite(title: string, pool: PostgresPool): void {
  blobsConformance(runner, async () => ({
    blobs: postgres({ pool, timeoutMs: 15_000 }).blobs,
    second: postgres({ pool, timeoutMs: 15_000 }).blobs,
  }), { title, toleranceMs: 200, timeoutMs: 20_000 })
}

function poolOf(connectionString: string): pg.Pool {
  const pool = new pg.Pool({ connectionString, connectionTimeoutMillis: 20_000 })
  runner.after(() => pool.end())
  return pool
}

describe('PostgresBlobs', { concurrency: 3 }, () => {
  for (const major of POSTGRES_MAJORS) {
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
})
