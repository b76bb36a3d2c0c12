import type { Query } from './connections.js'
import type { SweepBatch } from './sweeper.js'

/** Maximum number of rows in one statement. */
const BATCH = 1000

/**
 * Begins to delete the expired rows of a table with `expires_at` and `sweep_slot`. Each statement
 * begins at the slot where the one before ended, because the index still has the entries of deleted
 * rows until the next vacuum. Rows that another transaction has locked are left for later.
 *
 * @param table - quoted as an identifier, with its schema
 */
export function expiredRows(query: Query, table: string): SweepBatch {
  const sql = `WITH gone AS (
  DELETE FROM ${table} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM ${table}
    WHERE sweep_slot BETWEEN $1::integer AND floor(extract(epoch FROM now()) / 600)::integer
      AND expires_at <= now()
    ORDER BY sweep_slot LIMIT ${String(BATCH)} FOR UPDATE SKIP LOCKED
  )) RETURNING sweep_slot
)
SELECT count(*)::integer AS count, max(sweep_slot) AS last FROM gone`
  let slot = 0
  return async () => {
    const [row] = await query<{ readonly count: number, readonly last: number | null }>(sql, [slot])
    slot = row?.last ?? slot
    return row?.count === BATCH
  }
}
