import { newId } from '../../src/runtime/random-id.js'
import { StoreUnavailableError } from '../../src/stores/store.js'
import { checkTransaction, type Transaction } from '../../src/engine/engine.js'
import type { Query } from './connections.js'
import { identitySql, type Database } from './database.js'
import { sqlState } from './sql.js'

/** Setting that is lost at the end of a transaction. */
const MARK = 'longhaul.transaction'
/** Maximum time for which a transaction waits for another open one, in milliseconds. */
const MAX_WAIT_MS = 4000
/** Savepoint that keeps a transaction usable if it has waited in vain. */
const SAVEPOINT = 'longhaul_wait'

/**
 * Returns the function that runs statements in a transaction of the application. It rejects with
 * the error of the client, because the application may retry the transaction by its code.
 *
 * @throws {TypeError} The value has no function `query`, or it does not resolve to `{ rows }`.
 */
export function queryOf(transaction: Transaction): Query {
  checkTransaction('submit', transaction)
  return async <Row>(text: string, values: readonly unknown[] = []) => {
    const result: unknown = await transaction.query(text, [...values])
    const { rows } = Object(result) as { readonly rows?: unknown }
    if (Array.isArray(rows)) return rows as Row[]
    throw new TypeError('postgres: transaction.query must resolve to { rows }, with rows as an array')
  }
}

/**
 * Checks that a transaction is open, and that it belongs to this database. Writes nothing, and
 * leaves the transaction usable.
 *
 * @throws {TypeError} It is not open, or belongs to another database.
 */
export async function checkOpen(query: Query, database: Database): Promise<void> {
  const { schema } = database
  const mark = newId()
  // `true`: until the end of the transaction. Without one, that is the end of this statement.
  const [begun] = await query<{ readonly hasTables: boolean }>(
    'SELECT set_config($1::text, $2::text, true), to_regclass($3::text) IS NOT NULL AS "hasTables"',
    [MARK, mark, `${schema}.installation`],
  )
  const identity = begun?.hasTables === true ? `(${identitySql(schema)})` : 'NULL'
  const [seen] = await query<{ readonly mark: string | null, readonly identity: string | null }>(
    `SELECT current_setting($1::text, true) AS mark, ${identity} AS identity`, [MARK],
  )
  if (seen?.mark !== mark) {
    throw new TypeError(
      'postgres: transaction is not open; pass the client that has run BEGIN, not the pool',
    )
  }
  if (seen.identity === null || !await database.isIdentity(seen.identity)) {
    throw new TypeError(
      'postgres: transaction belongs to another database than these tasks',
    )
  }
}

/**
 * Acquires the right to use some names in a transaction of the application, until it ends. Waits for
 * another open transaction that has acquired one of them, for up to 4 seconds. Without this a write
 * would wait for the end of that transaction, however long it takes.
 *
 * @param names - names by kind; `undefined`: none of this kind
 * @throws {StoreUnavailableError} The other transaction is still open. This one stays usable.
 */
export async function acquire(
  query: Query, schema: string, names: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  const wanted = Object.entries(names).filter(([, name]) => name !== undefined)
    .map(([kind, name]) => `${schema} ${kind} ${String(name)}`)
  // In one order, and none after one that is taken, so that two transactions never have what the
  // other one waits for.
  const tried = wanted.reduceRight((rest, _, at) => (
    `CASE WHEN pg_try_advisory_xact_lock(hashtextextended($${String(at + 1)}::text, 0)) `
    + `THEN ${rest} ELSE false END`
  ), 'true')
  const [row] = await query<{ readonly acquired: boolean }>(`SELECT ${tried} AS acquired`, wanted)
  if (row?.acquired !== true) await waitFor(query, wanted)
}

async function waitFor(query: Query, names: readonly string[]): Promise<void> {
  const setLimit = 'SELECT set_config(\'statement_timeout\', $1::text, true)'
  await query(`SAVEPOINT ${SAVEPOINT}`)
  const [own] = await query<{ readonly ms: number }>(
    'SELECT setting::float8 AS ms FROM pg_settings WHERE name = \'statement_timeout\'',
  )
  const ownMs = own?.ms ?? 0
  // 0 is no limit.
  await query(setLimit, [String(Math.min(ownMs || MAX_WAIT_MS, MAX_WAIT_MS))])
  try {
    await query(
      'SELECT pg_advisory_xact_lock(hashtextextended(name, 0)) FROM unnest($1::text[]) AS name',
      [names],
    )
  } catch (error) {
    await query(`ROLLBACK TO SAVEPOINT ${SAVEPOINT}`)
    // 57014: statement_timeout. 40P01: each transaction waits for what the other one has locked.
    if (!['57014', '40P01'].includes(sqlState(error) ?? sqlState((error as Error).cause) ?? '')) throw error
    throw new StoreUnavailableError(
      'Another open transaction creates a task with this id or key, or under a limit of this caller',
      { cause: error },
    )
  }
  await query(setLimit, [String(ownMs)])
  await query(`RELEASE SAVEPOINT ${SAVEPOINT}`)
}
