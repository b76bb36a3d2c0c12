import { randomBytes } from 'node:crypto'
import type { Notices } from '../../src/runtime/notices.js'
import { duration, readOptions, type OptionTable } from '../../src/runtime/options.js'
import { observed, type Breaker, type StoreEvent } from '../../src/stores/calls.js'
import {
  StoreUnavailableError, type Conflict, type Counter, type Created, type Entry,
  type Existing, type ReplaceOptions, type Replaced, type Revision, type Store, type Unsubscribe,
  type WriteOptions,
} from '../../src/stores/store.js'
import { noticesOf, REDIS, runScript, script, type RedisClient, type Script } from './client.js'
import { redisBreaker, Silence } from './faults.js'
import { RedisOwnerShares } from './owner-shares.js'
import { Watches } from './watches.js'

/*
 * Every script here touches at most one key, so all of them are safe in a Cluster. An entry is the
 * text `<revision>\n<value>`. Lifetimes are durations, so that only the clock of Redis decides when
 * a key expires.
 */

/**
 * KEYS[1] entry; ARGV: 1 revision that must be there, 2 new text, 3 channel, 4 (optional) lifetime
 * in ms; without it the key keeps its expiry. Gives {1}, or {0, text that is there or nil}.
 */
const REPLACE = script(`
local now = redis.call('GET', KEYS[1])
if not now or string.sub(now, 1, #ARGV[1] + 1) ~= ARGV[1] .. '\\n' then return {0, now} end
if ARGV[4] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[4])
else
  redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
end
redis.call('PUBLISH', ARGV[3], '')
return {1}
`)

/**
 * KEYS[1] entry; ARGV: 1 channel, 2 (may be left out) revision that must be there. Gives how many
 * were removed.
 */
const DELETE = script(`
if ARGV[2] then
  local now = redis.call('GET', KEYS[1])
  if not now or string.sub(now, 1, #ARGV[2] + 1) ~= ARGV[2] .. '\\n' then return 0 end
end
local removed = redis.call('DEL', KEYS[1])
if removed == 1 then redis.call('PUBLISH', ARGV[1], '') end
return removed
`)

/**
 * KEYS[1] counter; ARGV: 1 by, 2 lifetime in ms for the first writer.
 * Gives {value as text, ms until it expires}, or {} when the sum would be no safe integer.
 */
const INCREMENT = script(`
local before = redis.call('GET', KEYS[1])
local sum = (before or 0) + ARGV[1]
if math.abs(sum) > 9007199254740991 then return {} end
local text = string.format('%.0f', sum)
if before then
  redis.call('SET', KEYS[1], text, 'KEEPTTL')
  return {text, redis.call('PTTL', KEYS[1])}
end
redis.call('SET', KEYS[1], text, 'PX', ARGV[2])
return {text, tonumber(ARGV[2])}
`)

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

const REDIS_STORE = {
  ...REDIS, timeoutMs: duration({ min: 10, max: 60_000, default: 1500 }),
} satisfies OptionTable<RedisStoreOptions>

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
    const { client, namespace, timeoutMs, maxEntriesPerOwner, maxBytesPerOwner } =
      readOptions('RedisStore', options, REDIS_STORE)
    const limits = { maxEntries: maxEntriesPerOwner, maxBytes: maxBytesPerOwner }
    this.client = client
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
