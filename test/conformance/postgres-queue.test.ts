import * as runner from 'node:test'
import { after, describe } from 'node:test'
import { queueConformance } from 'longhaul/conformance'
import { migrate, PostgresQueue } from 'longhaul/postgres'
import pg from 'pg'
import { postgresUrl } from '../servers/postgres-url.js'

describe('PostgresQueue', { concurrency: 2 }, async () => {
  const pool = new pg.Pool({ connectionString: await postgresUrl(), max: 20 })
  after(() => pool.end())
  // The migrations have no deadline. Within the first call they would have that of the call.
  await migrate(pool)
  let made = 0
  queueConformance(runner, async () => {
    const options = { pool, name: `test-${String(made++)}`, stalledIntervalMs: 1000, timeoutMs: 5000 }
    const queue = new PostgresQueue(options)
    const producer = new PostgresQueue(options)
    return {
      queue, producer,
      close: async () => {
        await Promise.all([queue.close({ drainMs: 0 }), producer.close()])
      },
    }
  }, { toleranceMs: 100 })
})
