import { randomBytes } from 'node:crypto'
import type { Notices } from '../../src/runtime/notices.js'
import { observed, type StoreEvent } from '../../src/stores/calls.js'
import {
  StoreUnavailableError, type Conflict, type Counter, type Created, type Entry,
  type Existing, type Replaced, type ReplaceOptions, type Revision, type Store, type Unsubscribe,
  type WriteOptions,
} from '../../src/stores/store.js'
import type { ShareLimits } from '../../src/stores/share-limits.js'
import { checkText } from './check-text.js'
import type { Database } from './database.js'
import { Entries, Reads } from './entries.js'
import { Listener, noticesOn } from './changes/listener.js'
import { ownerOf, PostgresOwnerShares } from './owner-shares.js'
import { expiredRows, Sweeper } from './sweeper.js'

/**
 * A store on PostgreSQL 13 or later. Made by `postgres()`. Each method is one statement. A write
 * that finds another revision reads the entry with a second one.
 */
export class PostgresStore implements Store {
  readonly shared: boolean
  private readonly entries: Entries
  private readonly reads: Reads
  private readonly notices: Notices
  private readonly shares: PostgresOwnerShares
  private readonly listener: Listener
  private readonly sweeper: Sweeper
  /** This process makes the revisions, so that it recognises its own write if it sends it twice. */
  private readonly writer = randomBytes(9).toString('base64url')
  private writes = 0
  private isClosed = false

  /** @internal */
  constructor(private readonly database: Database, limits: ShareLimits) {
    this.shared = database.shared
    this.entries = new Entries(database.schema)
    this.reads = new Reads(this.entries, database.repeated)
    this.notices = noticesOn(database)
    this.shares = new PostgresOwnerShares(database.background, database.schema, limits, (key) => {
      this.notices.add(key)
    })
    this.listener = new Listener(database, (keys) => this.entries.revisions(database.query, keys))
    this.sweeper = new Sweeper(['entries', 'counters'].map((table) => (
      () => expiredRows(database.background, `${database.schema}.${table}`)
    )))
  }

  get(key: string): Promise<Entry | undefined> {
    return this.call('get', async () => {
      checkText(key)
      return this.reads.get(key)
    })
  }

  create(
    key: string, value: string, options: WriteOptions,
  ): Promise<Created | Existing> {
    const { ttlMs } = options
    return this.call('create', async () => {
      checkText(key, value)
      const query = this.database.repeated
      const revision = this.newRevision()
      const owner = ownerOf(options)
      const entry = { key, value, revision, ttlMs, owner }
      for (;;) {
        if (await this.entries.create(query, entry)) {
          this.notices.add(key)
          if (owner !== null) this.shares.count(owner, value)
          return { created: true, revision }
        }
        const found = await this.entries.get(query, key)
        // Without an entry it was deleted or has expired in between: tries again.
        if (!found) continue
        if (found.revision !== revision) return { created: false, entry: found }
        this.notices.add(key)
        return { created: true, revision }
      }
    })
  }

  replace(
    key: string, value: string, old: Revision, options: ReplaceOptions,
  ): Promise<Replaced | Conflict> {
    const { ttlMs } = options
    const owner = ownerOf(options)
    return this.call('replace', async () => {
      checkText(key, value, old)
      const query = this.database.repeated
      const revision = this.newRevision()
      if (!await this.entries.replace(query, key, value, { old, revision, ttlMs, owner })) {
        const entry = await this.entries.get(query, key)
        if (entry?.revision !== revision) return { replaced: false, entry }
      }
      this.notices.add(key)
      if (owner !== null) this.shares.count(owner, value)
      return { replaced: true, revision }
    })
  }

  delete(key: string, revision?: Revision): Promise<boolean> {
    return this.call('delete', async () => {
      checkText(key, revision)
      const isDeleted = await this.entries.delete(this.database.query, key, revision)
      if (isDeleted) this.notices.add(key)
      return isDeleted
    })
  }

  increment(key: string, by: number, { ttlMs }: { readonly ttlMs: number }): Promise<Counter> {
    return this.call('increment', async () => {
      checkText(key)
      if (!Number.isSafeInteger(by)) throw new TypeError(UNSAFE)
      const counter = await this.entries.increment(this.database.query, key, by, ttlMs)
      if (!counter) throw new TypeError(UNSAFE)
      return counter
    })
  }

  watch(key: string, listener: () => void): Promise<Unsubscribe> {
    return this.call('watch', () => this.listener.watch(key, listener))
  }

  async close(): Promise<void> {
    this.isClosed = true
    this.listener.close()
    this.sweeper.close()
    // Other processes wait for what this one wrote last.
    await this.notices.flush()
  }

  private call<T>(verb: StoreEvent['verb'], work: () => Promise<T>): Promise<T> {
    if (this.isClosed) return Promise.reject(new StoreUnavailableError('The store is closed'))
    return observed(verb, work)
  }

  private newRevision(): Revision {
    return this.writer + (this.writes++).toString(36)
  }
}

const UNSAFE = 'A counter holds safe integers, and is changed by them'
