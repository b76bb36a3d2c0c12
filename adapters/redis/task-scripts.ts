import { script } from './client.js'
import { CHANGES, READS, taskScript } from './lua.js'

/*
 * Scripts that make one change of one task. A task in a reply is an array: m, details, result. A
 * script that changes tasks returns {tickets, ms until workers have to look for what is due, result …}.
 * Tickets are arrays: pool, priority, name, id, run, birth.
 */

/**
 * ARGV: 1 the task, its details and its input, in lines, because each argument costs the client time.
 * Result: `new` and the times of creation, start and expiry, or an outcome and a task.
 */
export const CREATE = taskScript(`${CHANGES}
local head, details, input = string.match(ARGV[1], '^([^\\n]*)\\n([^\\n]*)\\n(.*)$')
local n = cjson.decode(head)
local h = base .. 'h:' .. n.id

local function live(id)
  local t = id and load(id)
  if t and t[EXPIRES] > now then return t end
  if t then retire(t) end
  return nil
end

local found = live(n.id) or n.key and live(call('HGET', base .. 'keys', n.key))
if found then
  return done(found[BIRTH] == n.birth and 'created' or 'exists', reply(found[ID]))
end
local caller, start = n.caller or '', now
local place = placeOf(caller, n.limit)
if not place then return done('caller_full') end
if n.start then start = math.max(now, math.ceil(n.start.at or now + n.start.delayMs)) end
local isLater = start > now
local t = {n.id, n.birth, n.key or '', n.owner or '', caller, n.name, 'queued', 1, 0, 0, 0,
  n.priority, now, isLater and start or 0, 0, 0, 0, start + math.ceil(n.keepMs), 0,
  0, n.pool, 0, '', '', n.hasFiles and 1 or 0, 0, 0, '', n.pool, place}
local most, isKnown = unpack(call('HMGET', base .. 'defs', 'p' .. n.pool, 'n' .. n.name))
if not isKnown then call('HSET', base .. 'defs', 'n' .. n.name, '') end
if n.key then call('HSET', base .. 'keys', n.key, n.id) end
call('ZADD', base .. 'exp', t[EXPIRES], n.id)
add('n', place, 1)
list(t, isLater and 'scheduled' or 'queued')
schedule(t, start, tonumber(most or 1))
call('HSET', h, 'm', cjson.encode(t), 'details', details, 'input', input)
call('PUBLISH', channel .. 'w:' .. n.id, '')
return done('new', now, t[START], t[EXPIRES])
`)

/** ARGV: 1 id or key, 2 `key` if it is one. Returns the time, and the task or nothing. */
export const READ = taskScript(`${READS}
local id, kind = unpack(ARGV)
if kind == 'key' then id = call('HGET', base .. 'keys', id) end
local t = id and load(id)
return {now, t and t[EXPIRES] > now and reply(id)}
`)

/**
 * ARGV: 1 in lines: the change as JSON, with the id and birth of the task, the expectation, the name of
 * the call (which is the same if the client sends it again), and the maximum number and bytes of the
 * final tasks of a caller; its details, or nothing; its result, or nothing. 2 its checkpoint, or
 * nothing. Result: outcome, task without the details and the result that were sent. `share` counts what
 * a final task keeps for its caller, who loses the oldest such tasks above the maximum.
 */
export const CHANGE = taskScript(`${CHANGES}
local function share(t, kind, field, bytes, maxTasks, maxBytes)
  if bytes == 0 then return end
  local set, sums = base .. kind .. ':' .. t[CALLER], base .. kind .. 'b'
  local isNew = call('ZADD', set, 'NX', micros, t[ID]) == 1
  local sum = call('HINCRBY', sums, t[CALLER], isNew and bytes or bytes - t[field])
  t[field] = bytes
  for _ = 1, 100 do
    if sum <= maxBytes and call('ZCARD', set) <= maxTasks then return end
    local first = call('ZRANGE', set, 0, 0)[1]
    if first == t[ID] then return end
    local other = load(first)
    if other then retire(other) else call('ZREM', set, first) end
    sum = tonumber(call('HGET', sums, t[CALLER]) or 0)
  end
end

local head, details, result = string.match(ARGV[1], '^([^\\n]*)\\n([^\\n]*)\\n(.*)$')
local c, checkpoint = cjson.decode(head), ARGV[2]
local id, h, status, expected = c.id, base .. 'h:' .. c.id, c.status, c.expected
local before = call('HMGET', h, 'm', 'details')
local t = before[1] and cjson.decode(before[1])
if not t or t[BIRTH] ~= c.birth or t[EXPIRES] <= now then return done('conflict') end
if t[NONCE] == c.nonce then return done('changed', reply(id)) end
local isRunning, isFinal = t[STATUS] == 'processing', FINAL[t[STATUS]]
local holds = expected.version == t[VERSION] or expected.run == t[RUN] and isRunning
  or expected.callbackRun == t[CALLBACK_RUN] and isFinal
if not holds or status == 'queued' and t[STATUS] == 'completed' then
  return done('conflict', reply(id))
end
if isFinal and status == 'queued' then
  local place = placeOf(t[CALLER], c.limit)
  if not place then return done('caller_full') end
  unshare(t, 's', BYTES)
  unshare(t, 'f', FILE_BYTES)
  t[COUNTED], t[START], t[FINISHED] = place, 0, 0
  add('n', place, 1)
  call('HDEL', h, 'result')
elseif not isFinal and FINAL[status] then
  t[FINISHED] = now
  add('n', t[COUNTED], -1)
end

local dueAt = status == 'queued' and now + math.ceil(c.delayMs or 0)
if c.pool and not status and t[STATUS] == 'queued' then
  dueAt = tonumber(call('ZSCORE', base .. 'delayed:' .. t[PLACE_POOL], id) or now)
end
if not isFinal and (status or dueAt) then unschedule(t, expected.run) end
if c.isGivenBack then t[ATTEMPT] = t[ATTEMPT] - 1
elseif status == 'queued' or checkpoint or c.checkpoint then t[CRASHES] = 0 end
t[STATUS], t[POOL], t[NONCE] = status or t[STATUS], c.pool or t[POOL], c.nonce
if status == 'completed' then call('HDEL', h, 'input', 'checkpoint')
elseif c.checkpoint then call('HDEL', h, 'checkpoint')
elseif checkpoint then call('HSET', h, 'checkpoint', checkpoint) end
if c.hasFiles ~= nil then t[FILES] = c.hasFiles and 1 or 0 end
if c.files then
  unshare(t, 'f', FILE_BYTES)
  t[FILE_BYTES] = c.files.bytes
end
if c.keepMs then
  t[EXPIRES] = now + math.ceil(c.keepMs)
  call('ZADD', base .. 'exp', t[EXPIRES], id)
end
if c.callbackMs == cjson.null then
  t[CALLBACK_AT] = 0
  call('ZREM', base .. 'cb', id)
elseif c.callbackMs then
  t[CALLBACK_AT] = now + math.ceil(c.callbackMs)
  call('ZADD', base .. 'cb', t[CALLBACK_AT], id)
  wake(t[CALLBACK_AT])
end
if c.callbackMs and not expected.callbackRun then t[CALLBACK_RUN] = t[CALLBACK_RUN] + 1 end
if not c.isHidden then t[VERSION] = t[VERSION] + 1 end
if status then list(t, status) elseif dueAt and dueAt <= now then list(t, 'queued') end
if details ~= '' then call('HSET', h, 'details', details) end
if result ~= '' then call('HSET', h, 'result', result) end
if FINAL[t[STATUS]] and t[CALLER] ~= '' then
  local bytes = #(details == '' and before[2] or details)
  bytes = bytes + (result == '' and call('HSTRLEN', h, 'result') or #result)
  if status ~= 'completed' then
    bytes = bytes + call('HSTRLEN', h, 'input') + call('HSTRLEN', h, 'checkpoint')
  end
  share(t, 's', BYTES, bytes, c.maxEntries, c.maxBytes)
  share(t, 'f', FILE_BYTES, t[FILE_BYTES], 1e18, c.files and c.files.max or 1e18)
end
if dueAt then schedule(t, dueAt) end
local m = cjson.encode(t)
call('HSET', h, 'm', m)
if not c.isHidden then call('PUBLISH', channel .. 'w:' .. id, '') end
return done('changed', {
  m, details == '' and before[2], result == '' and call('HGET', h, 'result')})
`)

/** ARGV: 1 id, 2 birth, 3 version. Result: the task if it stays, else nothing. */
export const DELETE = taskScript(`${CHANGES}
local t = load(ARGV[1])
if not t or t[BIRTH] ~= ARGV[2] or t[EXPIRES] <= now then return done(false) end
if not FINAL[t[STATUS]] or t[VERSION] ~= tonumber(ARGV[3]) then return done(reply(t[ID])) end
retire(t)
return done(false)
`)

/** ARGV: 1 row, 2 empty if its files were removed. Otherwise they are removed again after 2 seconds. */
export const REMOVED = taskScript(`${READS}
local row, again = unpack(ARGV)
if again ~= '' then return call('ZADD', base .. 'gone', 'XX', now + 2000, row) end
call('ZREM', base .. 'gone', row)
return call('UNLINK', base .. 'h:' .. row)
`)

export const NOW = script(`
local clock = redis.call('TIME')
return clock[1] * 1000 + math.floor(clock[2] / 1000)
`)

export const PROBE = script("return redis.call('SET', KEYS[1], '', 'PX', 60000)")
