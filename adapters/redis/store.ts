import { randomBytes } from 'node:crypto'
import type { Notices } from '../../src/runtime/notices.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { observed, type Breaker, type StoreEvent } from '../../src/stores/calls.js'
import {
  StoreUnavailableError, type Conflict, type Counter, type Created, type Entry, type Existing,
  type ReplaceOptions, type Replaced, type Revision, type Store, type Unsubscribe,
  type WriteOptions,
} from '../../src/stores/store.js'
import { shareLimits, checkNamespace } from '../../src/stores/share-limits.js'
import type { RedisClient } from './client.js'
import { RedisOwnerShares } from './owner-shares.js'
import { redisBreaker } from './redis-breaker.js'
import { Silence } from './silence.js'
import { DELETE, INCREMENT, noticesOf, REPLACE, runScript, type Script } from './scripts.js'
import { Watches } from './watches.js'

/** Options of `RedisStore`. */
export interface RedisStoreOptions {
  /** Your ioredis client (5 or 6): single, Cluster or Sentinel. You close it yourself. */
  readonly client: RedisClient
  /**
   * Prefix of all keys and channels, before a colon: 1 to 64 of `A-Z a-z 0-9 . _ -`. Each
   * application on one Redis needs its own namespace, the same for engine and store. Default
   * `longhaul`.
   */
  readonly namespace?: string
  /** Maximum time of one call, in milliseconds. A slower call fails. Default 1500. */
  readonly timeoutMs?: number
  /**
   * Maximum number of stored responses and finished uploads of one owner. Beyond it, the owner's
   * oldest are deleted. Default 100,000.
   */
  readonly maxEntriesPerOwner?: number
  /** Maximum size of these entries in bytes. Default 64 MiB. */
  readonly maxBytesPerOwner?: number
}

/** Names of the options. */
export const REDIS_STORE = {
  client: 0, namespace: 0, timeoutMs: 0, maxEntriesPerOwner: 0, maxBytesPerOwner: 0,
} satisfies Record<keyof RedisStoreOptions, 0>

/**
 * A store on Redis 6.2 or later (or Valkey). Each method takes one round trip: a plain command if
 * it is atomic, otherwise a script on one key. This process makes the revisions, so that it
 * recognises its own write if the client sent it twice because a reply was lost.
 *
 * @example
 * const store = new RedisStore({ client, namespace: 'shop' })
 */
export class RedisStore implements Store {
  readonly shared = true
  private readonly client: RedisClient
  private readonly prefix: string
  private readonly silence: Silence
  private readonly breaker: Breaker
  private readonly watches: Watches
  private readonly notices: Notices
  private readonly shares: RedisOwnerShares
  private readonly writer = randomBytes(9).toString('base64url')
  private writes = 0
  private closed = false

  /** @throws {TypeError} An option is not valid or unknown. */
  constructor(options: RedisStoreOptions) {
    checkNames('RedisStore', options, REDIS_STORE)
    const { client, namespace = 'longhaul', timeoutMs = 1500 } = options
    const limits = shareLimits('RedisStore', options)
    if (typeof client?.evalsha !== 'function' || typeof client.duplicate !== 'function') {
      const advice = 'new Redis(url), or new Redis.Cluster([…])'
      throw new TypeError(`RedisStore: client must be an ioredis client: ${advice}`)
    }
    if (!(timeoutMs >= 10 && timeoutMs <= 60_000)) {
      throw new TypeError('RedisStore: timeoutMs must be from 10 to 60000')
    }
    this.client = client
    checkNamespace('RedisStore', namespace)
    this.prefix = `${namespace}:`
    this.silence = new Silence(() => client, timeoutMs)
    this.breaker = redisBreaker(timeoutMs, () => { void this.silence.check() })
    this.watches = new Watches(client)
    this.notices = noticesOf(client)
    this.shares = new RedisOwnerShares(client, this.prefix, limits, (key, revision) => (
      this.delete(key, revision)
    ))
  }

  get(key: string): Promise<Entry | undefined> {
    return this.call('get', () => this.client.get(this.entryKey(key)), toEntry)
  }

  create(
    key: string, value: string, options: WriteOptions,
  ): Promise<Created | Existing> {
    const { ttlMs } = options
    const revision = this.newRevision()
    const place = this.entryKey(key)
    const text = toText(revision, value)
    // Both return `undefined` once the entry is written.
    const write = (): Promise<Entry | undefined> => (
      this.client.set(place, text, 'PX', toPx(ttlMs), 'NX')
        .then((done) => (done === null ? other() : undefined))
    )
    const other = async (): Promise<Entry | undefined> => (
      toEntry(await this.client.get(place)) ?? write()
    )
    return this.call('create', write, (entry) => {
      if (entry && entry.revision !== revision) return { created: false, entry }
      this.notices.add(this.channel(key))
      this.count(key, value, revision, options)
      return { created: true, revision }
    })
  }

  replace(
    key: string, value: string, revision: Revision, options: ReplaceOptions,
  ): Promise<Replaced | Conflict> {
    const { ttlMs } = options
    const place = this.entryKey(key)
    const channel = this.channel(key)
    const next = this.newRevision()
    return this.call('replace', () => {
      const lifetime = ttlMs === undefined ? [] : [toPx(ttlMs)]
      return this.run(REPLACE, place, revision, toText(next, value), channel, ...lifetime)
    }, (reply) => {
      const [done, text = null] = reply as [number, string | null | undefined]
      const entry = toEntry(text)
      const isOwn = done === 1 || entry?.revision === next
      if (!isOwn) return { replaced: false, entry }
      this.count(key, value, next, options)
      return { replaced: true, revision: next }
    })
  }

  delete(key: string, revision?: Revision): Promise<boolean> {
    const which = revision === undefined ? [] : [revision]
    const work = () => this.run(DELETE, this.entryKey(key), this.channel(key), ...which)
    return this.call('delete', work, (removed) => removed === 1)
  }

  increment(key: string, by: number, { ttlMs }: { readonly ttlMs: number }): Promise<Counter> {
    return this.call('increment', async () => {
      if (!Number.isSafeInteger(by)) throw new TypeError(UNSAFE)
      const counter = await this.run(INCREMENT, `${this.prefix}n:${key}`, by, toPx(ttlMs))
      const [value, left] = counter as [string?, number?]
      if (value === undefined) throw new TypeError(UNSAFE)
      return { value: Number(value), resetMs: Math.max(Number(left), 0) }
    }, (counter) => counter)
  }

  async watch(key: string, listener: () => void): Promise<Unsubscribe> {
    let remove: Unsubscribe | undefined
    try {
      await this.call('watch', () => {
        const watch = this.watches.add(this.channel(key), listener)
        remove = watch.remove
        return watch.active
      }, () => undefined)
    } catch (error) {
      remove?.()
      throw error
    }
    return remove as Unsubscribe
  }

  close(): Promise<void> {
    this.closed = true
    this.watches.close()
    this.silence.close()
    return Promise.resolve()
  }

  private count(
    key: string, value: string, revision: Revision,
    { ttlMs, evictable = false, owner }: ReplaceOptions,
  ): void {
    if (owner === undefined || !evictable) return
    this.shares.count({ owner, key, revision, value, ttlMs })
  }

  private call<Reply, T>(
    verb: StoreEvent['verb'], work: () => Promise<Reply>, read: (reply: Reply) => T,
  ): Promise<T> {
    if (this.closed) return Promise.reject(new StoreUnavailableError('The store is closed'))
    return observed(verb, () => this.breaker.call(work, read))
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

/**
 * Converts a lifetime to whole milliseconds above 0, as Redis requires. The maximum is some 285
 * years. A lifetime of 0 or less ends at once.
 */
function toPx(ttlMs: number): number {
  if (!Number.isFinite(ttlMs)) {
    throw new TypeError(`ttlMs must be a number of milliseconds, not ${String(ttlMs)}`)
  }
  return Math.min(Math.max(1, Math.ceil(ttlMs)), Number.MAX_SAFE_INTEGER / 1000)
}

function toText(revision: Revision, value: string): string {
  return `${revision}\n${value}`
}

function toEntry(text: string | null): Entry | undefined {
  if (text === null) return undefined
  const end = text.indexOf('\n')
  return { revision: text.slice(0, end), value: text.slice(end + 1) }
}
