/*
 * Parts of the scripts of the task engine. KEYS[1] is the start of all keys of one namespace, which
 * have one hash tag, so every script is safe in a Cluster. Time is that of Redis, in milliseconds.
 *
 * - h:{id}: hash of a task: birth, key, owner, caller, name, input, details, result, checkpoint, and
 *   m, a JSON array of what changes (see `M`). h:{id}~{birth}: a task that is gone and has files.
 * - keys: hash of idempotency keys to ids. n: hash of numbers of unfinished tasks by group, line
 *   feed and caller.
 * - exp: ids by expiry. No key has an expiry in Redis, because a row that Redis removes would stay in
 *   the lists and in the share of its caller.
 * - gone: rows `{id}~{birth}` by the next attempt to remove their files.
 * - cb: ids by the time of the next attempt at the callback.
 * - delayed:{pool}: ids by due time. run:{pool}: `{id}\n{birth}\n{run}` by the end of the lease.
 * - ready:{pool}: ids of tasks that may begin, by the microsecond in which they became ready. A task
 *   whose lease has ended is here too. Only a task in this set can begin.
 * - tk: ids of ready tasks that have a ticket in BullMQ, by the time at which it is added again.
 * - g: hash of the number of tickets by group: pool, priority and caller.
 * - w:{group}: ids of ready tasks without a ticket.
 * - pools: hash of pools to the maximum number of tickets of one group.
 * - s:{caller}: ids of final tasks by the time of their end. sb: hash of their bytes by caller.
 * - la:{kind}:{name} and lo:{kind}:{name}\n{owner}: ids by creation. names: set of names.
 */

/** Beginning of every script: time, and reading and writing a task. */
const CORE = `
local base, call = KEYS[1], redis.call
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local micros = clock[1] * 1000000 + clock[2]
local STATUS, VERSION, RUN, ATTEMPT, CRASHES, PRIORITY, CREATED = 1, 2, 3, 4, 5, 6, 7
local START, STARTED, RUN_STARTED, FINISHED, EXPIRES = 8, 9, 10, 11, 12
local CALLBACK_RUN, CALLBACK_AT, POOL, NONCE, WORKER = 13, 14, 15, 16, 17
local TAKEN_BY, FILES, FILE_BYTES, BYTES, KIND = 18, 19, 20, 21, 22
local PLACE_POOL, RUN_STARTED_BEFORE, COUNTED = 23, 24, 25
local FINAL = {completed = 'c', failed = 'f', cancelled = 'x'}

local function load(row)
  local v = call('HMGET', base .. 'h:' .. row, 'm', 'birth', 'key', 'owner', 'caller', 'name')
  if not v[1] then return nil end
  return {row = row, m = cjson.decode(v[1]), birth = v[2], key = v[3], owner = v[4],
    caller = v[5], name = v[6]}
end

local function save(t)
  call('HSET', base .. 'h:' .. t.row, 'm', cjson.encode(t.m))
end

local function reply(row)
  return {row, unpack(call('HMGET', base .. 'h:' .. row,
    'm', 'birth', 'key', 'owner', 'caller', 'name', 'details', 'result'))}
end
`

/** Lists, and what is due. Tickets that are to be added are left in `tickets`. */
const PLACES = `
local tickets = {}

local function list(t, kind)
  local old = t.m[KIND]
  if old == kind then return end
  local own = t.name .. '\\n' .. (t.owner or '')
  if old ~= '' then
    call('ZREM', base .. 'la:' .. old .. ':' .. t.name, t.row)
    call('ZREM', base .. 'lo:' .. old .. ':' .. own, t.row)
  end
  if kind ~= '' then
    call('ZADD', base .. 'la:' .. kind .. ':' .. t.name, t.m[CREATED], t.row)
    call('ZADD', base .. 'lo:' .. kind .. ':' .. own, t.m[CREATED], t.row)
  end
  t.m[KIND] = kind
end

local function groupOf(t)
  return t.m[PLACE_POOL] .. '\\n' .. t.m[PRIORITY] .. '\\n' .. (t.caller or '')
end

local function mostOf(pool)
  local most = call('HGET', base .. 'pools', pool)
  if not most then call('HSET', base .. 'pools', pool, 1) end
  return tonumber(most or 1)
end

local function tell(t)
  tickets[#tickets + 1] = {t.m[PLACE_POOL], t.m[PRIORITY], t.name, t.row, t.m[RUN] + 1, t.birth}
end

local function addTicket(t, group)
  call('HINCRBY', base .. 'g', group, 1)
  call('ZADD', base .. 'tk', now + 1000, t.row)
  tell(t)
end

local function makeReady(t)
  local group = groupOf(t)
  call('ZADD', base .. 'ready:' .. t.m[PLACE_POOL], micros, t.row)
  if tonumber(call('HGET', base .. 'g', group) or 0) < mostOf(t.m[PLACE_POOL]) then
    addTicket(t, group)
  else
    call('ZADD', base .. 'w:' .. group, micros, t.row)
  end
  micros = micros + 1
end

local function endReady(t)
  if call('ZREM', base .. 'ready:' .. t.m[PLACE_POOL], t.row) == 0 then return false end
  local group = groupOf(t)
  if call('ZREM', base .. 'tk', t.row) == 0 then
    call('ZREM', base .. 'w:' .. group, t.row)
    return true
  end
  local count = call('HINCRBY', base .. 'g', group, -1)
  local most = mostOf(t.m[PLACE_POOL])
  while count < most do
    local next = call('ZPOPMIN', base .. 'w:' .. group)[1]
    if not next then break end
    local other = load(next)
    if other then
      addTicket(other, group)
      count = count + 1
    end
  end
  if count <= 0 then call('HDEL', base .. 'g', group) end
  return true
end

local function schedule(t, at)
  t.m[PLACE_POOL] = t.m[POOL]
  if at > now then
    mostOf(t.m[POOL])
    call('ZADD', base .. 'delayed:' .. t.m[POOL], at, t.row)
  else
    makeReady(t)
  end
end

local function memberOf(t)
  return t.row .. '\\n' .. t.birth .. '\\n' .. t.m[RUN]
end

local function unschedule(t)
  local m, gone = t.m, 0
  if m[STATUS] == 'processing' then
    gone = call('ZREM', base .. 'run:' .. m[PLACE_POOL], memberOf(t))
  else
    gone = call('ZREM', base .. 'delayed:' .. m[PLACE_POOL], t.row)
  end
  if gone == 0 then endReady(t) end
end
`

/** Limits and shares of callers, and the end of a task. */
const CALLERS = `
local channel = ARGV[1]

local function count(t, by)
  local field = t.m[COUNTED]
  if field == '' then return end
  if call('HINCRBY', base .. 'n', field, by) <= 0 then call('HDEL', base .. 'n', field) end
end

local function notify(t)
  call('PUBLISH', channel .. 'w:' .. t.row, '')
end

local function stopRun(t)
  if t.m[WORKER] ~= '' then call('PUBLISH', channel .. 'k:' .. t.m[WORKER], '') end
end

local function unshareFiles(t)
  local set = base .. 'f:' .. (t.caller or '')
  if call('ZREM', set, t.row) == 0 then return end
  call('HINCRBY', base .. 'fb', t.caller, -t.m[FILE_BYTES])
  if call('EXISTS', set) == 0 then call('HDEL', base .. 'fb', t.caller) end
end

local function unshare(t)
  if not t.caller then return end
  unshareFiles(t)
  local set = base .. 's:' .. t.caller
  if call('ZREM', set, t.row) == 0 then return end
  call('HINCRBY', base .. 'sb', t.caller, -t.m[BYTES])
  if call('EXISTS', set) == 0 then call('HDEL', base .. 'sb', t.caller) end
end

-- Takes a task out of everything. Its row stays under another name if it has files.
local function retire(t)
  local m, h = t.m, base .. 'h:' .. t.row
  if FINAL[m[STATUS]] then
    unshare(t)
  else
    unschedule(t)
    count(t, -1)
    if m[STATUS] == 'processing' then stopRun(t) end
  end
  list(t, '')
  call('ZREM', base .. 'exp', t.row)
  if m[CALLBACK_AT] > 0 then call('ZREM', base .. 'cb', t.row) end
  if t.key and call('HGET', base .. 'keys', t.key) == t.row then
    call('HDEL', base .. 'keys', t.key)
  end
  if m[FILES] == 1 then
    local row = t.row .. '~' .. t.birth
    call('RENAME', h, base .. 'h:' .. row)
    call('ZADD', base .. 'gone', now, row)
  else
    call('UNLINK', h)
  end
  notify(t)
end

local function live(id)
  local t = load(id)
  if t and t.m[EXPIRES] > now then return t end
  if t then retire(t) end
  return nil
end

local function retireExpired(most)
  local ids = call('ZRANGEBYSCORE', base .. 'exp', '-inf', now, 'LIMIT', 0, most)
  for _, id in ipairs(ids) do
    local t = load(id)
    if t then retire(t) else call('ZREM', base .. 'exp', id) end
  end
  return #ids
end

local function isFull(field, max)
  return field ~= '' and tonumber(call('HGET', base .. 'n', field) or 0) >= tonumber(max)
end

-- Returns the name of the count of a caller and a group, or nothing if the caller is full.
-- Unfinished tasks that have expired do not count.
local function placeOf(caller, group, max)
  local field = caller and max and group .. '\\n' .. caller or ''
  if isFull(field, max) then retireExpired(200) end
  if not isFull(field, max) then return field end
end

local function measure(t)
  local h, bytes = base .. 'h:' .. t.row, 0
  for _, field in ipairs({'input', 'details', 'result', 'checkpoint'}) do
    bytes = bytes + call('HSTRLEN', h, field)
  end
  return bytes
end

-- Counts a final task for its caller, who loses the oldest ones above the share.
local function share(t, mostTasks, mostBytes)
  if not t.caller then return end
  local set, before = base .. 's:' .. t.caller, 0
  if call('ZADD', set, 'NX', micros, t.row) == 0 then before = t.m[BYTES] end
  t.m[BYTES] = measure(t)
  local total = call('HINCRBY', base .. 'sb', t.caller, t.m[BYTES] - before)
  for _ = 1, 100 do
    if call('ZCARD', set) <= mostTasks and total <= mostBytes then return end
    local first = call('ZRANGE', set, 0, 0)[1]
    if first == t.row then return end
    local other = load(first)
    if other then retire(other) else call('ZREM', set, first) end
    total = tonumber(call('HGET', base .. 'sb', t.caller) or 0)
  end
end

-- Counts what a final task keeps elsewhere for its caller, who loses the oldest such tasks.
local function shareFiles(t, mostBytes)
  if not t.caller or t.m[FILE_BYTES] == 0 then return end
  local set = base .. 'f:' .. t.caller
  if call('ZADD', set, 'NX', micros, t.row) == 1 then
    call('HINCRBY', base .. 'fb', t.caller, t.m[FILE_BYTES])
  end
  for _ = 1, 100 do
    if tonumber(call('HGET', base .. 'fb', t.caller) or 0) <= mostBytes then return end
    local first = call('ZRANGE', set, 0, 0)[1]
    if first == t.row then return end
    local other = load(first)
    if other then retire(other) else call('ZREM', set, first) end
  end
end
`

/** Parts of the scripts that read. */
export const READS = CORE
/** Parts of the scripts that change or remove whole tasks. */
export const CHANGES = CORE + PLACES + CALLERS
