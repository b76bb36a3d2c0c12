import type { Revision } from '../../../src/stores/store.js'
import type { Database } from '../database.js'
import type { Entries } from '../entries.js'
import { expiry, slot, toLifetime } from '../lifetime.js'
import { countedAt } from '../owner-shares.js'
import { TurnBatches } from '../turn-batches.js'

/** Maximum size of the values in one statement, in UTF-16 units. A larger value travels alone. */
const MAX_BATCH_LENGTH = 262_144

/** An entry to replace. */
export interface Replacement {
  readonly key: string
  readonly value: string
  readonly revision: Revision
  /** Revision of the entry that is replaced. */
  readonly old: Revision
  /** `undefined` keeps the expiry. */
  readonly ttlMs: number | undefined
  /** Owner that the entry counts for; `null`: none. */
  readonly owner: string | null
}

/**
 * Replaces entries, such as the records of tasks that start or end together. Those of one turn of
 * the event loop are one statement. It skips rows that another transaction has locked, so that one
 * such row delays no other. Each skipped entry is then replaced by a statement of its own.
 */
export class Replacements {
  private readonly text: string
  private readonly batches = new TurnBatches(() => new Batch(), (batch) => this.write(batch))

  constructor(private readonly database: Database, private readonly entries: Entries) {
    this.text = replaceSql(database.schema)
  }

  /** Replaces a live entry that has the revision `old`. Returns true if it was written. */
  async replace(replacement: Replacement): Promise<boolean> {
    const { key, value } = replacement
    // A statement can write each key once.
    const { content: batch, sent } = this.batches.open(({ entries, length }) => (
      entries.has(key) || length + value.length > MAX_BATCH_LENGTH
    ))
    batch.entries.set(key, replacement)
    batch.length += value.length
    if ((await sent).has(key)) return true
    return this.entries.replace(this.database.repeated, key, value, replacement)
  }

  /** Returns the keys of the entries that were replaced. */
  private async write(batch: Batch): Promise<ReadonlySet<string>> {
    // The statement for one entry costs less.
    if (batch.entries.size === 1) return NONE
    const entries = [...batch.entries.values()]
    const rows = await this.database.repeated<{ readonly key: string }>(this.text, [
      entries.map(({ key }) => key), entries.map(({ value }) => value),
      entries.map(({ revision }) => revision), entries.map(({ old }) => old),
      entries.map(({ ttlMs }) => ttlMs === undefined ? null : toLifetime(ttlMs)),
      entries.map(({ owner }) => owner),
    ])
    return new Set(rows.map(({ key }) => key))
  }
}

const NONE: ReadonlySet<string> = new Set()

/** Replacements that are sent together. */
class Batch {
  readonly entries = new Map<string, Replacement>()
  /** Length of the values. */
  length = 0
}

/**
 * Returns the statement that replaces entries and returns their keys. Rows are locked in the order
 * of their keys, so that two statements never wait for each other.
 */
function replaceSql(schema: string): string {
  return `WITH free AS (
  SELECT key FROM ${schema}.entries WHERE key = ANY ($1::text[])
  ORDER BY key FOR UPDATE SKIP LOCKED
)
UPDATE ${schema}.entries AS entry SET value = new.value, revision = new.revision,
  owner = new.owner, counted_at = ${countedAt('new.owner')},
  expires_at = CASE WHEN ms IS NULL THEN entry.expires_at ELSE ${expiry('ms')} END,
  sweep_slot = CASE WHEN ms IS NULL THEN entry.sweep_slot ELSE ${slot(expiry('ms'))} END
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::float8[],
  $6::text[]) AS new (key, value, revision, old, ms, owner)
WHERE entry.key = new.key AND entry.key IN (SELECT key FROM free)
  AND entry.revision = new.old AND entry.expires_at > clock_timestamp()
RETURNING entry.key`
}
