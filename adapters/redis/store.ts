import { createHash } from 'node:crypto'
import { duration, readOptions } from '../../src/runtime/options.js'
import { newId } from '../../src/runtime/random-id.js'
import type { StoreEvent } from '../../src/stores/calls.js'
import { entryFault } from '../../src/stores/entry-fault.js'
import type { ShareLimits } from '../../src/stores/share-limits.js'
import {
  StoreUnavailableError, type Conflict, type Counter, type Created, type Entry, type Existing,
  type ReplaceOptions, type Replaced, type Revision, type Store, type Unsubscribe, type WriteOptions,
} from '../../src/stores/store.js'
import {
  readsReplicas, REDIS, runScript, script, type Numeric, type RedisOptions,
} from './client.js'
import { Connection, NEVER } from './connection.js'

/** Memory of an entry in Redis beside its text, in bytes. An estimate. */
const OVERHEAD = 200

/** A store without an engine may wait longer than a request to tasks. */
const REDIS_STORE = { ...REDIS, timeoutMs: duration({ min: 10, max: 60_000, default: 1500 }) }

/**
 * A store on Redis 6.0 or later (or Valkey). `get` is a command, the other methods are scripts on one
 * key. The process makes the revisions, so that it recognises its own write if the client has sent it
 * twice.
 */
export class RedisStore implements Store {
  readonly shared = true
  private readonly connection: Connection
  private readonly limits: ShareLimits
  private closed = false

  /** @throws {TypeError} An option is not valid or unknown. */
  constructor(options: RedisOptions) {
    const { client, namespace, timeoutMs, maxEntriesPerOwner, maxBytesPerOwner } =
      readOptions('redis', options, REDIS_STORE)
    this.connection = new Connection(client, timeoutMs, `${namespace}:`)
    this.limits = { maxEntries: maxEntriesPerOwner, maxBytes: maxBytesPerOwner }
  }

  get(key: string): Promise<Entry | undefined> {
    const { client, base } = this.connection
    const name = `${base}e:${key}`
    const fault = entryFault(key)
    if (fault) return Promise.reject(fault)
    return this.call('get', () => (
      readsReplicas(client) ? runScript(client, GET, 1, name) : client.get(name)
    ), (reply) => toEntry(reply as string | null))
  }

  create(key: string, value: string, options: WriteOptions): Promise<Created | Existing> {
    return this.write('create', { key, value, expected: NONE, options }, (revision, entry) => (
      revision === undefined ? { created: false, entry: entry as Entry } : { created: true, revision }
    ))
  }

  replace(
    key: string, value: string, revision: Revision, options: ReplaceOptions,
  ): Promise<Replaced | Conflict> {
    return this.write('replace', { key, value, expected: revision, options }, (next, entry) => (
      next === undefined ? { replaced: false, entry } : { replaced: true, revision: next }
    ))
  }

  async delete(key: string, revision: Revision = ANY): Promise<boolean> {
    const deleted = await this.remove(key, revision)
    if (deleted !== undefined) this.count(key, deleted).catch(() => undefined)
    return deleted !== undefined
  }

  increment(key: string, by: number, { ttlMs }: { readonly ttlMs: number }): Promise<Counter> {
    return this.call('increment', async () => {
      const fault = entryFault(key)
      if (fault) throw fault
      if (!Number.isSafeInteger(by)) throw new TypeError(UNSAFE)
      const { client, base } = this.connection
      const counter = await runScript(client, INCREMENT, 1, `${base}n:${key}`, by, toPx(ttlMs))
      const [value, left] = counter as [string?, Numeric?]
      if (value === undefined) throw new TypeError(UNSAFE)
      return { value: Number(value), resetMs: Math.max(Number(left), 0) }
    }, (counter) => counter)
  }

  watch(key: string, listener: () => void): Promise<Unsubscribe> {
    return this.closed ? closedError() : this.connection.watch(`${this.connection.base}w:${key}`, listener)
  }

  close(): Promise<void> {
    this.closed = true
    this.connection.watches.clear()
    this.connection.watches.release()
    return Promise.resolve()
  }

  /** Writes an entry. `read` gets the new revision, or else the current entry. */
  private write<T>(
    verb: 'create' | 'replace', { key, value, expected, options: { ttlMs, evictable, caller } }: NewEntry,
    read: (revision: Revision | undefined, entry: Entry | undefined) => T,
  ): Promise<T> {
    const fault = entryFault(key, value, caller)
    if (fault) return Promise.reject(fault)
    const revision = caller !== undefined && evictable === true ? `${newId()}:${shareOf(caller)}` : newId()
    const text = `${revision}\n${value}`
    return this.call(verb, () => (
      this.sendWrite(key, expected, text, ...ttlMs === undefined ? [] : [toPx(ttlMs)])
    ), ([done, there]) => {
      const isDone = Number(done) === 1
      const entry = isDone ? undefined : toEntry(there ?? null)
      if (!isDone && entry?.revision !== revision) return read(undefined, entry)
      // An entry that is not counted expires as usual.
      this.count(key, revision, value, ttlMs).catch(() => undefined)
      return read(revision, undefined)
    })
  }

  /** Deletes an entry. Returns the revision that it had, if it was there. */
  private remove(key: string, revision: Revision): Promise<Revision | undefined> {
    return this.call('delete', () => this.sendWrite(key, revision), ([done, deleted]) => (
      Number(done) === 1 ? deleted : undefined
    ))
  }

  private sendWrite(
    key: string, ...args: readonly (string | number)[]
  ): Promise<readonly [done: Numeric, text?: string]> {
    const { client, base } = this.connection
    return runScript(client, WRITE, 1, `${base}e:${key}`, `${base}w:${key}`, ...args) as never
  }

  /**
   * Counts an entry for the caller that its revision names, and removes the caller's surplus. In a
   * Cluster, the counts are in another slot than the entry. If a call fails, the entry counts until
   * it would have expired.
   *
   * @param value - absent if the entry was deleted
   */
  private async count(key: string, revision: Revision, value?: string, ttlMs?: number): Promise<void> {
    const [, share] = revision.split(':')
    if (share === undefined) return
    const bytes = value === undefined ? '' : key.length + Buffer.byteLength(value) + OVERHEAD
    const { client, base } = this.connection
    const tag = `${base}o:{${share}}`
    const { maxEntries, maxBytes } = this.limits
    const gone = await runScript(
      client, COUNT, 4, tag, `${tag}:e`, `${tag}:n`, `${tag}:${NEVER}`, key, revision, bytes,
      ttlMs === undefined ? '' : Math.ceil(ttlMs), maxEntries, maxBytes,
    ) as string[]
    for (let at = 0; at < gone.length; at += 2) {
      this.remove(gone[at] as string, gone[at + 1] as string).catch(() => undefined)
    }
  }

  private call<Reply, T>(
    verb: StoreEvent['verb'], work: () => Promise<Reply>, read: (reply: Reply) => T,
  ): Promise<T> {
    return this.closed ? closedError() : this.connection.call(verb, work, read)
  }
}

interface NewEntry {
  readonly key: string
  readonly value: string
  /** Revision of the entry that it replaces; `NONE` if there must be no entry. */
  readonly expected: Revision
  readonly options: ReplaceOptions
}

/** Returns the name of the share of a caller. */
function shareOf(caller: string): string {
  return createHash('sha256').update(caller).digest('base64url')
}

const UNSAFE = 'A counter and its changes must be safe integers'

function closedError(): Promise<never> {
  return Promise.reject(new StoreUnavailableError('The store is closed'))
}

/** Converts a lifetime to whole milliseconds above 0, as Redis requires, and at most some 285 years. */
function toPx(ttlMs: number): number {
  if (!Number.isFinite(ttlMs)) {
    throw new TypeError(`ttlMs must be a number of milliseconds, not ${String(ttlMs)}`)
  }
  return Math.min(Math.max(1, Math.ceil(ttlMs)), Number.MAX_SAFE_INTEGER / 1000)
}

function toEntry(text: string | null): Entry | undefined {
  if (text === null) return undefined
  const end = text.indexOf('\n')
  return { revision: text.slice(0, end), value: text.slice(end + 1) }
}

/*
 * Each script touches the keys of one slot, and its first key alone if it writes an entry: so it works while
 * a Cluster moves the slot. An entry is the string `<revision>\n<value>`. */

/**
 * Expected revisions of `WRITE` that are no revisions: no entry may exist, or any entry may. A real
 * revision has no line feed.
 */
export const [NONE, ANY] = ['\n', '*\n']

/** `GET`, on a master. */
export const GET = script("return redis.call('GET', KEYS[1])")

/**
 * Writes or deletes an entry. KEYS[1] entry; ARGV: 1 channel, 2 expected revision, 3 new text, absent
 * to delete, 4 lifetime in ms, absent to keep the expiry.
 * Returns {1, revision that was there}, or {0, text that is there or nil}.
 */
const WRITE = script(`
local key, channel, expected, text, ttl = KEYS[1], unpack(ARGV)
local now = redis.call('GET', key)
local revision = now and string.match(now, '^[^\\n]*') or '\\n'
if expected ~= '*\\n' and expected ~= revision then return {0, now} end
if ttl then redis.call('SET', key, text, 'PX', ttl)
elseif text then redis.call('SET', key, text, 'KEEPTTL')
elseif redis.call('DEL', key) == 0 then return {0} end
redis.call('PUBLISH', channel, '')
return {1, revision}
`)

/**
 * KEYS[1] counter; ARGV: 1 by, 2 lifetime in ms for the first writer. Returns {value as string, ms until
 * it expires}, or {} if the sum is no safe integer.
 */
const INCREMENT = script(`
local before = redis.call('GET', KEYS[1])
local sum = (before or 0) + ARGV[1]
if math.abs(sum) > 9007199254740991 then return {} end
local text = string.format('%.0f', sum)
redis.call('SET', KEYS[1], text, unpack(before and {'KEEPTTL'} or {'PX', ARGV[2]}))
return {text, redis.call('PTTL', KEYS[1])}
`)

/**
 * Counts an entry for its caller. Returns pairs of an entry to remove, the oldest first, and its revision.
 * KEYS[1] sorted set: entries by the time of their count in microseconds; KEYS[2] sorted set: entries by
 * their expiry in milliseconds; KEYS[3] hash: `<bytes> <revision>` of each entry, and the sum of the bytes
 * in the field ''; KEYS[4] never exists, see `Connection.send`. ARGV: 1 entry, 2 revision, 3 bytes, or ''
 * if the entry was deleted, 4 lifetime in ms, or '' to keep it, 5 and 6 maximum entries and bytes.
 */
export const COUNT = script(`
local order, expiries, sizes = unpack(KEYS)
local entry, revision, size, ttl, maxEntries, maxBytes = unpack(ARGV)
local call, time = redis.call, redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function drop(key)
  local found = call('HGET', sizes, key)
  call('ZREM', order, key)
  call('ZREM', expiries, key)
  if not found then return '' end
  local bytes, before = string.match(found, '^(%d+) (.*)$')
  call('HDEL', sizes, key)
  call('HINCRBY', sizes, '', -bytes)
  return before
end
for _, key in ipairs(call('ZRANGEBYSCORE', expiries, '-inf', now, 'LIMIT', 0, 100)) do drop(key) end
if size == '' then
  local found = call('HGET', sizes, entry)
  if found and string.match(found, ' (.*)$') == revision then drop(entry) end
  return {}
end
local expiry = ttl ~= '' and now + ttl or call('ZSCORE', expiries, entry) or now + 86400000
drop(entry)
call('ZADD', order, time[1] * 1000000 + time[2], entry)
call('ZADD', expiries, expiry, entry)
call('HSET', sizes, entry, size .. ' ' .. revision)
local bytes, gone = call('HINCRBY', sizes, '', size), {}
while #gone < 400 and (call('ZCARD', order) > tonumber(maxEntries) or bytes > tonumber(maxBytes)) do
  local first, second = unpack(call('ZRANGE', order, 0, 1))
  local key = first == entry and second or first
  if key == entry then break end
  gone[#gone + 1] = key
  gone[#gone + 1] = drop(key)
  bytes = tonumber(call('HGET', sizes, '') or 0)
end
local last = call('ZRANGE', expiries, -1, -1, 'WITHSCORES')[2]
for _, key in ipairs({order, expiries, sizes}) do call('PEXPIREAT', key, string.format('%.0f', last)) end
return gone
`)
