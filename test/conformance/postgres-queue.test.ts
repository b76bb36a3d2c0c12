import { after, describe } from 'node:test'
import { migrate } from 'longhaul/postgres'
import pg from 'pg'
import { postgresUrl } from '../servers/postgres-url.js'
import { conformance } from './postgres-queue-suite.js'

describe('PostgresQueue', { concurrency: 2 }, async () => {
  const pool = new pg.Pool({ connectionString: await postgresUrl(), max: 20 })
  after(() => pool.end())
  // The migrations have no deadline. Within the first call they would have that of the call.
  await migrate(pool)
  conformance(pool, { toleranceMs: 100 })
})
