import { newId } from '../../src/runtime/random-id.js'
import { observed, type StoreEvent } from '../../src/stores/calls.js'
import { entryFault } from '../../src/stores/entry-fault.js'
import {
  StoreUnavailableError, type Conflict, type Counter, type Created, type Entry,
  type Existing, type Replaced, type ReplaceOptions, type Revision, type Store, type Unsubscribe,
  type WriteOptions,
} from '../../src/stores/store.js'
import type { ShareLimits } from '../../src/stores/share-limits.js'
import type { Database } from './database.js'
import { BATCH, expiredRows, shareCheck, Sweeper, type ShareCheck } from './expiry.js'
import { ChangeNotices } from './notices.js'
import { checkText, expiry, slot, toLifetime } from './sql.js'
import { TurnBatches } from './turn-batches.js'

/** Maximum number of keys in one statement, which bounds the size of a reply. */
const MAX_KEYS = 64
/** Maximum length of the values in one statement, in UTF-16 code units. A longer value has its own statement. */
const MAX_WRITE_LENGTH = 1_048_576
/** Memory of a row beside its value, in bytes. An estimate. */
const OVERHEAD = 200

const LIVE = 'expires_at > clock_timestamp()'
/** SQL of the time at which an entry counts for a caller (`$5`); NULL if it counts for none. */
const COUNTED_AT = 'CASE WHEN $5::text IS NOT NULL THEN clock_timestamp() END'
/** SQL that is true of an expired row, with the order of its index. */
export const EXPIRED = `sweep_slot <= floor(extract(epoch FROM now()) / 600)::integer
  AND expires_at <= now() ORDER BY sweep_slot`

interface Row extends Entry {
  readonly id: string
}

/** A value in place of the one with the revision `old`. */
interface Replacement {
  readonly key: string
  readonly value: string
  readonly revision: Revision
  readonly old: Revision
  readonly caller: string | null
  readonly lifetime: number | null
}

/**
 * A store on PostgreSQL 13 or later, made by `postgres()`. Each method is one statement. The reads
 * of one turn of the event loop share a statement, and so do the replacements. A write that finds
 * another revision reads the entry with a second statement. The process makes the revisions, so
 * that it recognises its own write if it has sent it twice.
 */
export class PostgresStore implements Store {
  readonly shared = true
  private readonly sql: ReturnType<typeof statements>
  private readonly reads: TurnBatches<string, Row>
  private readonly replacements: TurnBatches<Replacement, Pick<Row, 'id'>>
  private readonly notices: ChangeNotices
  private readonly checkShare: ShareCheck
  private readonly sweeper: Sweeper
  private isClosed = false

  /** @internal */
  constructor(private readonly database: Database, private readonly limits: ShareLimits) {
    const { schema, background } = database
    this.sql = statements(`${schema}.entries`, `${schema}.counters`)
    this.reads = new TurnBatches(MAX_KEYS, (keys) => database.repeated(this.sql.getAll, [keys]))
    this.replacements = new TurnBatches(MAX_WRITE_LENGTH, async (all) => (
      all.length === 1 ? [] : database.repeated(this.sql.replaceAll, [JSON.stringify(all)])
    ))
    this.notices = new ChangeNotices(database.channel, 'entry:')
    this.checkShare = shareCheck<{ readonly key: string }>(background, this.sql.surplus, (rows) => {
      for (const { key } of rows) this.notices.send(key)
    })
    this.sweeper = new Sweeper(['entries', 'counters'].map((table) => (
      expiredRows(background, `${schema}.${table}`, 'key', EXPIRED)
    )))
  }

  get(key: string): Promise<Entry | undefined> {
    return this.call('get', async () => {
      check(key)
      return this.read(key)
    })
  }

  create(key: string, value: string, options: WriteOptions): Promise<Created | Existing> {
    const { ttlMs } = options
    return this.call('create', async () => {
      check(key, value, options.caller)
      const revision = newId()
      const caller = callerOf(options)
      const values = [key, value, revision, toLifetime(ttlMs), caller]
      for (;;) {
        const rows = await this.database.repeated(this.sql.create, values)
        const entry = rows.length > 0 ? undefined : await this.read(key)
        if (rows.length > 0 || entry?.revision === revision) {
          this.noteWrite(key, value, caller)
          return { created: true, revision }
        }
        if (entry) return { created: false, entry }
        // The entry was deleted or has expired meanwhile.
      }
    })
  }

  replace(
    key: string, value: string, old: Revision, options: ReplaceOptions,
  ): Promise<Replaced | Conflict> {
    const { ttlMs } = options
    return this.call('replace', async () => {
      check(key, value, options.caller)
      checkText(old)
      const revision = newId()
      const caller = callerOf(options)
      const lifetime = ttlMs === undefined ? null : toLifetime(ttlMs)
      const replacement = { key, value, revision, old, caller, lifetime }
      if (!await this.write(replacement)) {
        const entry = await this.read(key)
        if (entry?.revision !== revision) return { replaced: false, entry }
      }
      this.noteWrite(key, value, caller)
      return { replaced: true, revision }
    })
  }

  delete(key: string, revision?: Revision): Promise<boolean> {
    return this.call('delete', async () => {
      check(key)
      checkText(revision)
      const rows = await this.database.query(this.sql.delete, [key, revision ?? null])
      if (rows.length > 0) this.notices.send(key)
      return rows.length > 0
    })
  }

  increment(key: string, by: number, { ttlMs }: { readonly ttlMs: number }): Promise<Counter> {
    return this.call('increment', async () => {
      check(key)
      if (!Number.isSafeInteger(by)) throw new TypeError(UNSAFE)
      const [row] = await this.database.query<{ readonly value: number, readonly ms: number }>(
        this.sql.increment, [key, by, toLifetime(ttlMs)],
      )
      if (!row) throw new TypeError(UNSAFE)
      return { value: Number(row.value), resetMs: Math.max(Number(row.ms), 0) }
    })
  }

  watch(key: string, listener: () => void): Promise<Unsubscribe> {
    return this.call('watch', () => this.notices.watch(key, listener))
  }

  async close(): Promise<void> {
    this.isClosed = true
    this.sweeper.close()
    this.notices.watches.clear()
    await this.notices.close()
  }

  private call<T>(verb: StoreEvent['verb'], work: () => Promise<T>): Promise<T> {
    if (this.isClosed) return Promise.reject(new StoreUnavailableError('The store is closed'))
    return observed(verb, work)
  }

  private async read(key: string): Promise<Entry | undefined> {
    const row = await this.reads.add(key, key)
    return row && { value: row.value, revision: row.revision }
  }

  /**
   * Returns true if the entry was replaced. The shared statement skips an entry that is locked or has
   * another revision, so a statement of its own decides.
   */
  private async write(replacement: Replacement): Promise<boolean> {
    const { key, value, revision, old, caller, lifetime } = replacement
    const length = Math.max(value.length, MAX_WRITE_LENGTH / MAX_KEYS)
    if (await this.replacements.add(key, replacement, length)) return true
    const rows = await this.database.repeated(
      this.sql.replace, [key, value, revision, old, caller, lifetime],
    )
    return rows.length > 0
  }

  private noteWrite(key: string, value: string, caller: string | null): void {
    this.notices.send(key)
    if (caller !== null) this.checkShare(caller, Buffer.byteLength(value) + OVERHEAD, this.limits)
  }
}

function check(key: string, value?: string, caller?: string): void {
  const fault = entryFault(key, value, caller)
  if (fault) throw fault
}

const UNSAFE = 'A counter and its changes must be safe integers'

function callerOf({ evictable = false, caller }: ReplaceOptions): string | null {
  return evictable ? caller ?? null : null
}

function statements(entries: string, counters: string) {
  return {
    getAll: `SELECT key AS id, value, revision FROM ${entries}
WHERE key = ANY($1::text[]) AND ${LIVE}`,
    create: `INSERT INTO ${entries} AS old
  (key, value, revision, expires_at, sweep_slot, owner, counted_at)
VALUES ($1, $2, $3, ${expiry('$4')}, ${slot(expiry('$4'))}, $5, ${COUNTED_AT})
ON CONFLICT (key) DO UPDATE SET value = excluded.value, revision = excluded.revision,
  expires_at = excluded.expires_at, sweep_slot = excluded.sweep_slot,
  owner = excluded.owner, counted_at = excluded.counted_at
WHERE NOT old.${LIVE} RETURNING 1`,
    replace: `UPDATE ${entries} SET value = $2, revision = $3,
  owner = $5, counted_at = ${COUNTED_AT},
  expires_at = coalesce(${expiry('$6')}, expires_at),
  sweep_slot = coalesce(${slot(expiry('$6'))}, sweep_slot)
WHERE key = $1 AND revision = $4 AND ${LIVE} RETURNING 1`,
    replaceAll: `WITH new AS MATERIALIZED (
  SELECT * FROM json_to_recordset($1::json) AS new (
    key text, value text, revision text, old text, caller text, lifetime float8
  )
), free AS MATERIALIZED (
  SELECT key FROM ${entries} WHERE key = ANY(ARRAY(SELECT key FROM new)) ORDER BY key FOR UPDATE SKIP LOCKED
)
UPDATE ${entries} AS entry SET value = new.value, revision = new.revision, owner = new.caller,
  counted_at = CASE WHEN new.caller IS NOT NULL THEN clock_timestamp() END,
  expires_at = coalesce(${expiry('new.lifetime')}, expires_at),
  sweep_slot = coalesce(${slot(expiry('new.lifetime'))}, sweep_slot)
FROM new JOIN free USING (key)
WHERE entry.key = new.key AND entry.revision = new.old AND ${LIVE} RETURNING entry.key AS id`,
    delete: `DELETE FROM ${entries}
WHERE key = $1 AND ($2::text IS NULL OR revision = $2) AND ${LIVE} RETURNING 1`,
    // The sum is compared as numeric, because bigint could overflow.
    increment: `INSERT INTO ${counters} AS old (key, value, expires_at, sweep_slot)
VALUES ($1, $2, ${expiry('$3')}, ${slot(expiry('$3'))})
ON CONFLICT (key) DO UPDATE SET
  value = CASE WHEN old.${LIVE} THEN old.value ELSE 0 END + excluded.value,
  expires_at = CASE WHEN old.${LIVE} THEN old.expires_at ELSE excluded.expires_at END,
  sweep_slot = CASE WHEN old.${LIVE} THEN old.sweep_slot ELSE excluded.sweep_slot END
WHERE NOT old.${LIVE}
  OR abs(old.value::numeric + excluded.value) <= ${String(Number.MAX_SAFE_INTEGER)}
RETURNING value::float8, extract(epoch FROM expires_at - clock_timestamp())::float8 * 1000 AS ms`,
    /** Removes the entries of a caller that were written first. */
    surplus: `DELETE FROM ${entries} WHERE owner = $1 AND key = ANY(ARRAY(
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
)) RETURNING key`,
  }
}
