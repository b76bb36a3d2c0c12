import { script } from './client.js'
import { CHANGES, READS } from './lua.js'

/* Scripts of processes that work, and of lists. Their results are as in task-scripts.ts. */

/**
 * Begins a run if the task is still ready. ARGV: 1 pool, 2 id, 3 a name of this call, 4 lease in ms,
 * 5 worker. Result: task or nothing, number of ready tasks of the pool, input, checkpoint.
 */
export const BEGIN = script(`${CHANGES}
local pool, id, nonce, leaseMs, worker = unpack(ARGV)
local t = live(id)
if not t then return done(false) end
local runs = base .. 'run:' .. t[PLACE_POOL]
-- A worker sends a begin again if its reply was lost.
local isRepeated = t[TAKEN_BY] == nonce and t[STATUS] == 'processing' and call('ZSCORE', runs, id)
if not isRepeated then
  if t[PLACE_POOL] ~= pool or not endReady(t) then return done(false) end
  t[RUN_STARTED_BEFORE] = -1
  if t[STATUS] == 'processing' then
    stopRun(t)
    t[RUN_STARTED_BEFORE] = t[RUN_STARTED]
    t[CRASHES] = t[CRASHES] + 1
  end
  t[STATUS], t[TAKEN_BY], t[WORKER], t[RUN_STARTED] = 'processing', nonce, worker, now
  t[RUN], t[ATTEMPT], t[VERSION] = t[RUN] + 1, t[ATTEMPT] + 1, t[VERSION] + 1
  if t[STARTED] == 0 then t[STARTED] = now end
  list(t, 'processing')
  save(t)
  call('ZADD', runs, now + leaseMs, id)
  notify(t)
end
wake(now + leaseMs)
local input, checkpoint = unpack(call('HMGET', base .. 'h:' .. id, 'input', 'checkpoint'))
return done(reply(id), call('ZCARD', base .. 'ready:' .. pool), input, checkpoint)
`)

/**
 * Renews leases that have not ended. ARGV: 1 lease in ms, 2 runs as JSON: id, birth and number.
 * Returns 1 for each run whose lease was renewed, and 0 for each that is lost.
 */
export const RENEW = script(`${READS}
local renewals = {}
for n, run in ipairs(cjson.decode(ARGV[2])) do
  local t = load(run.id)
  local set = t and base .. 'run:' .. t[PLACE_POOL]
  local isOwn = t and t[BIRTH] == run.birth and t[RUN] == run.run
  local ends = isOwn and call('ZSCORE', set, run.id)
  renewals[n] = ends and tonumber(ends) > now and 1 or 0
  if renewals[n] == 1 then call('ZADD', set, now + ARGV[1], run.id) end
end
return renewals
`)

/**
 * Finds what is due. ARGV: 1 maximum number of callbacks, 2 maximum number of files to remove, 3
 * maximum number of everything else, 4 time after which a callback is due again, and files are removed
 * again, in ms, then pairs of a pool of this process and its places. Result: callbacks, tasks whose
 * files are to be removed.
 */
export const DUE = script(`${CHANGES}
local callbacksMax, removalsMax, most, again = unpack(ARGV, 1, 4)
callbacksMax, removalsMax, most = tonumber(callbacksMax), tonumber(removalsMax), tonumber(most)
for at = 5, #ARGV, 2 do
  if call('HGET', base .. 'pools', ARGV[at]) ~= ARGV[at + 1] then
    call('HSET', base .. 'pools', ARGV[at], ARGV[at + 1])
  end
end
each('exp', most, retire)
local pools = call('HKEYS', base .. 'pools')
for _, pool in ipairs(pools) do
  each('delayed:' .. pool, most, endDelay)
  each('run:' .. pool, most, function(t)
    call('ZREM', base .. 'run:' .. pool, t[ID])
    makeReady(t)
  end)
end
each('tk', most, function(t)
  local since = call('ZSCORE', base .. 'ready:' .. t[PLACE_POOL], t[ID])
  -- Again when it has waited for twice the time.
  local age = now - math.floor(since / 1000)
  call('ZADD', base .. 'tk', now + math.min(math.max(age, 1000), 30000), t[ID])
  tell(t)
end)

local callbacks, removals = {}, {}
each('cb', callbacksMax, function(t)
  if not FINAL[t[STATUS]] then return call('ZREM', base .. 'cb', t[ID]) end
  t[CALLBACK_RUN], t[CALLBACK_AT] = t[CALLBACK_RUN] + 1, now + again
  call('ZADD', base .. 'cb', t[CALLBACK_AT], t[ID])
  save(t)
  callbacks[#callbacks + 1] = reply(t[ID])
end)
each('gone', removalsMax, function(t)
  local row = t[ID] .. '~' .. t[BIRTH]
  call('ZADD', base .. 'gone', now + again, row)
  removals[#removals + 1] = reply(row)
end)

local function look(set)
  local at = call('ZRANGE', base .. set, 0, 0, 'WITHSCORES')[2]
  if at then wake(tonumber(at)) end
end
for _, pool in ipairs(pools) do
  look('delayed:' .. pool)
  look('run:' .. pool)
end
if callbacksMax > 0 then look('cb') end
return {#tickets > 0 and tickets, due and due - now, callbacks, removals}
`)

/**
 * ARGV: 1 pool. Returns the numbers of running, waiting and delayed tasks, and the ms since the
 * oldest waiting one became ready, or nothing.
 */
export const COUNTS = script(`${READS}
local running, delayed = base .. 'run:' .. ARGV[1], base .. 'delayed:' .. ARGV[1]
local ready = base .. 'ready:' .. ARGV[1]
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

/** Reads a page by merging the lists of its kinds and names. ARGV: 1 the query as JSON. */
export const PAGE = script(`${CHANGES}
local q = cjson.decode(ARGV[1])
local isNewest, after, owner = q.isNewest, q.after, q.owner and '\\n' .. q.owner or ''
local first, last = q.from or '-inf', q.to and '(' .. q.to or '+inf'
if after and not isNewest then first = math.max(q.from or 0, after.createdAt)
elseif after and after.createdAt < (q.to or math.huge) then last = after.createdAt end
if isNewest then first, last = last, first end
local range = isNewest and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE'

-- Tasks whose time has come, or is over, and which no process has found yet.
each('exp', 500, retire)
for _, pool in ipairs(call('HKEYS', base .. 'pools')) do each('delayed:' .. pool, 500, endDelay) end

local function isBefore(one, other)
  if one.createdAt ~= other.createdAt then return (one.createdAt > other.createdAt) == isNewest end
  -- Lua compares texts by the locale of the server.
  for at = 1, math.min(#one.id, #other.id) do
    local a, b = string.byte(one.id, at), string.byte(other.id, at)
    if a ~= b then return (a > b) == isNewest end
  end
  return #one.id ~= #other.id and (#one.id > #other.id) == isNewest
end

-- Moves to the next task of a list.
local function advance(list)
  repeat
    local found = call(range, list.key, first, last, 'WITHSCORES', 'LIMIT', list.offset, 1)
    list.offset, list.id, list.createdAt = list.offset + 1, found[1], tonumber(found[2])
  until not list.id or not after or isBefore(after, list)
end

local lists, page = {}, {}
for _, name in ipairs(q.names or call('SMEMBERS', base .. 'names')) do
  for _, kind in ipairs(q.kinds) do
    lists[#lists + 1] = {key = base .. 'l:' .. kind .. ':' .. name .. owner, offset = 0}
    advance(lists[#lists])
  end
end
while #page < q.limit do
  local best
  for _, list in ipairs(lists) do
    if list.id and (not best or isBefore(list, best)) then best = list end
  end
  if not best then break end
  local t = load(best.id)
  if t and t[EXPIRES] > now then page[#page + 1] = reply(best.id) end
  advance(best)
end
return done(page)
`)
