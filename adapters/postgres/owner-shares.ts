import type { ShareLimits } from '../../src/stores/share-limits.js'
import type { ReplaceOptions } from '../../src/stores/store.js'
import type { Query } from './connections.js'

/** Memory of a row beside its value, in bytes. An estimate. */
const OVERHEAD = 200
/** An owner is checked after it has written this part of its share. */
const PART = 1 / 16
/** Maximum number of owners that are remembered. */
const MAX_OWNERS = 10_000
/** Maximum number of rows in one statement. */
const BATCH = 1000

/** Entries and bytes that an owner has written since its last check. */
interface Written {
  entries: number
  bytes: number
}

/** Returns the owner that a written entry counts for; `null` if it counts for none. */
export function ownerOf({ evictable = false, owner }: ReplaceOptions): string | null {
  return evictable === false ? null : owner ?? null
}

/**
 * Limits what each owner leaves behind. The rows name their owner. Each process checks an owner when
 * it has written a sixteenth of a share for it, so the owner has at most that much more for each
 * process. The oldest rows are removed: those that expire first. No request waits for it.
 */
export class PostgresOwnerShares {
  private readonly sql: string
  private readonly written = new Map<string, Written>()

  constructor(
    private readonly query: Query, schema: string, private readonly limits: ShareLimits,
    private readonly onRemove: (key: string) => void,
  ) {
    const entries = `${schema}.entries`
    this.sql = `DELETE FROM ${entries} WHERE owner = $1 AND key = ANY(ARRAY(
  SELECT key FROM ${entries} WHERE owner = $1 AND key = ANY(ARRAY(
    SELECT key FROM (
      SELECT key, row_number() OVER newest AS place,
        sum(octet_length(value) + ${String(OVERHEAD)}) OVER newest AS total
      FROM ${entries} WHERE owner = $1 AND expires_at > now()
      WINDOW newest AS (ORDER BY expires_at DESC, key DESC)
    ) AS ranked
    WHERE place > 1 AND (place > $2::bigint OR total > $3::bigint)
    ORDER BY place DESC LIMIT ${String(BATCH)}
  )) ORDER BY key FOR UPDATE SKIP LOCKED
)) RETURNING key`
  }

  /** Counts an entry that was written. Never throws. */
  count(owner: string, value: string): void {
    const { maxEntries, maxBytes } = this.limits
    const written = this.written.get(owner) ?? { entries: 0, bytes: 0 }
    written.entries++
    written.bytes += Buffer.byteLength(value) + OVERHEAD
    if (written.entries < maxEntries * PART && written.bytes < maxBytes * PART) {
      if (this.written.size >= MAX_OWNERS) this.written.clear()
      this.written.set(owner, written)
      return
    }
    this.written.delete(owner)
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
