import { script } from './client.js'
import { CHANGES, DELAYS, READS, taskScript } from './lua.js'

/*
 * Scripts of one task, and of one pool. A task in a reply is an array: m, details, result. A script that
 * changes tasks returns {ms until workers have to look for what is due, result …}.
 */

/**
 * ARGV: 1 the task, its details and its input, in lines, because each argument costs the client time.
 * Result: `new` and the times of creation, start and expiry, or an outcome and a task.
 */
export const CREATE = taskScript(`${CHANGES}
local head, details, input = string.match(ARGV[1], '^([^\\n]*)\\n([^\\n]*)\\n(.*)$')
local n = cjson.decode(head)
local h, caller, start = base .. 'h:' .. n.id, n.caller or '', now
if n.start then start = math.max(now, math.ceil(n.start.at or now + n.start.delayMs)) end
local startAt, kind = start > now and start or 0, start > now and 'scheduled' or 'queued'
local expires = start + math.ceil(n.keepMs)

local function live(id)
  local t = id and load(id)
  if t and t[EXPIRES] > now then return t end
  if t then retire(t) end
  return nil
end

local function keep(id)
  call('ZADD', base .. 'exp', expires, id, 'inf', '\\0n' .. n.name, 'inf', '\\0p' .. n.pool)
end

local function replace(t)
  local keepsPlace = t[PLACE] ~= 'delayed' and startAt == 0
    and t[POOL] == n.pool and t[PRIORITY] == n.priority
  if not keepsPlace then unplace(t) end
  t[POOL], t[PRIORITY], t[START], t[EXPIRES] = n.pool, n.priority, startAt, expires
  t[VERSION], t[FILES] = t[VERSION] + 1, n.hasFiles and 1 or 0
  keep(t[ID])
  list(t, kind)
  if not keepsPlace then schedule(t, start) end
  call('HSET', base .. 'h:' .. t[ID], 'm', cjson.encode(t), 'details', details, 'input', input)
  call('PUBLISH', channel .. 'w:' .. t[ID], '')
  return done('replaced', reply(t[ID]))
end

local found = live(n.id)
if not found and n.key and call('HSETNX', base .. 'keys', n.key, n.id) == 0 then
  found = live(call('HGET', base .. 'keys', n.key))
  if not found then call('HSET', base .. 'keys', n.key, n.id) end
end
if found then
  return done(found[BIRTH] == n.birth and 'created' or 'exists', reply(found[ID]))
end
local same = n.unique and live(call('HGET', base .. 'unique', n.unique.key))
local place = not same and placeOf(caller, n.limit)
if not place and n.key then call('HDEL', base .. 'keys', n.key) end
if same then
  if n.unique.ifExists == 'replace' and same[RUN] == 0 then return replace(same) end
  return done('exists', reply(same[ID]))
end
if not place then return done('caller_full') end
local t = {n.id, n.birth, n.key or '', n.owner or '', caller, n.name, 'queued', 1, 0, 0, 0,
  n.priority, now, startAt, 0, 0, 0, expires, 0, 0, n.pool, '', '', 0, '', '', '', '',
  '', n.hasFiles and 1 or 0, 0, 0, '', place, n.unique and n.unique.key or ''}
if n.unique then call('HSET', base .. 'unique', n.unique.key, n.id) end
keep(n.id)
list(t, kind)
schedule(t, start)
call('HSET', h, 'm', cjson.encode(t), 'details', details, 'input', input)
call('PUBLISH', channel .. 'w:' .. n.id, '')
return done('new', now, startAt, expires)
`)

/** KEYS[1] the hash of a task. Returns the time, and the task or nothing. */
export const READ = taskScript(`
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local row = redis.call('HMGET', KEYS[1], 'm', 'details', 'result')
return {now, row[1] and cjson.decode(row[1])[EXPIRES] > now and row}
`)

/** ARGV: 1 idempotency key. Returns the same as `READ`. */
export const READ_BY_KEY = taskScript(`${READS}
local id = call('HGET', base .. 'keys', ARGV[1])
local t = id and load(id)
return {now, t and t[EXPIRES] > now and reply(id)}
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

/** ARGV: 1 pool, 2 `paused`, or empty to end the pause. */
export const PAUSE = taskScript(`${CHANGES}
local pool, isPaused = ARGV[1], ARGV[2] == 'paused'
if isPaused then call('ZADD', base .. 'ready:' .. pool, 0, '!') else call('ZREM', base .. 'ready:' .. pool, '!') end
call(isPaused and 'SADD' or 'SREM', base .. 'paused', pool)
wake(now)
return done()
`)

export const PAUSED = script("return redis.call('SMEMBERS', KEYS[1] .. 'paused')")

/**
 * ARGV: 1 pool. Returns the numbers of running, waiting and delayed tasks, and the oldest wait in ms. The
 * oldest task of a line is its first one. Reads at most 1000 lines, and 1000 tasks that are held.
 */
export const COUNTS = taskScript(`${READS}
local running, delayed = base .. 'run:' .. ARGV[1], base .. 'delayed:' .. ARGV[1]
local ready, held = base .. 'ready:' .. ARGV[1], base .. 'held:' .. ARGV[1]
local over, due = call('ZCOUNT', running, '-inf', now), call('ZCOUNT', delayed, '-inf', now)
local waiting = call('ZCARD', ready) + call('ZCARD', held) + over + due
if call('ZSCORE', ready, '!') then waiting = waiting - 1 end
local oldest, from = micros, '(!'
for _ = 1, 1000 do
  local first = call('ZRANGEBYLEX', ready, from, '+', 'LIMIT', 0, 1)[1]
  if not first then break end
  local line, since = string.match(first, '^(%d+%z[^%z]*)%z(%d+)')
  oldest, from = math.min(oldest, tonumber(since)), '(' .. line .. '\\1'
end
for _, task in ipairs(call('ZRANGE', held, 0, 999)) do
  oldest = math.min(oldest, tonumber(string.match(task, '(%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d)%z[^%z]*$')))
end
oldest = now - math.floor(oldest / 1000)
if due > 0 then oldest = math.max(oldest, now - call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]) end
return {call('ZCOUNT', running, '(' .. now, '(+inf'), waiting, call('ZCARD', delayed) - due, oldest}
`)

export const PROBE = script("return redis.call('SET', KEYS[1], '', 'PX', 60000)")

/**
 * Reads a page by merging the lists of its kinds and names, or the sets of running tasks. `isBefore`
 * compares bytes, because Lua compares strings by the locale of the server. ARGV: 1 the query as JSON.
 */
export const PAGE = taskScript(`${DELAYS}
local q = cjson.decode(ARGV[1])
local isNewest, after = q.isNewest, q.after
local whose = q.owner and '\\n' .. q.owner or q.caller and '\\r' .. q.caller or ''
local first, last = q.from or '-inf', q.to and '(' .. q.to or '+inf'
if after and not isNewest then first = math.max(q.from or 0, after.createdAt)
elseif after and after.createdAt < (q.to or math.huge) then last = after.createdAt end
if isNewest then first, last = last, first end
local range = isNewest and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE'
endDelays()

local function isBefore(one, other)
  if one.createdAt ~= other.createdAt then return (one.createdAt > other.createdAt) == isNewest end
  for at = 1, math.min(#one.id, #other.id) do
    local a, b = string.byte(one.id, at), string.byte(other.id, at)
    if a ~= b then return (a > b) == isNewest end
  end
  return #one.id ~= #other.id and (#one.id > #other.id) == isNewest
end

local function advance(list)
  repeat
    list.offset = list.offset + 1
    local found = list.rows and list.rows[list.offset]
      or list.key and call(range, list.key, first, last, 'WITHSCORES', 'LIMIT', list.offset - 1, 1)
    list.id, list.createdAt = found and found[1], found and tonumber(found[2])
  until not list.id or not after or isBefore(after, list)
end

local lists, rows, page, isWanted = {}, {}, {}, {}
for _, kind in ipairs(q.kinds) do isWanted[kind] = true end
for _, name in ipairs(q.names or names) do
  isWanted['n' .. name] = true
  for _, kind in ipairs(q.kinds) do
    lists[#lists + 1] = {key = base .. 'l:' .. kind .. ':' .. name .. whose, offset = 0}
  end
end

local function isListed(t)
  return t and t[EXPIRES] > now and isWanted[t[STATUS] == 'queued' and t[KIND] or t[STATUS]]
    and isWanted['n' .. t[NAME]] and (not q.owner or t[OWNER] == q.owner) and (not q.caller or t[CALLER] == q.caller)
    and t[CREATED] >= (q.from or 0) and t[CREATED] < (q.to or math.huge)
end

if isWanted.processing and not isWanted.queued then
  for _, pool in ipairs(pools) do
    for _, run in ipairs(call('ZRANGE', base .. 'run:' .. pool, 0, -1)) do
      local id = string.match(run, '^[^%z]*')
      local t = load(id)
      if isListed(t) then rows[#rows + 1] = {id, t[CREATED], id = id, createdAt = t[CREATED]} end
    end
  end
  table.sort(rows, isBefore)
  lists[#lists + 1] = {rows = rows, offset = 0}
end
for _, list in ipairs(lists) do advance(list) end
while #page < q.limit do
  local best
  for _, list in ipairs(lists) do
    if list.id and (not best or isBefore(list, best)) then best = list end
  end
  if not best then break end
  if isListed(load(best.id)) then page[#page + 1] = call('HMGET', base .. 'h:' .. best.id, unpack(q.fields)) end
  advance(best)
end
return done(page)
`)
