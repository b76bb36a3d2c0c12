import { WatchList } from '../../src/runtime/notices.js'
import { newId } from '../../src/runtime/random-id.js'
import type { StoreEvent } from '../../src/stores/calls.js'
import type { ShareLimits } from '../../src/stores/share-limits.js'
import { entryFault } from '../../src/stores/entry-fault.js'
import {
  StoreUnavailableError, type Conflict, type Counter, type Created, type Entry, type Existing,
  type Replaced, type ReplaceOptions, type Revision, type Store, type Unsubscribe,
  type WriteOptions,
} from '../../src/stores/store.js'
import type { Database } from './database.js'
import { ForeignWatches } from './foreign-watches.js'
import { MAX_REMOVED, Shares } from './shares.js'

/** Size of an entry beside its value, in bytes. */
const OVERHEAD = 200
const UNSAFE = 'A counter and its changes must be safe integers'

interface EntryRow extends Entry {
  readonly rowid: number
  readonly key: string
  readonly owner: string
  readonly bytes: number
  readonly expiresAt: number
}

/** A store in a file of SQLite, made by `sqlite()`. */
export class SqliteStore implements Store {
  readonly shared = true
  private readonly list = new WatchList()
  private readonly watches: ForeignWatches
  private readonly shares: Shares
  private isClosed = false

  /** @internal */
  constructor(private readonly database: Database, private readonly limits: ShareLimits) {
    this.watches = new ForeignWatches(database, this.list, (key) => this.revisionOf(key))
    this.shares = new Shares(database)
    database.addExpirer((limit) => this.expire(limit))
  }

  get(key: string): Promise<Entry | undefined> {
    return this.call('get', false, entryFault(key), () => toEntry(this.live(key)))
  }

  create(key: string, value: string, options: WriteOptions): Promise<Created | Existing> {
    return this.call('create', true, entryFault(key, value, options.caller), () => {
      const entry = toEntry(this.live(key))
      if (entry) return { created: false, entry }
      const revision = this.write(key, value, this.expiry(options.ttlMs), options)
      return { created: true, revision }
    })
  }

  replace(
    key: string, value: string, revision: Revision, options: ReplaceOptions,
  ): Promise<Replaced | Conflict> {
    return this.call('replace', true, entryFault(key, value, options.caller), () => {
      const row = this.live(key)
      if (row?.revision !== revision) return { replaced: false, entry: toEntry(row) }
      const { ttlMs } = options
      const expiresAt = ttlMs === undefined ? row.expiresAt : this.expiry(ttlMs)
      return { replaced: true, revision: this.write(key, value, expiresAt, options) }
    })
  }

  delete(key: string, revision?: Revision): Promise<boolean> {
    return this.call('delete', true, entryFault(key), () => {
      const row = this.live(key)
      if (row === undefined || revision !== undefined && row.revision !== revision) return false
      this.remove(row)
      return true
    })
  }

  increment(key: string, by: number, { ttlMs }: { readonly ttlMs: number }): Promise<Counter> {
    return this.call('increment', true, entryFault(key), () => {
      const { database } = this
      const now = database.now
      const row = database.first<{ readonly value: number, readonly expiresAt: number }>(
        'SELECT value, expiresAt FROM longhaul_counters WHERE key = ? AND expiresAt > ?', key, now,
      )
      const value = Number(row?.value ?? 0) + by
      if (!Number.isSafeInteger(by) || !Number.isSafeInteger(value)) throw new TypeError(UNSAFE)
      const expiresAt = row?.expiresAt ?? this.expiry(ttlMs, now)
      database.run(
        'INSERT OR REPLACE INTO longhaul_counters (key, value, expiresAt) VALUES (?, ?, ?)',
        key, value, expiresAt,
      )
      return { value, resetMs: Math.max(expiresAt - now, 0) }
    })
  }

  watch(key: string, listener: () => void): Promise<Unsubscribe> {
    const fault = this.isClosed ? closed() : entryFault(key)
    return fault ? Promise.reject(fault) : this.watches.add(key, listener)
  }

  async close(): Promise<void> {
    this.isClosed = true
    this.list.clear()
    this.watches.close()
  }

  private call<T>(
    verb: StoreEvent['verb'], writes: boolean, misuse: Error | undefined, work: () => T,
  ): Promise<T> {
    const fault = this.isClosed ? closed() : misuse
    if (fault) return Promise.reject(fault)
    return writes ? this.database.write(verb, work) : this.database.read(verb, work)
  }

  private live(key: string): EntryRow | undefined {
    return this.database.first(
      'SELECT * FROM longhaul_entries WHERE key = ? AND expiresAt > ?', key, this.database.now,
    )
  }

  private revisionOf(key: string): Revision | undefined {
    return this.database.first<Pick<Entry, 'revision'>>(
      'SELECT revision FROM longhaul_entries WHERE key = ? AND expiresAt > ?', key, this.database.now,
    )?.revision
  }

  private expiry(ttlMs: number, now = this.database.now): number {
    if (Number.isFinite(ttlMs)) return now + Math.max(ttlMs, 0)
    throw new TypeError(`ttlMs must be a number of milliseconds, not ${String(ttlMs)}`)
  }

  /** Writes an entry, which replaces an existing entry with its key. */
  private write(
    key: string, value: string, expiresAt: number, { evictable = false, caller }: ReplaceOptions,
  ): Revision {
    const { database } = this
    const [old] = database.all<EntryRow>('SELECT * FROM longhaul_entries WHERE key = ?', key)
    if (old) this.remove(old)
    const revision = newId()
    const counted = evictable ? caller ?? '' : ''
    const bytes = Buffer.byteLength(value) + OVERHEAD
    database.run(
      `INSERT INTO longhaul_entries (key, value, revision, expiresAt, owner, bytes)
VALUES (?, ?, ?, ?, ?, ?)`, key, value, revision, expiresAt, counted, bytes,
    )
    this.notify(key)
    if (counted !== '') this.takeSpace(key, counted, bytes)
    return revision
  }

  /** Counts an entry for its caller. A caller above its share loses its oldest other entries. */
  private takeSpace(key: string, caller: string, bytes: number): void {
    const { database, limits: { maxEntries, maxBytes } } = this
    const share = this.shares.add('e', caller, { count: 1, bytes })
    for (let n = 0; n < MAX_REMOVED; n++) {
      if (share.count <= maxEntries && share.bytes <= maxBytes) return
      const [oldest] = database.all<EntryRow>(
        `SELECT * FROM longhaul_entries WHERE owner = ? AND owner <> '' AND key <> ?
ORDER BY rowid LIMIT 1`, caller, key,
      )
      if (!oldest) return
      this.remove(oldest)
    }
  }

  private remove({ rowid, key, owner, bytes }: EntryRow): void {
    this.database.run('DELETE FROM longhaul_entries WHERE rowid = ?', rowid)
    if (owner !== '') this.shares.add('e', owner, { count: -1, bytes: -Number(bytes) })
    this.notify(key)
  }

  private expire(limit: number): boolean {
    const { database } = this
    const rows = database.all<EntryRow>(
      'SELECT * FROM longhaul_entries WHERE expiresAt <= ? ORDER BY expiresAt LIMIT ?',
      database.now, limit,
    )
    for (const row of rows) this.remove(row)
    const counters = database.all<{ readonly key: string }>(
      'SELECT key FROM longhaul_counters WHERE expiresAt <= ? ORDER BY expiresAt LIMIT ?',
      database.now, limit,
    )
    for (const { key } of counters) database.run('DELETE FROM longhaul_counters WHERE key = ?', key)
    return Math.max(rows.length, counters.length) === limit
  }

  private notify(key: string): void {
    this.database.after(() => { this.list.notify(key) })
  }
}

function closed(): Error {
  return new StoreUnavailableError('The store is closed')
}

function toEntry(row: EntryRow | undefined): Entry | undefined {
  return row && { value: row.value, revision: row.revision }
}
