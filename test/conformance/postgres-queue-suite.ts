// The queue suite on PostgreSQL. `suiteOn` and `suiteBehindPooler` start a server of their own. It takes half a minute, so each test file has two of these.
import * as runner from 'node:test'
import { after, describe } from 'node:test'
import { queueConformance, type QueueConformanceOptions } from 'longhaul/conformance'
import { PostgresQueue } from 'longhaul/postgres'
import pg from 'pg'
import { startPgBouncer } from '../servers/pgbouncer.js'
import type { PostgresMajor } from '../servers/postgres-binary.js'
import { startPostgres } from '../servers/postgres-server.js'

/** Registers the suite for queues on a pool. Each test has a queue of its own, and a producer beside it. */
export function conformance(pool: pg.Pool, options: QueueConformanceOptions): void {
  let made = 0
  queueConformance(runner, async () => {
    const queueOptions = { pool, name: `test-${String(made++)}`, stalledIntervalMs: 1000, timeoutMs: 5000 }
    const queue = new PostgresQueue(queueOptions)
    const producer = new PostgresQueue(queueOptions)
    return {
      queue, producer,
      close: async () => { await Promise.all([queue.close({ drainMs: 0 }), producer.close()]) },
    }
  }, options)
}

function conformanceAt(url: string, toleranceMs: number): void {
  const pool = new pg.Pool({ connectionString: url, max: 10 })
  after(() => pool.end())
  conformance(pool, { toleranceMs, timeoutMs: 15_000 })
}

/** Runs the suite on one version of PostgreSQL. */
export function suiteOn(major: PostgresMajor): void {
  describe(`PostgresQueue on PostgreSQL ${String(major)}`, async () => {
    const server = await startPostgres({ major })
    // In this order: a pool whose server has ended does not close.
    after(() => server.stop())
    conformanceAt(server.url, 200)
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
    conformanceAt(pooler.url, 1300)
  })
}
