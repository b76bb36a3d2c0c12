import { clearTimeout, setTimeout } from '../../src/runtime/timers.js'
import type { ShareLimits } from '../../src/stores/share-limits.js'
import type { Query } from './connections.js'

/** Average time between two sweeps, in milliseconds. */
const INTERVAL_MS = 60_000
/** Pause between two batches, in milliseconds. */
const BATCH_PAUSE_MS = 100
/** Part of its share that an owner writes between two checks, on average. */
const PART = 1 / 16
/** Maximum number of rows in one statement. */
export const BATCH = 1000

/** Deletes expired rows. Resolves to `true` if more may be left. */
export type SweepBatch = () => Promise<boolean>

/** Deletes expired rows in batches, at random times, so that processes rarely sweep together. */
export class Sweeper {
  private timer: ReturnType<typeof setTimeout> | undefined
  private isClosed = false

  constructor(private readonly batches: readonly SweepBatch[]) {
    this.later()
  }

  async sweep(): Promise<void> {
    await Promise.all(this.batches.map(async (batch) => {
      while (!this.isClosed && await batch()) {
        await new Promise((resolve) => { setTimeout(resolve, BATCH_PAUSE_MS).unref() })
      }
    }))
  }

  close(): void {
    this.isClosed = true
    clearTimeout(this.timer)
  }

  private later(): void {
    if (this.isClosed) return
    this.timer = setTimeout(() => {
      void this.sweep().catch(() => undefined).then(() => { this.later() })
    }, INTERVAL_MS * (0.5 + Math.random())).unref()
  }
}

/** @param expired - SQL of the condition on the rows, perhaps with an order */
export function expiredRows(query: Query, table: string, key: string, expired: string): SweepBatch {
  const sql = `DELETE FROM ${table} WHERE ${key} = ANY(ARRAY(
  SELECT ${key} FROM ${table} WHERE ${expired} LIMIT ${String(BATCH)} FOR UPDATE SKIP LOCKED
)) RETURNING 1`
  return async () => (await query(sql)).length === BATCH
}

export type ShareCheck = (owner: string, bytes: number, limits: ShareLimits) => void

/**
 * Limits what each owner leaves behind. It needs no counters: each write starts a check of its
 * owner with a probability that makes one check for each sixteenth of a share.
 *
 * @param sql - removes and returns at most `BATCH` rows that an owner (`$1`) has beyond a number
 * (`$2`) or a total (`$3`)
 */
export function shareCheck<Row>(
  query: Query, sql: string, onRemoved: (rows: readonly Row[]) => void, random = Math.random,
): ShareCheck {
  const check = async (values: readonly unknown[]): Promise<void> => {
    for (let count = BATCH; count === BATCH;) {
      const rows = await query<Row>(sql, values)
      if (rows.length > 0) onRemoved(rows)
      count = rows.length
    }
  }
  return (owner, bytes, { maxEntries, maxBytes }) => {
    if (random() >= Math.max(1 / maxEntries, bytes / maxBytes) / PART) return
    // After a failure, the next check removes the rows, or they expire.
    check([owner, maxEntries, maxBytes]).catch(() => undefined)
  }
}
