import { DELAYS, READS, TICKETS, taskScript } from './lua.js'

/* Scripts of processes that work, and of lists. Their results are as in task-scripts.ts. */

/**
 * Begins a run if the task is still ready. ARGV: 1 in lines: id, worker and call with a full stop
 * between them (the same if the call is sent again), lease in ms, pool. Result: task or nothing, number
 * of ready tasks of the pool, start of the run that crashed or -1, input, checkpoint.
 */
export const BEGIN = taskScript(`${TICKETS}
local id, nonce, leaseMs, pool = string.match(ARGV[1], '^([^\\n]*)\\n([^\\n]*)\\n([^\\n]*)\\n(.*)$')
local h = base .. 'h:' .. id
local m, details, result, input, checkpoint = unpack(
  call('HMGET', h, 'm', 'details', 'result', 'input', 'checkpoint'))
local t = m and cjson.decode(m)
if not t or t[EXPIRES] <= now then return done(false) end
local runs = base .. 'run:' .. t[PLACE_POOL]
local ends = t[TAKEN_BY] == nonce and t[STATUS] == 'processing' and call('ZSCORE', runs, id)
if not ends or ends == 'inf' then
  if t[PLACE_POOL] ~= pool or not endReady(t) then return done(false) end
  t[RUN_STARTED_BEFORE] = -1
  if t[STATUS] == 'processing' then
    stop(t)
    t[RUN_STARTED_BEFORE] = t[RUN_STARTED]
    t[CRASHES] = t[CRASHES] + 1
  end
  t[STATUS], t[TAKEN_BY], t[RUN_STARTED] = 'processing', nonce, now
  t[RUN], t[ATTEMPT], t[VERSION] = t[RUN] + 1, t[ATTEMPT] + 1, t[VERSION] + 1
  if t[STARTED] == 0 then t[STARTED] = now end
  m = cjson.encode(t)
  call('HSET', h, 'm', m)
  call('ZADD', runs, now + leaseMs, id)
  call('PUBLISH', channel .. 'w:' .. id, '')
end
wake(now + leaseMs)
return done({m, details, result}, call('ZCARD', base .. 'ready:' .. pool), t[RUN_STARTED_BEFORE], input,
  checkpoint)
`)

/**
 * Renews leases that have not ended. ARGV: 1 lease in ms, 2 runs as JSON: id, birth and number.
 * Returns an outcome for each run.
 */
export const RENEW = taskScript(`${READS}
local renewals = {}
for n, run in ipairs(cjson.decode(ARGV[2])) do
  local t = load(run.id)
  local set = t and base .. 'run:' .. t[PLACE_POOL]
  local isOwn = t and t[BIRTH] == run.birth and t[RUN] == run.run
  local ends = isOwn and call('ZSCORE', set, run.id)
  local isRenewed = ends and ends ~= 'inf' and tonumber(ends) > now
  if isRenewed then call('ZADD', set, now + ARGV[1], run.id) end
  renewals[n] = isRenewed and 'renewed' or 'lost'
end
return renewals
`)

/**
 * Finds what is due: 200 tasks of one kind at most. Removes expired tasks first, and writes nothing that
 * is known, because a full server allows only scripts that begin with a removal. A ticket is added again
 * when its task has waited for twice the time, a callback and a removal after a minute. ARGV: 1 maximum
 * number of callbacks, 2 of removals, then pairs of a pool of this process and its places. Result:
 * callbacks, tasks whose files are to be removed.
 */
export const DUE = taskScript(`${DELAYS}
local again = now + 60000
endDelays()
for at = 3, #ARGV, 2 do
  local field = 'p' .. ARGV[at]
  if call('HGET', base .. 'defs', field) ~= ARGV[at + 1] then
    call('HSET', base .. 'defs', field, ARGV[at + 1])
  end
end
for _, pool in ipairs(pools) do
  each('run:' .. pool, 200, function(t)
    call('ZADD', base .. 'run:' .. pool, '+inf', t[ID])
    makeReady(t)
  end)
end
each('tk', 200, function(t)
  local since = call('ZSCORE', base .. 'ready:' .. t[PLACE_POOL], t[ID])
  addTicket(t, math.min(math.max(now - math.floor(since / 1000), 1000), 30000))
end)

local callbacks, removals = {}, {}
each('cb', tonumber(ARGV[1]), function(t)
  if not FINAL[t[STATUS]] then return call('ZREM', base .. 'cb', t[ID]) end
  t[CALLBACK_RUN], t[CALLBACK_AT] = t[CALLBACK_RUN] + 1, again
  call('ZADD', base .. 'cb', t[CALLBACK_AT], t[ID])
  call('HSET', base .. 'h:' .. t[ID], 'm', cjson.encode(t))
  callbacks[#callbacks + 1] = reply(t[ID])
end)
each('gone', tonumber(ARGV[2]), function(t)
  local row = t[ID] .. '~' .. t[BIRTH]
  call('ZADD', base .. 'gone', again, row)
  removals[#removals + 1] = reply(row)
end)

local function look(set)
  local at = call('ZRANGE', base .. set, 0, 0, 'WITHSCORES')[2]
  if at and at ~= 'inf' then wake(tonumber(at)) end
end
for _, pool in ipairs(pools) do
  look('delayed:' .. pool)
  look('run:' .. pool)
end
if ARGV[1] ~= '0' then look('cb') end
return {#tickets > 0 and tickets, due and due - now, callbacks, removals}
`)

/** ARGV: 1 pool. Returns the numbers of running, waiting and delayed tasks, and the oldest wait in ms. */
export const COUNTS = taskScript(`${READS}
local running, delayed = base .. 'run:' .. ARGV[1], base .. 'delayed:' .. ARGV[1]
local ready = base .. 'ready:' .. ARGV[1]
local over, due = call('ZCOUNT', running, '-inf', now), call('ZCOUNT', delayed, '-inf', now)
local first = call('ZRANGE', ready, 0, 0, 'WITHSCORES')[2]
local since = first and now - math.floor(first / 1000)
if due > 0 then since = math.max(since or 0, now - call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]) end
return {call('ZCOUNT', running, '(' .. now, '(+inf'), call('ZCARD', ready) + over + due,
  call('ZCARD', delayed) - due, since}
`)

/**
 * Reads a page by merging the lists of its kinds and names, or the sets of running tasks. `isBefore`
 * compares bytes, because Lua compares strings by the locale of the server. ARGV: 1 the query as JSON.
 */
export const PAGE = taskScript(`${DELAYS}
local q = cjson.decode(ARGV[1])
local isNewest, after, owner = q.isNewest, q.after, q.owner and '\\n' .. q.owner or ''
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
    lists[#lists + 1] = {key = base .. 'l:' .. kind .. ':' .. name .. owner, offset = 0}
  end
end

local function isListed(t)
  return t and t[EXPIRES] > now and isWanted[t[STATUS] == 'queued' and t[KIND] or t[STATUS]]
    and isWanted['n' .. t[NAME]] and (not q.owner or t[OWNER] == q.owner)
    and t[CREATED] >= (q.from or 0) and t[CREATED] < (q.to or math.huge)
end

if isWanted.processing and not isWanted.queued then
  for _, pool in ipairs(pools) do
    for _, id in ipairs(call('ZRANGE', base .. 'run:' .. pool, 0, -1)) do
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
