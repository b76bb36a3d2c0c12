import { setTimeout as pause } from 'node:timers/promises'
import { setTimeout, clearTimeout } from '../../src/runtime/timers.js'
import type { Query } from './connections.js'

/** Average time between two sweeps, in milliseconds. */
const INTERVAL_MS = 60_000
/** Delay before the next sweep if this one left expired rows, in milliseconds. */
const BUSY_INTERVAL_MS = 2000
/** Maximum number of batches of one table in one sweep. */
const MAX_BATCHES = 50
/** Pause between two batches, in milliseconds. */
const BATCH_PAUSE_MS = 20

/** Maximum number of rows in one statement. */
const BATCH = 1000

/** Deletes one batch of expired rows. Resolves to `true` if more may be left. */
export type SweepBatch = () => Promise<boolean>

/**
 * Deletes expired rows in small batches, at random times, so that processes rarely sweep together.
 * The work of one sweep is bounded. After a long absence the next ones follow soon, until all
 * expired rows are gone.
 */
export class Sweeper {
  private timer: ReturnType<typeof setTimeout> | undefined
  private isClosed = false

  /** @param begin - begins the sweep of one table */
  constructor(private readonly begin: readonly (() => SweepBatch)[]) {
    this.later(INTERVAL_MS)
  }

  /** Sweeps now. Resolves to `true` if expired rows may be left. */
  async sweep(): Promise<boolean> {
    const left = await Promise.all(this.begin.map((begin) => this.sweepTable(begin())))
    return left.includes(true)
  }

  close(): void {
    this.isClosed = true
    clearTimeout(this.timer)
  }

  private async sweepTable(batch: SweepBatch): Promise<boolean> {
    for (let count = 0; count < MAX_BATCHES && !this.isClosed; count++) {
      if (!await batch()) return false
      await pause(BATCH_PAUSE_MS, undefined, { ref: false })
    }
    return true
  }

  /** Sweeps after a random time from half to one and a half of `ms`. */
  private later(ms: number): void {
    if (this.isClosed) return
    this.timer = setTimeout(() => {
      // A sweep that failed is repeated after the usual time.
      this.sweep().catch(() => false).then((isBusy) => {
        this.later(isBusy ? BUSY_INTERVAL_MS : INTERVAL_MS)
      }, () => undefined)
    }, ms * (0.5 + Math.random()))
    this.timer.unref()
  }
}

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
