import type { Counter, Entry, Revision } from '../../src/stores/store.js'
import type { Query } from './connections.js'
import { expiry, slot, toLifetime } from './lifetime.js'
import { countedAt } from './owner-shares.js'
import { TurnBatches } from './turn-batches.js'

/** Maximum number of keys in one statement. It bounds the size of a reply. */
const MAX_KEYS = 64

/** True of a row that has not expired. */
const LIVE = 'expires_at > clock_timestamp()'

/** An entry to create. */
export interface NewEntry {
  readonly key: string
  readonly value: string
  readonly revision: Revision
  readonly ttlMs: number
  /** Owner that the entry counts for; `null`: none. */
  readonly owner: string | null
}

interface Row {
  readonly value: string
  readonly revision: Revision
}

/**
 * SQL of entries and counters. Each statement is one round trip and is atomic. It runs by itself or
 * inside a transaction of the host. Lifetimes are durations, so that only the server's clock
 * decides when a row expires.
 */
export class Entries {
  private readonly sql: Readonly<Record<
    'get' | 'getAll' | 'revisions' | 'create' | 'replace' | 'replaceKeepingExpiry' | 'delete'
    | 'deleteRevision' | 'increment', string>>

  /** @param schema - quoted as an identifier */
  constructor(schema: string) {
    const entries = `${schema}.entries`
    const counters = `${schema}.counters`
    this.sql = {
      // '=': PGlite drops a byte order mark at the start of a text.
      get: `SELECT '=' || value AS value, revision FROM ${entries} WHERE key = $1 AND ${LIVE}`,
      getAll: `SELECT '=' || key AS key, '=' || value AS value, revision FROM ${entries}
WHERE key = ANY($1::text[]) AND ${LIVE}`,
      revisions: `SELECT key, revision FROM ${entries} WHERE key = ANY($1::text[]) AND ${LIVE}`,
      // #region create
      create: `INSERT INTO ${entries} AS old
  (key, value, revision, expires_at, sweep_slot, owner, counted_at)
VALUES ($1, $2, $3, ${expiry('$4')}, ${slot(expiry('$4'))}, $5, ${countedAt('$5')})
ON CONFLICT (key) DO UPDATE SET value = excluded.value, revision = excluded.revision,
  expires_at = excluded.expires_at, sweep_slot = excluded.sweep_slot,
  owner = excluded.owner, counted_at = excluded.counted_at
WHERE NOT old.${LIVE} RETURNING 1`,
      // #endregion
      // #region replace
      replace: `UPDATE ${entries} SET value = $2, revision = $3,
  owner = $5, counted_at = ${countedAt('$5')},
  expires_at = ${expiry('$6')}, sweep_slot = ${slot(expiry('$6'))}
WHERE key = $1 AND revision = $4 AND ${LIVE} RETURNING 1`,
      replaceKeepingExpiry: `UPDATE ${entries} SET value = $2, revision = $3,
  owner = $5, counted_at = ${countedAt('$5')}
WHERE key = $1 AND revision = $4 AND ${LIVE} RETURNING 1`,
      // #endregion
      delete: `DELETE FROM ${entries} WHERE key = $1 AND ${LIVE} RETURNING 1`,
      deleteRevision: `DELETE FROM ${entries}
WHERE key = $1 AND revision = $2 AND ${LIVE} RETURNING 1`,
      // #region increment
      // The sum is compared as numeric, because bigint could overflow.
      increment: `INSERT INTO ${counters} AS old (key, value, expires_at, sweep_slot)
VALUES ($1, $2, ${expiry('$3')}, ${slot(expiry('$3'))})
ON CONFLICT (key) DO UPDATE SET
  value = CASE WHEN old.${LIVE} THEN old.value ELSE 0 END + excluded.value,
  expires_at = CASE WHEN old.${LIVE} THEN old.expires_at ELSE excluded.expires_at END,
  sweep_slot = CASE WHEN old.${LIVE} THEN old.sweep_slot ELSE excluded.sweep_slot END
WHERE NOT old.${LIVE}
  OR abs(old.value::numeric + excluded.value) <= ${String(Number.MAX_SAFE_INTEGER)}
RETURNING value::float8, extract(epoch FROM expires_at - clock_timestamp())::float8 * 1000
  AS remaining_ms`,
      // #endregion
    }
  }

  /** Returns a live entry. */
  async get(query: Query, key: string): Promise<Entry | undefined> {
    const [row] = await query<Row>(this.sql.get, [key])
    return row && { value: row.value.slice(1), revision: row.revision }
  }

  /** Returns the live entries among some keys. */
  async getAll(query: Query, keys: readonly string[]): Promise<Map<string, Entry>> {
    const rows = await query<Row & { readonly key: string }>(this.sql.getAll, [keys])
    return new Map(rows.map(({ key, value, revision }) => (
      [key.slice(1), { value: value.slice(1), revision }]
    )))
  }

  /** Returns the revisions of the live entries among some keys. */
  async revisions(query: Query, keys: readonly string[]): Promise<Map<string, Revision>> {
    const rows = await query<{ readonly key: string, readonly revision: Revision }>(
      this.sql.revisions, [keys],
    )
    return new Map(rows.map(({ key, revision }) => [key, revision]))
  }

  /** Writes an entry if there is no live one. Returns true if it was written. */
  async create(
    query: Query, { key, value, revision, ttlMs, owner }: NewEntry,
  ): Promise<boolean> {
    const values = [key, value, revision, toLifetime(ttlMs), owner]
    return (await query(this.sql.create, values)).length > 0
  }

  /** Replaces a live entry that has the revision `old`. Returns true if it was written. */
  async replace(
    query: Query, key: string, value: string,
    { old, revision, ttlMs, owner }: {
      readonly old: Revision, readonly revision: Revision, readonly ttlMs: number | undefined,
      readonly owner: string | null,
    },
  ): Promise<boolean> {
    const values = [key, value, revision, old, owner]
    const rows = ttlMs === undefined
      ? await query(this.sql.replaceKeepingExpiry, values)
      : await query(this.sql.replace, [...values, toLifetime(ttlMs)])
    return rows.length > 0
  }

  /** Deletes a live entry, with `revision` only that one. Returns true if it was deleted. */
  async delete(query: Query, key: string, revision: Revision | undefined): Promise<boolean> {
    const rows = revision === undefined
      ? await query(this.sql.delete, [key])
      : await query(this.sql.deleteRevision, [key, revision])
    return rows.length > 0
  }

  /** Adds to a counter. Returns `undefined` if the sum is not a safe integer. */
  async increment(
    query: Query, key: string, by: number, ttlMs: number,
  ): Promise<Counter | undefined> {
    const [row] = await query<{ readonly value: number, readonly remaining_ms: number }>(
      this.sql.increment, [key, by, toLifetime(ttlMs)],
    )
    return row && { value: row.value, resetMs: Math.max(row.remaining_ms, 0) }
  }
}

/**
 * Reads the entries that the requests of one turn of the event loop ask for, in one statement. A key
 * that several callers want is read once.
 */
export class Reads {
  private readonly batches: TurnBatches<Set<string>, ReadonlyMap<string, Entry>>

  constructor(entries: Entries, query: Query) {
    this.batches = new TurnBatches(
      () => new Set<string>(),
      (keys): Promise<ReadonlyMap<string, Entry>> => entries.getAll(query, [...keys]),
    )
  }

  /** Returns the live entry at `key`. */
  async get(key: string): Promise<Entry | undefined> {
    const { content: keys, sent } = this.batches.open(({ size }) => size >= MAX_KEYS)
    keys.add(key)
    return (await sent).get(key)
  }
}
