import { script } from './client.js'

/* Each script touches the keys of one slot. An entry is the string `<revision>\n<value>`. */

/** Revision of no entry, and of any, in `WRITE`. The revision of an entry has no line feed. */
export const [NONE, ANY] = ['\n', '*\n']

/** `GET`, on a master. */
export const GET = script("return redis.call('GET', KEYS[1])")

/**
 * Writes or deletes an entry. KEYS[1] entry; ARGV: 1 channel, 2 expected revision, 3 new text, absent
 * to delete, 4 lifetime in ms, absent to keep the expiry.
 * Returns {1}, or {0, text that is there or nil}.
 */
export const WRITE = script(`
local key, channel, expected, text, ttl = KEYS[1], unpack(ARGV)
local now = redis.call('GET', key)
local revision = now and string.match(now, '^[^\\n]*') or '\\n'
if expected ~= '*\\n' and expected ~= revision then return {0, now} end
if ttl then redis.call('SET', key, text, 'PX', ttl)
elseif text then redis.call('SET', key, text, 'KEEPTTL')
elseif redis.call('DEL', key) == 0 then return {0} end
redis.call('PUBLISH', channel, '')
return {1}
`)

/**
 * KEYS[1] counter; ARGV: 1 by, 2 lifetime in ms for the first writer. Returns {value as string, ms until
 * it expires}, or {} if the sum is no safe integer.
 */
export const INCREMENT = script(`
local before = redis.call('GET', KEYS[1])
local sum = (before or 0) + ARGV[1]
if math.abs(sum) > 9007199254740991 then return {} end
local text = string.format('%.0f', sum)
redis.call('SET', KEYS[1], text, unpack(before and {'KEEPTTL'} or {'PX', ARGV[2]}))
return {text, redis.call('PTTL', KEYS[1])}
`)

/**
 * Counts an entry for its owner. Returns pairs of an entry to remove, the oldest first, and its revision.
 * KEYS[1] sorted set: entries by the time of their count in microseconds; KEYS[2] sorted set: entries by
 * their expiry in milliseconds; KEYS[3] hash: `<bytes> <revision>` of each entry, and the sum of the bytes
 * in the field ''. ARGV: 1 entry, 2 revision, 3 bytes, 4 lifetime in ms, or '' to keep it, 5 and 6 maximum
 * entries and bytes.
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
for _, key in ipairs(KEYS) do call('PEXPIREAT', key, string.format('%.0f', last)) end
return gone
`)
