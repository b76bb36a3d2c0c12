import type { runMigrations } from 'bullmq'
import { loadBullMQ } from '../../bullmq/load-bullmq.js'
import type { Query } from '../connections.js'

/** Returns the schema of BullMQ's tables, beside the schema of the package's own tables. */
export function bullSchema(schema: string): string {
  return `${schema}_bullmq`
}

/** Returns true if BullMQ's tables have all migrations of the installed version. */
export async function isMigrated(query: Query, schema: string): Promise<boolean> {
  return await bullVersion(query, schema) >= loadBullMQ().LATEST_SCHEMA_VERSION
}

/** Returns the version of BullMQ's tables; 0 if there are none. */
export async function bullVersion(query: Query, schema: string): Promise<number> {
  const { assertSchemaCompatibility, SchemaMigrationRequiredError } = loadBullMQ()
  try {
    return await assertSchemaCompatibility(toClient(query), bullSchema(schema), CHECKS)
  } catch (error) {
    if (error instanceof SchemaMigrationRequiredError) return 0
    throw error
  }
}

/** Runs BullMQ's migrations. `query` must run in a transaction. */
export async function migrateBull(query: Query, schema: string): Promise<void> {
  await loadBullMQ().runMigrations(toClient(query), bullSchema(schema), CHECKS)
  await query(withoutEvents(bullSchema(schema)))
}

/**
 * Returns the SQL of BullMQ's migrations, as one transaction.
 *
 * @param version - version of the tables; 0 if there are none
 */
export async function bullMigrationSql(schema: string, version = 0): Promise<string> {
  const statements: string[] = []
  await migrateBull(<Row>(text: string, values: readonly unknown[] = []) => {
    if (text.startsWith('SELECT COALESCE')) {
      return Promise.resolve(text.includes(' AS version') ? [{ version } as Row] : [])
    }
    statements.push(inline(text.trim(), values))
    return Promise.resolve<readonly Row[]>([])
  }, schema)
  return ['BEGIN', ...statements, 'COMMIT'].map((each) => `${each.replace(/;$/, '')};\n`).join('\n')
}

/**
 * Returns the statement that switches BullMQ's events off. Nothing here reads them. They cost six
 * rows and six notices for each job, and PostgreSQL commits transactions with notices one after the
 * other.
 */
function withoutEvents(schema: string): string {
  return `CREATE OR REPLACE FUNCTION "${schema}".publish_event(p_queue text, p_event text, p_data jsonb)
RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 0::bigint'`
}

/** PostgreSQL 13 is supported, so BullMQ need not warn about it. */
const CHECKS = { skipVersionCheck: true }

/** BullMQ begins and ends the transaction itself, but the caller has begun it already. */
const TRANSACTION = new Set(['BEGIN', 'COMMIT', 'ROLLBACK'])

type BullClient = Parameters<typeof runMigrations>[0]

function toClient(query: Query): BullClient {
  return {
    query: async <Row>(text: string, values?: readonly unknown[]) => {
      if (TRANSACTION.has(text)) return { rows: [] }
      // A text of several statements has no rows.
      const rows = await query<Row>(text, values) as readonly Row[] | undefined
      return { rows: [...rows ?? []] }
    },
  }
}

/** Writes the values of a statement into its text. */
function inline(text: string, values: readonly unknown[]): string {
  return text.replace(/\$(\d+)/g, (_parameter, number: string) => {
    const value = values[Number(number) - 1]
    return typeof value === 'number' ? String(value) : `'${String(value).replaceAll('\'', '\'\'')}'`
  })
}
