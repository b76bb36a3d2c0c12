import type { Migration } from './migration.js'

const SCHEMA = /^[a-z_][a-z0-9_]{0,39}$/

/**
 * Checks the name of a schema. `where` names the caller in the error.
 *
 * @throws {TypeError} The name has not 1 to 40 characters of `a-z`, `0-9` and `_`, or begins with a
 * digit.
 */
export function checkSchema(where: string, schema: string): void {
  if (typeof schema !== 'string' || !SCHEMA.test(schema)) {
    throw new TypeError(
      `${where}: schema must have 1 to 40 characters of a-z, 0-9 and _, and must not begin with `
      + `a digit; it is ${JSON.stringify(schema)}`,
    )
  }
}

/**
 * Limits how long a migration waits for the lock of a table: one second. Every statement that other
 * processes start meanwhile waits behind it. The migration fails with 55P03, and the next call tries
 * it again.
 */
export const LOCK_TIMEOUT = 'SET LOCAL lock_timeout = \'1s\''

/** Returns the name of a schema as an identifier in SQL. */
export function quoted(schema: string): string {
  return `"${schema}"`
}

/** Returns the statement that creates the table of applied migrations. */
export function journalStatement(schema: string): string {
  return `CREATE TABLE IF NOT EXISTS ${quoted(schema)}.migrations (
  number integer PRIMARY KEY,
  name text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
)`
}

/** Returns the statements of one migration, with the one that records it. */
export function migrationStatements(schema: string, migration: Migration): readonly string[] {
  const { number, name, statements } = migration
  const record = `INSERT INTO ${quoted(schema)}.migrations (number, name) `
    + `VALUES (${String(number)}, '${name}')`
  return [...statements(quoted(schema)), record]
}

/** Returns the SQL of some migrations, as one transaction. */
export function migrationSql(schema: string, migrations: readonly Migration[]): string {
  const statements = [
    'BEGIN',
    LOCK_TIMEOUT,
    `CREATE SCHEMA IF NOT EXISTS ${quoted(schema)}`,
    journalStatement(schema),
    ...migrations.flatMap((migration) => migrationStatements(schema, migration)),
    'COMMIT',
  ]
  return statements.map((statement) => `${statement};\n`).join('\n')
}
