import {
  StoreUnavailableError,
  type Conflict, type Counter, type Created, type Entry, type Existing, type ReplaceOptions, type Replaced, type Store, type Unsubscribe,
  type WriteOptions,
} from 'longhaul/stores'
import { SCHEMA, type Database } from './database.js'

/** Milliseconds since 1970 by the clock of the database: the one clock that every process sees. */
const NOW = '(extract(epoch from clock_timestamp()) * 1000)::float8'
const LIVE = `expires_at > ${NOW}`
const SWEEP_MS = 60_000

/** A `Store` of longhaul in a PostgreSQL. The caller owns the database. */
export class PostgresStore implements Store {
  readonly shared: boolean
  readonly #db: Database
  readonly #watches = new Map<string, Set<{ readonly tell: () => void }>>()
  readonly #sweeper: NodeJS.Timeout
  #unlisten: Promise<() => Promise<void>> | undefined
  #closed = false

  constructor(db: Database) {
    this.#db = db
    this.shared = db.shared
    this.#sweeper = setInterval(() => { this.#sweep() }, SWEEP_MS).unref()
  }

  /** Makes the tables where they are missing. Call it once, at start. */
  static async open(db: Database): Promise<PostgresStore> {
    await db.query(SCHEMA, [])
    return new PostgresStore(db)
  }

  async get(key: string): Promise<Entry | undefined> {
    // '=': pglite takes a byte order mark at the start of a text for one of its own, and drops it.
    const [row] = await this.#ask<Row>(
      `SELECT '=' || value AS value, revision::text FROM longhaul_entries WHERE key = $1 AND ${LIVE}`, [key])
    return row && { value: row.value.slice(1), revision: row.revision }
  }

  // #region create
  async create(key: string, value: string, { ttlMs }: WriteOptions): Promise<Created | Existing> {
    for (;;) {
      const [made] = await this.#ask<Row>(`
        INSERT INTO longhaul_entries AS old (key, value, expires_at) VALUES ($1, $2, ${NOW} + $3::float8)
        ON CONFLICT (key) DO UPDATE SET value = excluded.value, revision = excluded.revision, expires_at = excluded.expires_at
        WHERE NOT (old.${LIVE}) RETURNING revision::text`, [key, value, duration(ttlMs)])
      if (made) return { created: true, revision: made.revision }
      const entry = await this.get(key)
      // The entry may have been deleted between the two statements: try again.
      if (entry) return { created: false, entry }
    }
  }
  // #endregion

  // #region replace
  async replace(key: string, value: string, revision: string, { ttlMs }: ReplaceOptions): Promise<Replaced | Conflict> {
    const [made] = await this.#ask<Row>(`
      UPDATE longhaul_entries SET value = $2, revision = DEFAULT, expires_at = coalesce(${NOW} + $4::float8, expires_at)
      WHERE key = $1 AND revision::text = $3 AND ${LIVE} RETURNING revision::text`, [key, value, revision, ttlMs === undefined ? null : duration(ttlMs)])
    return made ? { replaced: true, revision: made.revision } : { replaced: false, entry: await this.get(key) }
  }
  // #endregion

  async delete(key: string, revision?: string): Promise<boolean> {
    const gone = await this.#ask(`
      DELETE FROM longhaul_entries WHERE key = $1 AND ($2::text IS NULL OR revision::text = $2) AND ${LIVE} RETURNING 1`, [key, revision ?? null])
    return gone.length > 0
  }

  // #region increment
  async increment(key: string, by: number, { ttlMs }: { readonly ttlMs: number }): Promise<Counter> {
    if (!Number.isSafeInteger(by)) throw new TypeError('by must be a safe integer')
    const [row] = await this.#ask<{ value: number, left: number }>(`
      INSERT INTO longhaul_counters AS old (key, value, expires_at) VALUES ($1, $2, ${NOW} + $3::float8)
      ON CONFLICT (key) DO UPDATE SET
        value = excluded.value + CASE WHEN old.${LIVE} THEN old.value ELSE 0 END,
        expires_at = CASE WHEN old.${LIVE} THEN old.expires_at ELSE excluded.expires_at END
      RETURNING value::float8, expires_at - ${NOW} AS left`, [key, by, duration(ttlMs)])
    if (!row) throw new StoreUnavailableError('PostgreSQL gave no counter back')
    return { value: row.value, resetMs: Math.max(row.left, 0) }
  }
  // #endregion

  // #region watch
  async watch(key: string, listener: () => void): Promise<Unsubscribe> {
    // Listens once, for all keys. `undefined` means that notices may have been lost.
    await this.#run(() => this.#unlisten ??= this.#db.listen((changed) => {
      if (changed !== undefined) this.#tell(changed)
      else for (const each of this.#watches.keys()) this.#tell(each)
    })).catch((error: unknown) => {
      this.#unlisten = undefined
      throw error
    })
    const watch = { tell: listener }
    const all = this.#watches.get(key) ?? new Set()
    this.#watches.set(key, all.add(watch))
    return () => {
      all.delete(watch)
      if (all.size === 0 && this.#watches.get(key) === all) this.#watches.delete(key)
    }
  }

  #tell(key: string): void {
    for (const { tell } of this.#watches.get(key) ?? []) {
      try {
        tell()
      } catch { /* A listener that throws must not stop the others. */ }
    }
  }
  // #endregion

  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#sweeper)
    this.#watches.clear()
    const unlisten = await this.#unlisten?.catch(() => undefined)
    this.#unlisten = undefined
    await unlisten?.()
  }

  #sweep(): void {
    for (const table of ['longhaul_entries', 'longhaul_counters']) {
      this.#ask(`DELETE FROM ${table} WHERE NOT (${LIVE})`, []).catch(() => undefined)
    }
  }

  #ask<T>(text: string, values: readonly unknown[]): Promise<T[]> {
    return this.#run(() => this.#db.query<T>(text, values))
  }

  async #run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closed) throw new StoreUnavailableError('The store is closed')
    try {
      return await work()
    } catch (cause) {
      // 22003, 23514: the counter left what is counted exactly. That is misuse, and the store is well.
      if (/^(?:22003|23514)$/.test(String((cause as { code?: unknown }).code))) throw new TypeError('The counter would be no safe integer', { cause })
      throw new StoreUnavailableError('PostgreSQL does not answer', { cause })
    }
  }
}

interface Row { readonly value: string, readonly revision: string }

function duration(ttlMs: number): number {
  if (!Number.isFinite(ttlMs)) throw new TypeError('ttlMs must be a number of milliseconds')
  return ttlMs
}
