import { checkTransaction, type Transaction } from '../../../src/engine/engine.js'
import { newId } from '../../../src/runtime/random-id.js'
import { setTimeout } from '../../../src/runtime/timers.js'
import { StoreUnavailableError } from '../../../src/stores/store.js'
import type { Query } from '../connections.js'
import { identitySql, type Database } from '../database.js'

/** Setting that is lost at the end of a transaction. */
const MARK = 'longhaul.transaction'
/** Maximum wait for another open transaction, and between two attempts, in milliseconds. */
const MAX_WAIT_MS = 4000
const AGAIN_MS = 30

/** @throws {TypeError} `transaction` has no function `query`, or it does not resolve to `{ rows }`. */
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
 * Checks that a transaction is open and belongs to this database. Acquires advisory locks on the names
 * of a task (id, key, caller with a limit, business key), always in one order, and waits up to 4 seconds
 * for another open transaction that has one of them.
 *
 * @throws {TypeError} The transaction is not open, or belongs to another database.
 * @throws {StoreUnavailableError} The other transaction is still open.
 */
export async function enter(
  query: Query, database: Database, names: readonly (string | undefined)[],
): Promise<void> {
  const { schema } = database
  const mark = newId()
  // `true`: the setting is lost with the transaction; without one, with this statement.
  const [begun] = await query<{ readonly hasTables: boolean }>(
    'SELECT set_config($1::text, $2::text, true), to_regclass($3::text) IS NOT NULL AS "hasTables"',
    [MARK, mark, `${schema}.installation`],
  )
  const identity = begun?.hasTables === true ? `(${identitySql(schema)})` : 'NULL'
  const lock = (name: string): string => `pg_try_advisory_xact_lock(hashtextextended(${name}::text, 0))`
  const locked = names.map((name, kind) => (
    name === undefined ? null : `${schema} ${String(kind)} ${name}`
  ))
  const acquired = locked.map((_, n) => `WHEN NOT ${lock(`$${String(n + 2)}`)} THEN false`).join(' ')
  for (const began = performance.now(); ;) {
    const [seen] = await query<{
      readonly mark: string | null, readonly identity: string | null, readonly acquired: boolean,
    }>(
      `SELECT current_setting($1::text, true) AS mark, ${identity} AS identity,
  CASE ${acquired} ELSE true END AS acquired`, [MARK, ...locked],
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
        'Another transaction has not ended: it creates a task with the same id, key or business key, or '
          + 'one that counts for a limit of the same caller',
      )
    }
    await new Promise((resolve) => { setTimeout(resolve, AGAIN_MS * Math.random()) })
  }
}
