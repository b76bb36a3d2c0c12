import { checkNames } from '../../src/runtime/option-names.js'
import { Database, type PostgresOptions } from './database.js'
import { PostgresStore } from './store.js'

/** The parts that `postgres()` creates. */
export interface PostgresEngine {
  readonly store: PostgresStore
}

const KNOWN = {
  pool: 0, schema: 0, migrate: 0, timeoutMs: 0, preparedStatements: 0,
} satisfies Record<keyof PostgresOptions, 0>

/**
 * A store on one PostgreSQL 13 or later, over the `pg.Pool` of the host.
 *
 * @example
 * const tasks = createTasks({ ...postgres({ pool }), definitions })
 *
 * @throws {TypeError} An option is not valid or unknown.
 */
export function postgres(options: PostgresOptions): PostgresEngine {
  checkNames('postgres', options, KNOWN)
  const database = new Database(options)
  return { store: new PostgresStore(database) }
}
