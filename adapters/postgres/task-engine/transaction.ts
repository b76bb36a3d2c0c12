import { checkTransaction, type Transaction } from '../../../src/engine/engine.js'
import { newId } from '../../../src/runtime/random-id.js'
import { setTimeout } from '../../../src/runtime/timers.js'
import { StoreUnavailableError } from '../../../src/stores/store.js'
import type { Query } from '../connections.js'
import { identitySql, type Database } from '../database.js'

/** Setting that is lost at the end of a transaction. */
const MARK = 'longhaul.transaction'
/** Maximum time for which a transaction waits for another open one, in milliseconds. */
const MAX_WAIT_MS = 4000
/** Maximum time between two attempts, in milliseconds. */
const AGAIN_MS = 30

/**
 * Returns the function that runs statements in a transaction of the application. It rejects with
 * the error of the client, whose code the application may know.
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
 * Checks that a transaction is open and belongs to this database. Acquires the right to use some
 * names in it, and waits up to 4 seconds for another open transaction that has one of them. The names
 * are acquired in one order, so that two transactions rarely have what the other one waits for.
 *
 * @throws {TypeError} The transaction is not open, or belongs to another database.
 * @throws {StoreUnavailableError} The other transaction is still open.
 */
export async function enter(
  query: Query, database: Database, id: string, key: string | undefined, caller: string | undefined,
): Promise<void> {
  const { schema } = database
  const mark = newId()
  // `true`: until the end of the transaction. Without one, that is the end of this statement.
  const [begun] = await query<{ readonly hasTables: boolean }>(
    'SELECT set_config($1::text, $2::text, true), to_regclass($3::text) IS NOT NULL AS "hasTables"',
    [MARK, mark, `${schema}.installation`],
  )
  const identity = begun?.hasTables === true ? `(${identitySql(schema)})` : 'NULL'
  // NULL for a name that is NULL.
  const lock = (name: string): string => `pg_try_advisory_xact_lock(hashtextextended(${name}::text, 0))`
  const names = [id, key, caller].map((name, kind) => (
    name === undefined ? null : `${schema} ${String(kind)} ${name}`
  ))
  for (const began = performance.now(); ;) {
    const [seen] = await query<{
      readonly mark: string | null, readonly identity: string | null, readonly acquired: boolean,
    }>(
      `SELECT current_setting($1::text, true) AS mark, ${identity} AS identity,
  CASE WHEN NOT ${lock('$2')} THEN false WHEN NOT ${lock('$3')} THEN false
  ELSE coalesce(${lock('$4')}, true) END AS acquired`, [MARK, ...names],
    )
    if (seen?.mark !== mark) {
      throw new TypeError(
        'postgres: transaction is not open; pass the client that has run BEGIN, not the pool',
      )
    }
    if (seen.identity === null || !await database.isIdentity(seen.identity)) {
      throw new TypeError('postgres: transaction belongs to another database than these tasks')
    }
    if (seen.acquired) return
    if (performance.now() - began > MAX_WAIT_MS) {
      throw new StoreUnavailableError(
        'Another open transaction creates a task with this id or key, or under a limit of this caller',
      )
    }
    await new Promise((resolve) => { setTimeout(resolve, AGAIN_MS * Math.random()) })
  }
}
