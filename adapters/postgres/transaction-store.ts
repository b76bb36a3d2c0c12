import type {
  Conflict, Counter, CreateOptions, Created, Entry, Existing, Replaced, ReplaceOptions, Revision,
  Store, TransactionStore, Unsubscribe,
} from '../../src/stores/store.js'
import type { Query } from './connections.js'
import { checkText } from './check-text.js'
import type { Entries } from './entries.js'
import { ownerOf } from './owner-shares.js'

/** Parts that a `PostgresTransactionStore` shares with the store that made it. */
export interface TransactionStoreParts {
  readonly store: Store
  readonly entries: Entries
  /** Quoted as an identifier. */
  readonly schema: string
  readonly newRevision: () => Revision
}

/**
 * The store inside a transaction of the application. Sends no notices: PostgreSQL commits
 * transactions with a notice one at a time, each with its own write to the disk.
 */
export class PostgresTransactionStore implements TransactionStore {
  readonly shared: boolean

  constructor(private readonly query: Query, private readonly parts: TransactionStoreParts) {
    this.shared = parts.store.shared
  }

  async acquire(key: string): Promise<boolean> {
    checkText(key)
    const [row] = await this.query<{ readonly acquired: boolean }>(
      'SELECT pg_try_advisory_xact_lock(hashtextextended($1::text, 0)) AS acquired',
      [`${this.parts.schema} ${key}`],
    )
    return row?.acquired === true
  }

  async get(key: string): Promise<Entry | undefined> {
    checkText(key)
    return this.parts.entries.get(this.query, key)
  }

  async create(
    key: string, value: string, options: CreateOptions,
  ): Promise<Created | Existing> {
    checkText(key, value)
    const { entries, newRevision } = this.parts
    const revision = newRevision()
    for (;;) {
      if (await entries.create(this.query, { key, value, revision, ttlMs: options.ttlMs, owner: ownerOf(options) })) {
        return { created: true, revision }
      }
      const entry = await this.get(key)
      // Without an entry it was deleted or has expired in between: tries again.
      if (entry) return { created: false, entry }
    }
  }

  async replace(
    key: string, value: string, old: Revision, options: ReplaceOptions,
  ): Promise<Replaced | Conflict> {
    checkText(key, value, old)
    const { entries, newRevision } = this.parts
    const revision = newRevision()
    if (await entries.replace(this.query, key, value, {
      old, revision, ttlMs: options.ttlMs, owner: ownerOf(options),
    })) {
      return { replaced: true, revision }
    }
    return { replaced: false, entry: await this.get(key) }
  }

  async delete(key: string, revision?: Revision): Promise<boolean> {
    checkText(key, revision)
    return this.parts.entries.delete(this.query, key, revision)
  }

  async increment(key: string, by: number, { ttlMs }: { readonly ttlMs: number }): Promise<Counter> {
    checkText(key)
    const counter = await this.parts.entries.increment(this.query, key, by, ttlMs)
    if (!counter) throw new TypeError('A counter holds safe integers, and is changed by them')
    return counter
  }

  watch(key: string, listener: () => void): Unsubscribe | Promise<Unsubscribe> {
    return this.parts.store.watch(key, listener)
  }

  /** The transaction belongs to the application. */
  close(): Promise<void> {
    return Promise.resolve()
  }
}
