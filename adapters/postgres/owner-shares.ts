import type { ShareLimits } from '../../src/stores/share-limits.js'
import type { ReplaceOptions } from '../../src/stores/store.js'
import type { Query } from './connections.js'

/** Memory of a row beside its value, in bytes. An estimate. */
const OVERHEAD = 200
/** Part of its share that an owner writes between two checks, on average. */
const PART = 1 / 16
/** Maximum number of rows that one statement of a check removes. */
export const CHECK_BATCH = 1000

/** Returns the owner that a written entry counts for; `null` if it counts for none. */
export function ownerOf({ evictable = false, owner }: ReplaceOptions): string | null {
  return evictable ? owner ?? null : null
}

/** Returns the SQL of the time at which an entry counts for `owner`; NULL if it counts for none. */
export function countedAt(owner: string): string {
  return `CASE WHEN ${owner}::text IS NOT NULL THEN clock_timestamp() END`
}

/**
 * Limits what each owner leaves behind. A write starts a check of its owner with the probability that
 * makes one check for each sixteenth of a share, on average. So no process keeps counters, whatever
 * the number of owners. No request waits for it.
 */
export class ShareChecks<Row> {
  /** @param onRemoved - called with the rows that a check has removed */
  constructor(
    private readonly query: Query, private readonly onRemoved: (rows: readonly Row[]) => void,
    /** Returns a random number from 0 to 1, without 1. */
    private readonly random: () => number = Math.random,
  ) {}

  /**
   * Starts a check for some of the writes. Never throws.
   *
   * @param sql - removes and returns at most `CHECK_BATCH` rows that an owner (`$1`) has beyond a
   * number (`$2`) or a total (`$3`)
   * @param bytes - size of what was written
   */
  count(sql: string, owner: string, bytes: number, { maxEntries, maxBytes }: ShareLimits): void {
    if (this.random() >= Math.max(1 / maxEntries, bytes / maxBytes) / PART) return
    this.check(sql, [owner, maxEntries, maxBytes]).catch(() => {
      // The next check removes the rows, or they expire.
    })
  }

  private async check(sql: string, values: readonly unknown[]): Promise<void> {
    for (let count = CHECK_BATCH; count === CHECK_BATCH;) {
      const rows = await this.query<Row>(sql, values)
      if (rows.length > 0) this.onRemoved(rows)
      count = rows.length
    }
  }
}

/** Limits the entries of each owner, which name it. Those that were written first are removed. */
export class PostgresOwnerShares {
  private readonly checks: ShareChecks<{ readonly key: string }>
  private readonly sql: string

  constructor(
    query: Query, schema: string, private readonly limits: ShareLimits,
    onRemove: (key: string) => void, random?: () => number,
  ) {
    this.checks = new ShareChecks(query, (rows) => {
      for (const { key } of rows) onRemove(key)
    }, random)
    const entries = `${schema}.entries`
    this.sql = `DELETE FROM ${entries} WHERE owner = $1 AND key = ANY(ARRAY(
  SELECT key FROM ${entries} WHERE owner = $1 AND key = ANY(ARRAY(
    SELECT key FROM (
      SELECT key, row_number() OVER newest AS place,
        sum(octet_length(value) + ${String(OVERHEAD)}) OVER newest AS total
      FROM ${entries} WHERE owner = $1 AND expires_at > now()
      WINDOW newest AS (ORDER BY counted_at DESC, key DESC)
    ) AS ranked
    WHERE place > 1 AND (place > $2::bigint OR total > $3::bigint)
    ORDER BY place DESC LIMIT ${String(CHECK_BATCH)}
  )) ORDER BY key FOR UPDATE SKIP LOCKED
)) RETURNING key`
  }

  /** Starts a check for some of the entries that were written. Never throws. */
  count(owner: string, value: string): void {
    this.checks.count(this.sql, owner, Buffer.byteLength(value) + OVERHEAD, this.limits)
  }
}
