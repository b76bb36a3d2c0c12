// Runs the queue suite on a server of its own. It takes half a minute, so each test file has two of these.
import * as runner from 'node:test'
import { after, describe } from 'node:test'
import { queueConformance } from 'longhaul/conformance'
import { PostgresQueue } from 'longhaul/postgres'
import pg from 'pg'
import { startPgBouncer } from '../servers/pgbouncer.js'
import type { PostgresMajor } from '../servers/postgres-binary.js'
import { startPostgres } from '../servers/postgres-server.js'

function conformance(url: string, toleranceMs: number): void {
  const pool = new pg.Pool({ connectionString: url, max: 10 })
  after(() => pool.end())
  let made = 0
  queueConformance(runner, async () => {
    const options = { pool, name: `test-${String(made++)}`, stalledIntervalMs: 1000, timeoutMs: 5000 }
    const queue = new PostgresQueue(options)
    const producer = new PostgresQueue(options)
    return {
      queue, producer,
      close: async () => { await Promise.all([queue.close({ drainMs: 0 }), producer.close()]) },
    }
  }, { toleranceMs, timeoutMs: 15_000 })
}

/** Runs the suite on one version of PostgreSQL. */
export function suiteOn(major: PostgresMajor): void {
  describe(`PostgresQueue on PostgreSQL ${String(major)}`, async () => {
    const server = await startPostgres({ major })
    // In this order: a pool whose server has ended does not close.
    after(() => server.stop())
    conformance(server.url, 200)
  })
}

/** Runs the suite behind a pooler in transaction mode. */
export function suiteBehindPooler(): void {
  describe('PostgresQueue behind a pooler in transaction mode', async () => {
    const server = await startPostgres()
    const pooler = await startPgBouncer(server)
    after(async () => {
      await pooler.stop()
      await server.stop()
    })
    // Without notices, a worker looks for jobs every second.
    conformance(pooler.url, 1300)
  })
}
