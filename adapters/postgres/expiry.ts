import { setTimeout as pause } from 'node:timers/promises'
import { clearTimeout, setTimeout } from '../../src/runtime/timers.js'
import type { ShareLimits } from '../../src/stores/share-limits.js'
import type { Query } from './connections.js'

/** Average time between two sweeps, in milliseconds. */
const INTERVAL_MS = 60_000
/** Delay before the next sweep if this one left expired rows, in milliseconds. */
const BUSY_INTERVAL_MS = 2000
/** Maximum number of batches of one table in one sweep. */
const MAX_BATCHES = 50
/** Pause between two batches, in milliseconds. */
const BATCH_PAUSE_MS = 20
/** Part of its share that an owner writes between two checks, on average. */
const PART = 1 / 16
/** Maximum number of rows in one statement. */
export const BATCH = 1000

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

  /** @param batches - one for each table */
  constructor(private readonly batches: readonly SweepBatch[]) {
    this.later(INTERVAL_MS)
  }

  /** Sweeps now. Resolves to `true` if expired rows may be left. */
  async sweep(): Promise<boolean> {
    const left = await Promise.all(this.batches.map((batch) => this.sweepTable(batch)))
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
      void this.sweep().catch(() => false).then((isBusy) => {
        this.later(isBusy ? BUSY_INTERVAL_MS : INTERVAL_MS)
      })
    }, ms * (0.5 + Math.random()))
    this.timer.unref()
  }
}

/**
 * Returns a function that deletes expired rows of a table. Rows that another transaction has locked
 * are left for later.
 *
 * @param table - quoted as an identifier, with its schema
 * @param key - its primary key
 * @param expired - condition on the rows, perhaps with an order
 */
export function expiredRows(
  query: Query, table: string, key: string, expired: string,
): SweepBatch {
  const sql = `DELETE FROM ${table} WHERE ${key} = ANY(ARRAY(
  SELECT ${key} FROM ${table} WHERE ${expired} LIMIT ${String(BATCH)} FOR UPDATE SKIP LOCKED
)) RETURNING 1`
  return async () => (await query(sql)).length === BATCH
}

/**
 * Limits what each owner leaves behind. A write starts a check of its owner with the probability that
 * makes one check for each sixteenth of a share, on average. So no process keeps counters, whatever
 * the number of owners. No request waits for it.
 */
export class ShareChecks<Row> {
  /**
   * @param sql - removes and returns at most `BATCH` rows that an owner (`$1`) has beyond a number
   * (`$2`) or a total (`$3`)
   * @param onRemoved - called with these rows
   */
  constructor(
    private readonly query: Query, private readonly sql: string,
    private readonly onRemoved: (rows: readonly Row[]) => void,
    /** Returns a random number from 0 to 1, without 1. */
    private readonly random: () => number = Math.random,
  ) {}

  /**
   * Starts a check for some of the writes. Never throws.
   *
   * @param bytes - size of what was written
   */
  count(owner: string, bytes: number, { maxEntries, maxBytes }: ShareLimits): void {
    if (this.random() >= Math.max(1 / maxEntries, bytes / maxBytes) / PART) return
    this.check([owner, maxEntries, maxBytes]).catch(() => {
      // The next check removes the rows, or they expire.
    })
  }

  private async check(values: readonly unknown[]): Promise<void> {
    for (let count = BATCH; count === BATCH;) {
      const rows = await this.query<Row>(this.sql, values)
      if (rows.length > 0) this.onRemoved(rows)
      count = rows.length
    }
  }
}
