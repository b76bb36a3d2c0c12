import { checkNames } from '../../src/runtime/option-names.js'
import { shareLimits } from '../../src/stores/share-limits.js'
import { PostgresBlobs } from './blobs/blobs.js'
import { Database, type PostgresOptions } from './database.js'
import type { PgliteClient, PostgresPool } from './client.js'
import { PostgresQueue } from './queue.js'
import { PostgresStore } from './store.js'
import { FirstWrites } from './tasks/first-writes.js'
import { PostgresTaskIndex } from './tasks/task-index.js'

/** The parts that `postgres()` creates on a PGlite. The queue is a `MemoryQueue`. */
export interface PgliteEngine {
  readonly store: PostgresStore
  readonly blobs: PostgresBlobs
  readonly index: PostgresTaskIndex
}

/** The parts that `postgres()` creates on a `pg.Pool`. */
export interface PostgresEngine extends PgliteEngine {
  readonly queue: PostgresQueue
}

/** Options of `postgres`. */
export interface PostgresEngineOptions extends PostgresOptions {
  /**
   * Maximum number of entries that one owner leaves behind: finished tasks, stored responses,
   * finished uploads. Beyond it, the owner loses its own oldest. They are removed after a
   * further sixteenth was written, on average. Default 100,000.
   */
  readonly maxEntriesPerOwner?: number
  /** Maximum size of these entries in bytes, before compression. Default 64 MiB. */
  readonly maxBytesPerOwner?: number
}

const KNOWN = {
  pool: 0, schema: 0, migrate: 0, timeoutMs: 0, preparedStatements: 0, maxEntriesPerOwner: 0,
  maxBytesPerOwner: 0,
} satisfies Record<keyof PostgresEngineOptions, 0>

/**
 * A store, blobs and a task index on a PGlite, which one process has for itself. The queue is a
 * `MemoryQueue` of `longhaul/memory`.
 *
 * @example
 * const tasks = createTasks({ ...postgres({ pool }), queue: new MemoryQueue(), definitions })
 *
 * @throws {TypeError} An option is not valid or unknown.
 */
export function postgres(
  options: PostgresEngineOptions & { readonly pool: PgliteClient },
): PgliteEngine
/**
 * A store, blobs, a task index and a queue on one PostgreSQL 13 or later, over the `pg.Pool` of the
 * host.
 *
 * @example
 * const tasks = createTasks({ ...postgres({ pool }), definitions })
 *
 * @throws {TypeError} An option is not valid or unknown.
 */
export function postgres(
  options: PostgresEngineOptions & { readonly pool: PostgresPool },
): PostgresEngine
export function postgres(options: PostgresEngineOptions): PgliteEngine | PostgresEngine {
  if (typeof (options as { query?: unknown } | undefined)?.query === 'function') {
    throw new TypeError('postgres: pass the pool as an option: postgres({ pool })')
  }
  checkNames('postgres', options, KNOWN)
  const { maxEntriesPerOwner, maxBytesPerOwner, ...rest } = options
  const limits = shareLimits('postgres', {
    ...maxEntriesPerOwner !== undefined && { maxEntriesPerOwner },
    ...maxBytesPerOwner !== undefined && { maxBytesPerOwner },
  })
  const database = new Database(rest)
  const firstWrites = new FirstWrites(database)
  const parts = {
    store: new PostgresStore(database, firstWrites, limits),
    blobs: new PostgresBlobs(database),
    index: new PostgresTaskIndex(database, firstWrites),
  }
  if (!database.shared) return parts
  return { ...parts, queue: new PostgresQueue({ ...rest, pool: options.pool as PostgresPool }) }
}
