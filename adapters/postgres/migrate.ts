import { checkNames } from '../../src/runtime/option-names.js'
import type { PgliteClient, PostgresPool } from './client.js'
import type { Query } from './connections.js'
import { connectionsOf } from './connections-of.js'
import { applyMigrations, missingMigrations } from './migrations/migrate.js'
import { MIGRATIONS } from './migrations/list.js'
import { checkSchema, migrationSql } from './migrations/sql.js'

/** Maximum time of all migrations, in milliseconds: one hour, for large tables. */
const MAX_MS = 3_600_000

/** Options of `migrate`. */
export interface MigrateOptions {
  /** Schema of the tables. Default `longhaul`. */
  readonly schema?: string
}

const KNOWN = { schema: 0 } satisfies Record<keyof MigrateOptions, 0>

/**
 * Applies the migrations that are missing, and returns their names. For deploy scripts: with
 * `postgres({ pool, migrate: false })` the processes themselves need no right to create tables.
 * Several calls at the same time take turns.
 *
 * @example
 * await migrate(pool)
 *
 * @throws {TypeError} An option is not valid or unknown.
 * @throws {Error} With the code `55P03`: another transaction has locked a table for a second. Call
 * `migrate` again once that transaction is over.
 */
export async function migrate(
  pool: PostgresPool | PgliteClient, options: MigrateOptions = {},
): Promise<readonly string[]> {
  checkNames('migrate', options, KNOWN)
  const { schema = 'longhaul' } = options
  checkSchema('migrate', schema)
  const applied = await connectionsOf(pool).transaction(
    (query) => applyMigrations(query, schema), MAX_MS,
  )
  return applied.map(({ number, name }) => `${String(number)} ${name}`)
}

/** Returns the SQL of all migrations, for an empty database. */
export function completeSql(schema: string): string {
  return migrationSql(schema, MIGRATIONS)
}

/** Returns the SQL of the migrations that a database lacks. Empty if it lacks none. */
export async function missingSql(pool: PostgresPool, schema: string): Promise<string> {
  const connections = connectionsOf(pool)
  const query: Query = (text, values = []) => connections.start(text, values).rows as never
  const missing = await missingMigrations(query, schema)
  return missing.length === 0 ? '' : migrationSql(schema, missing)
}
