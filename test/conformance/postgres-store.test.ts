import * as runner from 'node:test'
import { after, describe } from 'node:test'
import { storeConformance } from 'longhaul/conformance'
import { migrate, postgres, type PostgresOptions } from 'longhaul/postgres'
import pg from 'pg'
import { pgBouncerForFile } from '../servers/pgbouncer.js'
import { postgresForFile } from '../servers/postgres-server.js'

// Both stores of a test may have a sixteenth more, and round down.
const SHARE = { maxEntriesPerOwner: 16, maxBytesPerOwner: 14_000 }
const SUITE_SHARE = { entries: 20, bytes: 16_000 }

// Started before the first test, because that blocks the process.
const server = await postgresForFile()
const pooler = await pgBouncerForFile(server)
await migrated(server.url)

describe('PostgresStore', { concurrency: 8 }, () => {
  conforms(server.url, 'on a server')
  conforms(server.url, 'with prepared statements', { preparedStatements: true })
  conforms(pooler.url, 'behind PgBouncer in transaction mode')
})

describe('PostgresStore whose database is serializable by default', () => {
  const url = new URL(server.url)
  url.searchParams.set('options', '-c default_transaction_isolation=serializable')
  conforms(url.href, 'in races')
})

function conforms(url: string, title: string, options: Partial<Omit<PostgresOptions, 'pool'>> = {}): void {
  const make = () => {
    const pool = new pg.Pool({ connectionString: url })
    after(() => pool.end())
    return () => postgres({ pool, timeoutMs: 10_000, ...SHARE, ...options }).store
  }
  const [store, second] = [make(), make()]
  storeConformance(runner, async () => ({ store: store(), second: second() }), {
    toleranceMs: 200, title, callerShare: SUITE_SHARE,
  })
}

/** Applies the migrations. Otherwise the first calls of some 70 engines would wait for each other's. */
async function migrated(connectionString: string): Promise<void> {
  const pool = new pg.Pool({ connectionString })
  await migrate(pool)
  await pool.end()
}
