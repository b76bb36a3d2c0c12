import { script } from './client.js'
import { CHANGES, READS } from './lua.js'

/*
 * Scripts that make one change of one task. A task in a reply is an array: m, details, result. A
 * script that changes tasks returns {tickets, ms until workers have to look for what is due, result …}.
 * Tickets are arrays: pool, priority, name, id, run, birth.
 */

/**
 * ARGV: 1 the task, its details and its input, in lines: one argument, because each costs the client
 * some 1,400 instructions. Result: `new` and the times of creation, start and expiry, or an outcome
 * and a task.
 */
export const CREATE = script(`${CHANGES}
local head, details, input = string.match(ARGV[1], '^([^\\n]*)\\n([^\\n]*)\\n(.*)$')
local n = cjson.decode(head)
local found = live(n.id)
if not found and n.key then
  local other = call('HGET', base .. 'keys', n.key)
  found = other and live(other)
end
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
  0, n.pool, 0, '', '', '', n.hasFiles and 1 or 0, 0,
  0, '', n.pool, place}
if n.key then call('HSET', base .. 'keys', n.key, n.id) end
call('SADD', base .. 'names', n.name)
call('ZADD', base .. 'exp', t[EXPIRES], n.id)
count(t, 1)
list(t, isLater and 'scheduled' or 'queued')
schedule(t, start)
call('HSET', base .. 'h:' .. n.id, 'm', cjson.encode(t), 'details', details, 'input', input)
notify(t)
return done('new', now, t[START], t[EXPIRES])
`)

/** ARGV: 1 id or key, 2 `key` if it is one. Returns the task, or nothing. */
export const READ = script(`${READS}
local id, kind = unpack(ARGV)
if kind == 'key' then id = call('HGET', base .. 'keys', id) end
local t = id and load(id)
return t and t[EXPIRES] > now and reply(id)
`)

/**
 * ARGV: 1 the change as JSON, with the id and birth of the task, what is expected, the name of the
 * call, and the maximum number and bytes of the final tasks of a caller; then pairs of a property and
 * its text. Result: outcome, task.
 */
export const CHANGE = script(`${CHANGES}
local c = cjson.decode(ARGV[1])
for at = 2, #ARGV, 2 do c[ARGV[at]] = ARGV[at + 1] end
local id, h, status, expected = c.id, base .. 'h:' .. c.id, c.status, c.expected
local t = live(id)
if not t or t[BIRTH] ~= c.birth then return done('conflict') end
-- The client sends a command again if its connection was lost.
if t[NONCE] == c.nonce then return done('changed', reply(id)) end
local before, isFinal = t[STATUS], FINAL[t[STATUS]]
local holds = expected.version == t[VERSION]
  or expected.run == t[RUN] and before == 'processing'
  or expected.callbackRun == t[CALLBACK_RUN] and isFinal
if not holds or status == 'queued' and before == 'completed' then
  return done('conflict', reply(id))
end
if isFinal and status == 'queued' then
  local place = placeOf(t[CALLER], c.limit)
  if not place then return done('caller_full') end
  unshare(t, 's', BYTES)
  unshare(t, 'f', FILE_BYTES)
  t[COUNTED], t[START], t[FINISHED] = place, 0, 0
  count(t, 1)
  call('HDEL', h, 'result')
elseif not isFinal and FINAL[status] then
  t[FINISHED] = now
  count(t, -1)
end

local dueAt = status == 'queued' and now + math.ceil(c.delayMs or 0)
if c.pool and not status and before == 'queued' then
  dueAt = tonumber(call('ZSCORE', base .. 'delayed:' .. t[PLACE_POOL], id) or now)
end
if not isFinal and (status or dueAt) then unschedule(t, expected.run) end
if c.isGivenBack then t[ATTEMPT] = t[ATTEMPT] - 1
elseif status == 'queued' or c.checkpoint then t[CRASHES] = 0 end
t[STATUS], t[POOL], t[NONCE] = status or before, c.pool or t[POOL], c.nonce
for _, field in ipairs({'details', 'result', 'checkpoint'}) do
  if c[field] == cjson.null then call('HDEL', h, field)
  elseif c[field] then call('HSET', h, field, c[field]) end
end
if status == 'completed' then call('HDEL', h, 'input', 'checkpoint') end
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
-- A change of the callback keeps earlier attempts out.
if c.callbackMs and not expected.callbackRun then t[CALLBACK_RUN] = t[CALLBACK_RUN] + 1 end
if not c.isHidden then t[VERSION] = t[VERSION] + 1 end
if status then list(t, status) end
if FINAL[t[STATUS]] then
  local bytes = 0
  for _, field in ipairs({'input', 'details', 'result', 'checkpoint'}) do
    bytes = bytes + call('HSTRLEN', h, field)
  end
  share(t, 's', BYTES, bytes, c.maxEntries, c.maxBytes)
  share(t, 'f', FILE_BYTES, t[FILE_BYTES], 1e18, c.files and c.files.max or 1e18)
end
if dueAt then schedule(t, dueAt) end
save(t)
if not c.isHidden then notify(t) end
return done('changed', reply(id))
`)

/** ARGV: 1 id, 2 birth, 3 version. Result: the task if it stays, else nothing. */
export const DELETE = script(`${CHANGES}
local t = live(ARGV[1])
if not t or t[BIRTH] ~= ARGV[2] then return done(false) end
if not FINAL[t[STATUS]] or t[VERSION] ~= tonumber(ARGV[3]) then return done(reply(t[ID])) end
retire(t)
return done(false)
`)

/** ARGV: 1 row, 2 delay of the next attempt in ms, or empty if the files were removed. */
export const REMOVED = script(`${READS}
local row, delay = unpack(ARGV)
if delay ~= '' then return call('ZADD', base .. 'gone', 'XX', now + delay, row) end
call('ZREM', base .. 'gone', row)
return call('UNLINK', base .. 'h:' .. row)
`)

export const NOW = script(`
local clock = redis.call('TIME')
return clock[1] * 1000 + math.floor(clock[2] / 1000)
`)
