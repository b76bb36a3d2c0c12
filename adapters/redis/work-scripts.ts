import { script } from './client.js'
import { CHANGES, READS } from './lua.js'

/*
 * Scripts of processes that work. A task in a reply is an array: row, m, birth, key, owner, caller,
 * name, details, result. `tickets` are arrays: pool, priority, name, row, run, birth. ARGV[1] of
 * every script is the start of the names of channels.
 */

/**
 * Begins a run if the task is still ready. ARGV: 2 pool, 3 id, 4 a name of this call,
 * 5 lease in ms, 6 worker. Returns {task or nothing, tickets, number of ready tasks of the pool,
 * input, checkpoint}.
 */
export const BEGIN = script(`${CHANGES}
local _, pool, id, nonce, leaseMs, worker = unpack(ARGV)
local t = live(id)
if not t then return {false, tickets} end
local m, h = t.m, base .. 'h:' .. id
-- A worker sends a begin again if its reply was lost.
local isRepeated = m[TAKEN_BY] == nonce and m[STATUS] == 'processing'
  and call('ZSCORE', base .. 'run:' .. m[PLACE_POOL], memberOf(t))
if not isRepeated then
  if m[PLACE_POOL] ~= pool or not endReady(t) then return {false, tickets} end
  m[RUN_STARTED_BEFORE] = -1
  if m[STATUS] == 'processing' then
    stopRun(t)
    m[RUN_STARTED_BEFORE] = m[RUN_STARTED]
    m[CRASHES] = m[CRASHES] + 1
  end
  m[STATUS], m[TAKEN_BY], m[WORKER], m[RUN_STARTED] = 'processing', nonce, worker, now
  m[RUN], m[ATTEMPT], m[VERSION] = m[RUN] + 1, m[ATTEMPT] + 1, m[VERSION] + 1
  if m[STARTED] == 0 then m[STARTED] = now end
  list(t, 'p')
  save(t)
  call('ZADD', base .. 'run:' .. pool, now + leaseMs, memberOf(t))
  notify(t)
end
local v = call('HMGET', h, 'input', 'checkpoint')
return {reply(id), tickets, call('ZCARD', base .. 'ready:' .. pool), v[1], v[2]}
`)

/**
 * Renews leases that have not ended. ARGV: 2 lease in ms, then pairs of a pool and a run: id, birth
 * and number in lines. Returns the runs that were lost.
 */
export const RENEW = script(`${READS}
local lost = {}
for at = 3, #ARGV, 2 do
  local set = base .. 'run:' .. ARGV[at]
  local ends = call('ZSCORE', set, ARGV[at + 1])
  if ends and tonumber(ends) > now then call('ZADD', set, now + ARGV[2], ARGV[at + 1])
  else lost[#lost + 1] = ARGV[at + 1] end
end
return lost
`)

/**
 * Finds what is due. ARGV: 2 maximum number of callbacks, 3 maximum number of everything
 * else, 4 time after which a callback is due again, and files are removed again, in ms, 5 maximum
 * number of rows to remove, then pairs of a pool of this process and its places. Returns {tickets,
 * callbacks, rows to remove, ms until something is due}.
 */
export const DUE = script(`${CHANGES}
local most, again, nextAt = tonumber(ARGV[3]), tonumber(ARGV[4]), now + 1000
local function due(key, limit)
  local found = call('ZRANGEBYSCORE', base .. key, '-inf', now, 'LIMIT', 0, limit)
  if #found == most then nextAt = now end
  return found
end

for at = 6, #ARGV, 2 do
  if call('HGET', base .. 'pools', ARGV[at]) ~= ARGV[at + 1] then
    call('HSET', base .. 'pools', ARGV[at], ARGV[at + 1])
  end
end
if retireExpired(most) == most then nextAt = now end
local pools = call('HKEYS', base .. 'pools')
for _, pool in ipairs(pools) do
  for _, id in ipairs(due('delayed:' .. pool, most)) do
    call('ZREM', base .. 'delayed:' .. pool, id)
    local t = load(id)
    if t then
      makeReady(t)
      if t.m[KIND] == 's' then
        list(t, 'q')
        save(t)
      end
    end
  end
  for _, member in ipairs(due('run:' .. pool, most)) do
    call('ZREM', base .. 'run:' .. pool, member)
    local t = load(string.match(member, '^[^\\n]*'))
    if t then makeReady(t) end
  end
end
for _, id in ipairs(due('tk', most)) do
  local t = load(id)
  local since = t and call('ZSCORE', base .. 'ready:' .. t.m[PLACE_POOL], id)
  if since then
    -- Again when it has waited for twice the time.
    local age = now - math.floor(since / 1000)
    call('ZADD', base .. 'tk', now + math.min(math.max(age, 1000), 30000), id)
    tell(t)
  else
    call('ZREM', base .. 'tk', id)
  end
end

local callbacks, removals = {}, {}
if ARGV[2] ~= '0' then
  for _, id in ipairs(due('cb', ARGV[2])) do
    local t = load(id)
    if t and FINAL[t.m[STATUS]] then
      t.m[CALLBACK_RUN], t.m[CALLBACK_AT] = t.m[CALLBACK_RUN] + 1, now + again
      save(t)
      call('ZADD', base .. 'cb', now + again, id)
      callbacks[#callbacks + 1] = reply(id)
    else
      call('ZREM', base .. 'cb', id)
    end
  end
end
for _, row in ipairs(due('gone', ARGV[5])) do
  call('ZADD', base .. 'gone', now + again, row)
  removals[#removals + 1] = reply(row)
end

local function look(key)
  local at = tonumber(call('ZRANGE', base .. key, 0, 0, 'WITHSCORES')[2] or nextAt)
  if at < nextAt then nextAt = at end
end
for _, pool in ipairs(pools) do
  look('delayed:' .. pool)
  look('run:' .. pool)
end
if ARGV[2] ~= '0' then look('cb') end
return {tickets, callbacks, removals, nextAt - now}
`)

/**
 * ARGV: 2 pool. Returns the numbers of running, waiting and delayed tasks, and the ms since the
 * oldest waiting one became ready, or nothing.
 */
export const COUNTS = script(`${READS}
local running, delayed = base .. 'run:' .. ARGV[2], base .. 'delayed:' .. ARGV[2]
local ready = base .. 'ready:' .. ARGV[2]
local over, due = call('ZCOUNT', running, '-inf', now), call('ZCOUNT', delayed, '-inf', now)
local first = call('ZRANGE', ready, 0, 0, 'WITHSCORES')[2]
local since = first and now - math.floor(first / 1000)
if due > 0 then
  local at = call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
  since = math.max(since or 0, now - at)
end
return {call('ZCARD', running) - over, call('ZCARD', ready) + over + due,
  call('ZCARD', delayed) - due, since}
`)

/**
 * Reads a page by merging the lists of its kinds and names. ARGV: 2 `all`, or `=` and
 * the owner, 3 and 4 first and last time of creation in the order of the page, 5 `REV` for the
 * newest first, 6 limit, 7 and 8 time of creation and id of the last task of the page before, or
 * empty, 9 letters of the kinds, 10 and so on names, none for all names. Returns {tasks, tickets}.
 */
export const PAGE = script(`${CHANGES}
local _, scope, first, last, order, limit, after, afterId, kinds = unpack(ARGV)
local isNewest, owner = order == 'REV', scope ~= 'all' and '\\n' .. string.sub(scope, 2)
local range = isNewest and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE'
limit, after = tonumber(limit), tonumber(after)

-- Tasks whose time has come, or is over, and which no process has found yet.
retireExpired(500)
for _, pool in ipairs(call('HKEYS', base .. 'pools')) do
  local set = base .. 'delayed:' .. pool
  for _, id in ipairs(call('ZRANGEBYSCORE', set, '-inf', now, 'LIMIT', 0, 500)) do
    local t = load(id)
    if t and t.m[KIND] == 's' then
      list(t, 'q')
      save(t)
    end
  end
end

-- Lua compares texts by the locale of the server.
local function isBelow(one, other)
  for at = 1, math.min(#one, #other) do
    local a, b = string.byte(one, at), string.byte(other, at)
    if a ~= b then return a < b end
  end
  return #one < #other
end
local function isBefore(score, id, otherScore, otherId)
  if score ~= otherScore then return (score > otherScore) == isNewest end
  if id == otherId then return false end
  return isBelow(id, otherId) ~= isNewest
end

local names, sources = {unpack(ARGV, 10)}, {}
if #names == 0 then names = call('SMEMBERS', base .. 'names') end
local step = math.max(8, math.ceil(2 * limit / math.max(1, #names * #kinds)))

-- Moves to the next task of a list. Reads more of the list when that is needed.
local function advance(source)
  repeat
    source.at = source.at + 2
    if source.at > #source.part then
      if source.isLast then
        source.id = nil
        return
      end
      source.part = call(range, source.key, first, last, 'WITHSCORES', 'LIMIT', source.offset, step)
      source.offset = source.offset + step
      source.isLast = #source.part < 2 * step
      source.at = 1
    end
    source.id = source.part[source.at]
    source.score = tonumber(source.part[source.at + 1])
  until not source.id or not after or isBefore(after, afterId, source.score, source.id)
end

for _, name in ipairs(names) do
  for kind in string.gmatch(kinds, '%a') do
    local key = (owner and 'lo:' or 'la:') .. kind .. ':' .. name .. (owner or '')
    local source = {key = base .. key, part = {}, at = 1, offset = 0}
    advance(source)
    if source.id then sources[#sources + 1] = source end
  end
end

local page, missing = {}, {}
while #page < limit do
  local best
  for _, source in ipairs(sources) do
    if source.id and (not best or isBefore(source.score, source.id, best.score, best.id)) then
      best = source
    end
  end
  if not best then break end
  local found = reply(best.id)
  if not found[2] then missing[#missing + 1] = {best.key, best.id}
  elseif cjson.decode(found[2])[EXPIRES] > now then page[#page + 1] = found end
  advance(best)
end
for _, entry in ipairs(missing) do call('ZREM', entry[1], entry[2]) end
return {page, tickets}
`)
