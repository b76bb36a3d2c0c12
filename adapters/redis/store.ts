import { randomBytes } from 'node:crypto'
import {
  StoreUnavailableError, type Conflict, type Counter, type Created, type Entry, type Existing, type Replaced, type Revision, type Store,
  type Unsubscribe, type WriteOptions,
} from '../../src/stores/store.js'
import { Breaker } from './breaker.js'
import type { RedisClient } from './client.js'
import { Notices } from './notices.js'
import { DELETE, INCREMENT, REPLACE, runScript, type Script } from './scripts.js'
import { Watches } from './watches.js'

/** Where the entries of a `RedisStore` are, and how long it waits for them. */
export interface RedisStoreOptions {
  /** Your ioredis client (5 or 6): single, Cluster or Sentinel. It stays yours to close. */
  readonly client: RedisClient
  /** Stands before every key and channel. Default `longhaul:`. */
  readonly prefix?: string
  /** How long one call may take, in milliseconds, before it counts as failed. Default 1500. */
  readonly timeoutMs?: number
}

/**
 * The Store on Redis 6.2 or later (or Valkey). One round trip for each verb: plain commands where they are atomic by
 * themselves, a script on one key else. Revisions are made here, so that a write whose answer was
 * lost, and which the client sent again, is known as our own.
 */
export class RedisStore implements Store {
  readonly shared = true
  private readonly client: RedisClient
  private readonly prefix: string
  private readonly breaker: Breaker
  private readonly watches: Watches
  private readonly notices: Notices
  private readonly writer = randomBytes(9).toString('base64url')
  private writes = 0
  private closed = false

  /** Throws a `TypeError` when an option makes no sense. */
  constructor({ client, prefix = 'longhaul:', timeoutMs = 1500 }: RedisStoreOptions) {
    if (typeof client?.evalsha !== 'function' || typeof client.duplicate !== 'function') {
      throw new TypeError('RedisStore: client must be an ioredis client: new Redis(url), or new Redis.Cluster([…])')
    }
    if (!(timeoutMs >= 10 && timeoutMs <= 60_000)) throw new TypeError('RedisStore: timeoutMs must be from 10 to 60000')
    this.client = client
    this.prefix = prefix
    this.breaker = new Breaker(timeoutMs)
    this.watches = new Watches(client)
    this.notices = new Notices(client)
  }

  get(key: string): Promise<Entry | undefined> {
    return this.call(async () => {
      const text = await this.client.get(this.entryKey(key))
      return text === null ? undefined : toEntry(text)
    })
  }

  create(key: string, value: string, { expiresAt }: WriteOptions): Promise<Created | Existing> {
    return this.call(async () => {
      const at = toPxat(expiresAt)
      const revision = this.newRevision()
      const place = this.entryKey(key)
      for (;;) {
        if (await this.client.set(place, toText(revision, value, expiresAt), 'PXAT', at, 'NX') !== null) {
          this.notices.add(this.channel(key))
          return { created: true, revision }
        }
        const text = await this.client.get(place)
        // Gone between the two: try again.
        if (text === null) continue
        const entry = toEntry(text)
        return entry.revision === revision ? { created: true, revision } : { created: false, entry }
      }
    })
  }

  replace(key: string, value: string, revision: Revision, { expiresAt }: WriteOptions): Promise<Replaced | Conflict> {
    return this.call(async () => {
      const at = toPxat(expiresAt)
      const next = this.newRevision()
      const [done, text] = await this.run(
        REPLACE, this.entryKey(key), revision, toText(next, value, expiresAt), at, this.channel(key),
      ) as [number, string | null | undefined]
      const entry = typeof text === 'string' ? toEntry(text) : undefined
      return done === 1 || entry?.revision === next ? { replaced: true, revision: next } : { replaced: false, entry }
    })
  }

  delete(key: string, revision?: Revision): Promise<boolean> {
    const which = revision === undefined ? [] : [revision]
    return this.call(async () => await this.run(DELETE, this.entryKey(key), this.channel(key), ...which) === 1)
  }

  increment(key: string, by: number, { expiresAt }: { readonly expiresAt: number }): Promise<Counter> {
    return this.call(async () => {
      if (!Number.isSafeInteger(by)) throw new TypeError(UNSAFE)
      const [value, expiry] = await this.run(INCREMENT, `${this.prefix}n:${key}`, by, toPxat(expiresAt)) as [string?, string?]
      if (value === undefined) throw new TypeError(UNSAFE)
      return { value: Number(value), expiresAt: Number(expiry) }
    })
  }

  async watch(key: string, listener: () => void): Promise<Unsubscribe> {
    let remove: Unsubscribe | undefined
    try {
      await this.call(() => {
        const watch = this.watches.add(this.channel(key), listener)
        remove = watch.remove
        return watch.active
      })
    } catch (error) {
      remove?.()
      throw error
    }
    return remove as Unsubscribe
  }

  close(): Promise<void> {
    this.closed = true
    this.watches.close()
    return Promise.resolve()
  }

  private call<T>(work: () => Promise<T>): Promise<T> {
    if (this.closed) return Promise.reject(new StoreUnavailableError('The store is closed'))
    return this.breaker.call(work)
  }

  private run(script: Script, key: string, ...args: (string | number)[]): Promise<unknown> {
    return runScript(this.client, script, 1, key, ...args)
  }

  private entryKey(key: string): string {
    return `${this.prefix}e:${key}`
  }

  private channel(key: string): string {
    return `${this.prefix}w:${key}`
  }

  private newRevision(): Revision {
    return this.writer + (this.writes++).toString(36)
  }
}

const UNSAFE = 'A counter holds safe integers, and is changed by them'

/** Redis takes whole milliseconds above 0; what lies in the past is gone at once. */
function toPxat(expiresAt: number): number {
  if (!Number.isFinite(expiresAt)) throw new TypeError(`expiresAt must be a time in milliseconds since 1970, not ${String(expiresAt)}`)
  return Math.max(1, Math.ceil(expiresAt))
}

function toText(revision: Revision, value: string, expiresAt: number): string {
  return `${revision} ${String(expiresAt)}\n${value}`
}

function toEntry(text: string): Entry {
  const space = text.indexOf(' ')
  const end = text.indexOf('\n', space)
  return { revision: text.slice(0, space), expiresAt: Number(text.slice(space + 1, end)), value: text.slice(end + 1) }
}
