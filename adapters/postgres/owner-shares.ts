import type { ShareLimits } from '../../src/stores/share-limits.js'
import type { ReplaceOptions } from '../../src/stores/store.js'
import type { Query } from './connections.js'

/** Memory of a row beside its value, in bytes. An estimate. */
const OVERHEAD = 200
/** Part of its share that an owner writes between two checks, on average. */
const PART = 1 / 16
/** Maximum number of rows in one statement. */
const BATCH = 1000

/** Returns the owner that a written entry counts for; `null` if it counts for none. */
export function ownerOf({ evictable = false, owner }: ReplaceOptions): string | null {
  return evictable ? owner ?? null : null
}

/** Returns the SQL of the time at which an entry counts for `owner`; NULL if it counts for none. */
export function countedAt(owner: string): string {
  return `CASE WHEN ${owner}::text IS NOT NULL THEN clock_timestamp() END`
}

/**
 * Limits what each owner leaves behind. The rows name their owner. A write starts a check of its
 * owner with the probability that makes one check for each sixteenth of a share, on average. So no
 * process keeps counters, whatever the number of owners. The rows that were written first are
 * removed. No request waits for it.
 */
export class PostgresOwnerShares {
  private readonly sql: string

  constructor(
    private readonly query: Query, schema: string, private readonly limits: ShareLimits,
    private readonly onRemove: (key: string) => void,
    /** Returns a random number from 0 to 1, without 1. */
    private readonly random: () => number = Math.random,
  ) {
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
    ORDER BY place DESC LIMIT ${String(BATCH)}
  )) ORDER BY key FOR UPDATE SKIP LOCKED
)) RETURNING key`
  }

  /** Starts a check for some of the entries that were written. Never throws. */
  count(owner: string, value: string): void {
    const { maxEntries, maxBytes } = this.limits
    const bytes = Buffer.byteLength(value) + OVERHEAD
    if (this.random() >= Math.max(1 / maxEntries, bytes / maxBytes) / PART) return
    this.check(owner).catch(() => {
      // The next check removes the rows, or they expire.
    })
  }

  private async check(owner: string): Promise<void> {
    const { maxEntries, maxBytes } = this.limits
    for (let count = BATCH; count === BATCH;) {
      const rows = await this.query<{ readonly key: string }>(
        this.sql, [owner, maxEntries, maxBytes],
      )
      for (const { key } of rows) this.onRemove(key)
      count = rows.length
    }
  }
}
