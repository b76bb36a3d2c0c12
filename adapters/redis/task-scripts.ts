import { script } from './client.js'
import { CHANGES, READS } from './lua.js'

/*
 * Scripts that make one change of one task. A task in a reply is an array: row, m, birth, key,
 * owner, caller, name, details, result. `tickets` are arrays: pool, priority, name, row, run,
 * birth. ARGV[1] of every script is the start of the names of channels.
 */

/**
 * ARGV: 2 id, 3 birth, 4 key, 5 owner, 6 caller, 7 name, 8 pool, 9 priority, 10 input,
 * 11 details, 12 `at`, `delay` or empty, 13 its milliseconds, 14 lifetime in ms, 15 files (0, 1),
 * then group and maximum of its limit, if it has one. Absent strings are empty.
 * Returns {outcome, task, tickets}.
 */
export const CREATE = script(`${CHANGES}
local _, id, birth, key, owner, caller, name, pool = unpack(ARGV)
local found = live(id)
if not found and key ~= '' then
  local other = call('HGET', base .. 'keys', key)
  found = other and live(other)
  if found and found.key ~= key then found = nil end
end
if found then
  return {found.birth == birth and 'created' or 'exists', reply(found.row), tickets}
end
local place = placeOf(caller ~= '' and caller, ARGV[16], ARGV[17])
if not place then return {'caller_full', false, tickets} end
local start = now
if ARGV[12] == 'at' then start = math.max(now, tonumber(ARGV[13]))
elseif ARGV[12] == 'delay' then start = now + ARGV[13] end
local isLater = start > now
local t = {row = id, birth = birth, key = key ~= '' and key, owner = owner ~= '' and owner,
  caller = caller ~= '' and caller, name = name, m = {'queued', 1, 0, 0, 0, tonumber(ARGV[9]), now,
    isLater and start or 0, 0, 0, 0, start + ARGV[14], 0, 0, pool, '', '', '', tonumber(ARGV[15]),
    0, 0, '', pool, 0, place}}
local fields = {'birth', birth, 'name', name, 'details', ARGV[11], 'input', ARGV[10]}
for _, field in ipairs({'key', 'owner', 'caller'}) do
  if t[field] then
    fields[#fields + 1] = field
    fields[#fields + 1] = t[field]
  end
end
if t.key then call('HSET', base .. 'keys', key, id) end
call('SADD', base .. 'names', name)
call('ZADD', base .. 'exp', t.m[EXPIRES], id)
count(t, 1)
list(t, isLater and 's' or 'q')
schedule(t, start)
fields[#fields + 1] = 'm'
fields[#fields + 1] = cjson.encode(t.m)
call('HSET', base .. 'h:' .. id, unpack(fields))
notify(t)
return {'created', reply(id), tickets}
`)

/** ARGV: 2 `id` or `key`, 3 its value. Returns the task, or nothing. */
export const READ = script(`${READS}
local id = ARGV[3]
if ARGV[2] == 'key' then id = call('HGET', base .. 'keys', id) end
local t = id and load(id)
if not t or t.m[EXPIRES] <= now or (ARGV[2] == 'key' and t.key ~= ARGV[3]) then return false end
return reply(id)
`)

/**
 * ARGV: 2 id, 3 birth, 4 `version`, `run` or `callback`, 5 its expected number, 6 a name
 * of this call, 7 and 8 maximum number and bytes of the final tasks of a caller, then pairs of a
 * property and its value. Returns {outcome, task, tickets}.
 */
export const CHANGE = script(`${CHANGES}
local _, id, birth, kind, expected, nonce = unpack(ARGV)
local c = {}
for at = 9, #ARGV, 2 do c[ARGV[at]] = ARGV[at + 1] end
local t = live(id)
if not t or t.birth ~= birth then return {'conflict', false, tickets} end
local m, h = t.m, base .. 'h:' .. id
-- The client sends a command again if its connection was lost.
if m[NONCE] == nonce then return {'changed', reply(id), tickets} end
local before, isFinal = m[STATUS], FINAL[m[STATUS]]
local holds = false
if kind == 'version' then holds = m[VERSION] == tonumber(expected)
elseif kind == 'run' then holds = m[RUN] == tonumber(expected) and before == 'processing'
else holds = m[CALLBACK_RUN] == tonumber(expected) and isFinal end
if not holds or (c.status == 'queued' and before == 'completed') then
  return {'conflict', reply(id), tickets}
end
local isRetry = isFinal and c.status == 'queued'
local isEnd = not isFinal and FINAL[c.status]
if isRetry then
  m[COUNTED] = placeOf(t.caller, c.group, c.max)
  if not m[COUNTED] then return {'caller_full', false, tickets} end
end

local dueAt = c.status == 'queued' and now + (c.delayMs or 0)
if c.pool and not c.status and before == 'queued' then
  dueAt = tonumber(call('ZSCORE', base .. 'delayed:' .. m[PLACE_POOL], id) or now)
end
if not isFinal and (c.status or dueAt) then
  unschedule(t)
  if before == 'processing' and kind ~= 'run' then stopRun(t) end
end
if c.status == 'queued' then
  if c.isGivenBack then
    m[ATTEMPT] = m[ATTEMPT] - 1
  else
    m[CRASHES] = 0
  end
end
if c.status then
  m[STATUS], m[WORKER] = c.status, ''
end
if isEnd then
  m[FINISHED] = now
  count(t, -1)
elseif isRetry then
  unshare(t)
  count(t, 1)
  m[START], m[FINISHED] = 0, 0
  call('HDEL', h, 'result')
end
if c.pool then m[POOL] = c.pool end
if c.details then call('HSET', h, 'details', c.details) end
if c.result then call('HSET', h, 'result', c.result) end
if c.checkpoint or c.noCheckpoint then
  if c.checkpoint then call('HSET', h, 'checkpoint', c.checkpoint)
  else call('HDEL', h, 'checkpoint') end
  m[CRASHES] = 0
end
if c.status == 'completed' then call('HDEL', h, 'input', 'checkpoint') end
if c.hasFiles then m[FILES] = tonumber(c.hasFiles) end
if c.fileBytes then
  unshareFiles(t)
  m[FILE_BYTES] = tonumber(c.fileBytes)
end
if c.keepMs then
  m[EXPIRES] = now + c.keepMs
  call('ZADD', base .. 'exp', m[EXPIRES], id)
end
if c.callbackMs then
  m[CALLBACK_AT] = now + c.callbackMs
  call('ZADD', base .. 'cb', m[CALLBACK_AT], id)
elseif c.noCallback then
  m[CALLBACK_AT] = 0
  call('ZREM', base .. 'cb', id)
end
-- A change of the callback keeps earlier attempts out.
if (c.callbackMs or c.noCallback) and kind ~= 'callback' then
  m[CALLBACK_RUN] = m[CALLBACK_RUN] + 1
end
if not c.isHidden then m[VERSION] = m[VERSION] + 1 end
m[NONCE] = nonce
if FINAL[m[STATUS]] then
  list(t, FINAL[m[STATUS]])
  share(t, tonumber(ARGV[7]), tonumber(ARGV[8]))
  shareFiles(t, tonumber(c.maxFileBytes or 1e18))
elseif m[STATUS] == 'queued' and c.status then
  list(t, 'q')
end
if dueAt then schedule(t, dueAt) end
save(t)
if not c.isHidden then notify(t) end
return {'changed', reply(id), tickets}
`)

/** ARGV: 2 id, 3 birth, 4 version. Returns the task if it stays, 1 if it leaves files, else nothing. */
export const DELETE = script(`${CHANGES}
local t = live(ARGV[2])
if not t or t.birth ~= ARGV[3] then return false end
if not FINAL[t.m[STATUS]] or t.m[VERSION] ~= tonumber(ARGV[4]) then return reply(t.row) end
retire(t)
return t.m[FILES] == 1 and 1
`)

/** ARGV: 2 row, 3 delay of the next attempt in ms, or empty if the files were removed. */
export const REMOVED = script(`${READS}
if ARGV[3] ~= '' then return call('ZADD', base .. 'gone', 'XX', now + ARGV[3], ARGV[2]) end
call('ZREM', base .. 'gone', ARGV[2])
return call('UNLINK', base .. 'h:' .. ARGV[2])
`)

export const NOW = script(`
local clock = redis.call('TIME')
return clock[1] * 1000 + math.floor(clock[2] / 1000)
`)
