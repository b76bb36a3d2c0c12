import { createHash } from 'node:crypto'
import type { Revision } from '../../src/stores/store.js'
import { runScript, script, type RedisClient } from './client.js'

/**
 * Counts an entry for its owner. Names the entries to remove if the owner has too many: those that
 * were counted first. All keys have the same hash tag.
 *
 * KEYS[1] sorted set: entries by the time of their count in microseconds; KEYS[2] sorted set:
 * entries by their expiry in milliseconds; KEYS[3] hash: `<bytes> <revision>` of each entry, and the
 * sum of the bytes in the field ''. ARGV: 1 entry, 2 revision, 3 bytes, 4 lifetime in ms, or ''
 * to keep it, 5 and 6 maximum entries and bytes. Gives entries and revisions, in turns.
 */
const COUNT = script(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function drop(key)
  local found = redis.call('HGET', KEYS[3], key)
  redis.call('ZREM', KEYS[1], key)
  redis.call('ZREM', KEYS[2], key)
  if not found then return nil end
  local bytes, revision = string.match(found, '^(%d+) (.*)$')
  redis.call('HDEL', KEYS[3], key)
  redis.call('HINCRBY', KEYS[3], '', -bytes)
  return revision
end
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 100)) do drop(key) end
local expiry = now + 86400000
if ARGV[4] == '' then
  expiry = redis.call('ZSCORE', KEYS[2], ARGV[1]) or expiry
else
  expiry = now + ARGV[4]
end
drop(ARGV[1])
redis.call('ZADD', KEYS[1], time[1] * 1000000 + time[2], ARGV[1])
redis.call('ZADD', KEYS[2], expiry, ARGV[1])
redis.call('HSET', KEYS[3], ARGV[1], ARGV[3] .. ' ' .. ARGV[2])
local bytes = redis.call('HINCRBY', KEYS[3], '', ARGV[3])
local gone = {}
while #gone < 400 and (redis.call('ZCARD', KEYS[1]) > tonumber(ARGV[5]) or bytes > tonumber(ARGV[6])) do
  local first = redis.call('ZRANGE', KEYS[1], 0, 1)
  local key = first[1]
  if key == ARGV[1] then key = first[2] end
  if not key then break end
  gone[#gone + 1] = key
  gone[#gone + 1] = drop(key) or ''
  bytes = tonumber(redis.call('HGET', KEYS[3], '') or 0)
end
local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2]
for _, key in ipairs(KEYS) do redis.call('PEXPIREAT', key, string.format('%.0f', last)) end
return gone
`)

/** Memory of an entry in Redis beside its text, in bytes. An estimate. */
const OVERHEAD = 200

export interface CountedEntry {
  readonly owner: string
  readonly key: string
  readonly revision: Revision
  readonly value: string
  /** Lifetime in milliseconds; `undefined` if the write has kept the expiry. */
  readonly ttlMs: number | undefined
}

/**
 * Limits what each owner leaves behind. An entry is counted after it was written, with one command
 * that nobody waits for, because in a Cluster the count is in another slot. If the process dies in
 * between, the entry is not counted, and expires as usual. Entries that were deleted early count
 * until they would have expired, or are the oldest.
 */
export class RedisOwnerShares {
  constructor(
    private readonly client: RedisClient, private readonly prefix: string,
    private readonly limits: { readonly maxEntries: number, readonly maxBytes: number },
    /** Removes an entry that still has this revision. */
    private readonly remove: (key: string, revision: Revision) => Promise<unknown>,
  ) {}

  /** Counts an entry, and removes what its owner has too much. Never throws. */
  count(entry: CountedEntry): void {
    this.apply(entry).catch(() => {
      // The entry is not counted.
    })
  }

  private async apply({ owner, key, revision, value, ttlMs }: CountedEntry): Promise<void> {
    const { maxEntries, maxBytes } = this.limits
    const tag = `${this.prefix}o:{${createHash('sha256').update(owner).digest('base64url')}}`
    const bytes = key.length + Buffer.byteLength(value) + OVERHEAD
    const gone = await runScript(
      this.client, COUNT, 3, tag, `${tag}:e`, `${tag}:n`, key, revision, bytes,
      ttlMs === undefined ? '' : Math.ceil(ttlMs), maxEntries, maxBytes,
    ) as string[]
    const removed: Promise<unknown>[] = []
    for (let at = 0; at < gone.length; at += 2) {
      removed.push(this.remove(gone[at] as string, gone[at + 1] as string))
    }
    await Promise.all(removed)
  }
}
