import { checkNames } from '../../src/runtime/option-names.js'
import { bullMigrationSql, bullVersion, isMigrated, migrateBull } from './bullmq/schema.js'
import type { PgliteClient, PostgresPool } from './client.js'
import type { Connections, Query } from './connections.js'
import { connectionsOf } from './connections-of.js'
import { applyMigrations, missingMigrations } from './migrations/migrate.js'
import { MIGRATIONS } from './migrations/list.js'
import type { Migration } from './migrations/migration.js'
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
 * Applies the migrations that are missing, those of the queue included, and returns their names.
 * For deploy scripts: with `postgres({ pool, migrate: false })` the processes themselves need no
 * right to create tables. Several calls at the same time take turns.
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
  const connections = connectionsOf(pool)
  const applied = await connections.transaction((query) => applyMigrations(query, schema), MAX_MS)
  const names = applied.map(titleOf)
  if (await lacksQueue(connections, schema)) {
    await connections.transaction((query) => migrateBull(query, schema), MAX_MS)
    names.push('queue')
  }
  return names
}

/** Returns the SQL of all migrations, those of the queue included, for an empty database. */
export async function completeSql(schema: string): Promise<string> {
  return `${migrationSql(schema, MIGRATIONS)}\n${await bullMigrationSql(schema)}`
}

/** Returns the SQL of the migrations that a database lacks. Empty if it lacks none. */
export async function missingSql(pool: PostgresPool, schema: string): Promise<string> {
  const connections = connectionsOf(pool)
  const query = queryOf(connections)
  const missing = await missingMigrations(query, schema)
  return [
    ...missing.length > 0 ? [migrationSql(schema, missing)] : [],
    ...await lacksQueue(connections, schema)
      ? [await bullMigrationSql(schema, await bullVersion(query, schema))] : [],
  ].join('\n')
}

/** On a PGlite there is no queue. */
async function lacksQueue(connections: Connections, schema: string): Promise<boolean> {
  return connections.shared && !await isMigrated(queryOf(connections), schema)
}

function queryOf(connections: Connections): Query {
  return <Row>(text: string, values: readonly unknown[] = []) => (
    connections.start<Row>(text, values).rows
  )
}

function titleOf({ number, name }: Migration): string {
  return `${String(number)} ${name}`
}
