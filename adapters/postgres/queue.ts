import { checkNames } from '../../src/runtime/option-names.js'
import { BullQueueAdapter, checkTimeout } from '../bullmq/bull-queue.js'
import { PostgresBackend } from './bullmq/backend.js'
import { JobDatabase } from './bullmq/job-database.js'
import type { PostgresPool } from './client.js'
import type { PostgresOptions } from './database.js'
import { checkSchema } from './migrations/sql.js'
import { PoolConnections } from './pool.js'

/** Options of `PostgresQueue`. */
export interface PostgresQueueOptions extends Omit<PostgresOptions, 'pool'> {
  /** Your `pg.Pool`. You close it yourself, after the queue. */
  readonly pool: PostgresPool
  /**
   * Name of the queue, unique in the schema. The queue of the pool `heavy` has the name
   * `tasks.heavy`.
   * @default 'tasks'
   */
  readonly name?: string
  /**
   * Time without a sign of life after which a job is taken from its worker, in milliseconds.
   * @default 30_000
   */
  readonly lockDurationMs?: number
  /**
   * Interval of the checks for silent workers, in milliseconds.
   * @default 30_000
   */
  readonly stalledIntervalMs?: number
  /**
   * Maximum number of times that a job may lose its worker. Then the job is dead.
   * @default 1
   */
  readonly maxStalledCount?: number
  /** Receives errors of the connection. Default: none, because the calls themselves fail. */
  readonly onError?: (error: Error) => void
}

const KNOWN = {
  pool: 0, schema: 0, migrate: 0, timeoutMs: 0, name: 0, lockDurationMs: 0, stalledIntervalMs: 0,
  maxStalledCount: 0, onError: 0, preparedStatements: 0,
} satisfies Record<keyof PostgresQueueOptions, 0>

/**
 * A queue on BullMQ's PostgreSQL backend, over the `pg.Pool` of the host. BullMQ's tables are in a
 * schema of their own: `longhaul_bullmq` for the schema `longhaul`. `postgres()` creates one with
 * the name `tasks`. Create another one for callbacks.
 *
 * @example
 * const queue = new PostgresQueue({ pool, name: 'callbacks' })
 *
 * @throws {TypeError} An option is unknown or out of range.
 */
export class PostgresQueue extends BullQueueAdapter {
  /** @throws {TypeError} An option is unknown or out of range. */
  constructor(options: PostgresQueueOptions) {
    checkNames('PostgresQueue', options, KNOWN)
    const {
      pool, schema = 'longhaul', migrate = true, name = 'tasks', timeoutMs = 1500,
      preparedStatements = false,
    } = options
    checkSchema('PostgresQueue', schema)
    checkTimeout('PostgresQueue', timeoutMs)
    if (typeof (pool as PostgresPool | undefined)?.connect !== 'function') {
      throw new TypeError('PostgresQueue: pool must be a pg.Pool')
    }
    if (name === '' || name.includes(':')) {
      throw new TypeError(`PostgresQueue: name must be text without colons, not ${JSON.stringify(name)}`)
    }
    const connections = new PoolConnections(pool, preparedStatements)
    const database = new JobDatabase(connections, { pool, schema, migrate, timeoutMs })
    const open = (queue: string) => new PostgresBackend(database, schema, queue)
    super(open(name), { ...options, timeoutMs }, (part) => open(`${name}.${part}`))
  }
}
