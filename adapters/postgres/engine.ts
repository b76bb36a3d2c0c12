import { checkNames } from '../../src/runtime/option-names.js'
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

const KNOWN = {
  pool: 0, schema: 0, migrate: 0, timeoutMs: 0, preparedStatements: 0,
} satisfies Record<keyof PostgresOptions, 0>

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
  options: PostgresOptions & { readonly pool: PgliteClient },
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
  options: PostgresOptions & { readonly pool: PostgresPool },
): PostgresEngine
export function postgres(options: PostgresOptions): PgliteEngine | PostgresEngine {
  if (typeof (options as { query?: unknown } | undefined)?.query === 'function') {
    throw new TypeError('postgres: pass the pool as an option: postgres({ pool })')
  }
  checkNames('postgres', options, KNOWN)
  const database = new Database(options)
  const firstWrites = new FirstWrites(database)
  const parts = {
    store: new PostgresStore(database, firstWrites),
    blobs: new PostgresBlobs(database),
    index: new PostgresTaskIndex(database, firstWrites),
  }
  if (!database.shared) return parts
  return { ...parts, queue: new PostgresQueue({ ...options, pool: options.pool as PostgresPool }) }
}
