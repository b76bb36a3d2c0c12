import type { Query } from '../connections.js'
import { sqlState } from '../faults.js'
import { MIGRATIONS } from './list.js'
import type { Migration } from './migration.js'
import { journalStatement, LOCK_TIMEOUT, migrationStatements, quoted } from './sql.js'

/** Returns the migrations that were not applied yet. */
export async function missingMigrations(
  query: Query, schema: string,
): Promise<readonly Migration[]> {
  const applied = await appliedNumbers(query, schema)
  return MIGRATIONS.filter(({ number }) => !applied.has(number))
}

/**
 * Applies the migrations that are missing, and returns them. Must run in a transaction. Processes
 * that start together take turns by an advisory lock, which delays nobody else.
 */
export async function applyMigrations(
  query: Query, schema: string,
): Promise<readonly Migration[]> {
  await query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [`longhaul.${schema}`])
  await query(LOCK_TIMEOUT)
  // Reads the catalog itself: `to_regnamespace` may use what the connection knew before it waited.
  const [found] = await query<{ readonly hasSchema: boolean, readonly hasJournal: boolean }>(
    'SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1) AS "hasSchema", '
    + 'to_regclass($2) IS NOT NULL AS "hasJournal"',
    [schema, `${quoted(schema)}.migrations`],
  )
  // Even with IF NOT EXISTS it needs the right to create schemas.
  if (!found?.hasSchema) await query(`CREATE SCHEMA ${quoted(schema)}`)
  if (!found?.hasJournal) await query(journalStatement(schema))
  const missing = await missingMigrations(query, schema)
  for (const migration of missing) {
    for (const statement of migrationStatements(schema, migration)) await query(statement)
  }
  return missing
}

async function appliedNumbers(query: Query, schema: string): Promise<Set<number>> {
  try {
    const rows = await query<{ readonly number: number }>(
      `SELECT number FROM ${quoted(schema)}.migrations`,
    )
    return new Set(rows.map(({ number }) => number))
  } catch (error) {
    // 42P01: there is no table. 3F000: there is no schema.
    if (['42P01', '3F000'].includes(sqlState(error) ?? '')) return new Set()
    throw error
  }
}
