import { duration, readOptions, type OptionTable } from '../../src/runtime/options.js'
import { SHARES } from '../../src/stores/share-limits.js'
import { PostgresBlobs } from './blobs/blobs.js'
import { Database, DATABASE_OPTIONS, type DatabaseOptions } from './database.js'
import { PostgresStore } from './store.js'
import { PostgresTaskEngine } from './task-engine/engine.js'

export type { PostgresBlobs, PostgresStore, PostgresTaskEngine }
export { migrate } from './migrations.js'
export type { PostgresPool } from './connections.js'

/** Options of `postgres`. */
export interface PostgresOptions extends DatabaseOptions {
  /**
   * Time without a renewal after which another process takes a run, in milliseconds: from 100 to
   * 86,400,000. Default 15,000.
   *
   * A process renews its runs at a third of it.
   */
  readonly leaseMs?: number
  /**
   * Maximum number of finished tasks of one owner, and of its stored responses and finished
   * uploads. Default 100,000.
   *
   * Beyond it, the owner's oldest are deleted.
   */
  readonly maxEntriesPerOwner?: number
  /** Maximum size of these tasks in bytes, and of these entries. Default 64 MiB. */
  readonly maxBytesPerOwner?: number
}

const OPTIONS = {
  ...DATABASE_OPTIONS,
  leaseMs: duration({ min: 100, max: 86_400_000, default: 15_000 }),
  ...SHARES,
} satisfies OptionTable<PostgresOptions>

/** Result of `postgres`. */
export interface Postgres {
  readonly engine: PostgresTaskEngine
  readonly store: PostgresStore
  readonly blobs: PostgresBlobs
}

/**
 * Creates a task engine, a store and blobs on PostgreSQL 13 or later, over your `pg.Pool`.
 *
 * @example
 * const tasks = createTasks({ ...postgres({ pool }), definitions: [report] })
 *
 * @throws {TypeError} An option is unknown or out of range.
 */
export function postgres(options: PostgresOptions): Postgres {
  if (typeof (options as { query?: unknown } | undefined)?.query === 'function') {
    throw new TypeError('postgres: pass the pool as an option: postgres({ pool })')
  }
  const { leaseMs, maxEntriesPerOwner, maxBytesPerOwner, ...access } = readOptions(
    'postgres', options, OPTIONS,
  )
  const limits = { maxEntries: maxEntriesPerOwner, maxBytes: maxBytesPerOwner }
  const database = new Database(access)
  return {
    engine: new PostgresTaskEngine(database, { limits, leaseMs }),
    store: new PostgresStore(database, limits),
    blobs: new PostgresBlobs(database),
  }
}
