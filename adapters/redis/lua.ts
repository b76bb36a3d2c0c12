/*
 * Parts of the scripts of the task engine. KEYS[1] is the start of all keys of one namespace, which
 * have one hash tag, so every script is safe in a Cluster. Without the key prefix of the client it is
 * also the start of the names of channels. Time is that of Redis, in milliseconds.
 *
 * - h:{id}: hash of a task: input, details, result, checkpoint, and m, a JSON array of the rest, in the
 *   order of `FIELDS`. h:{id}~{birth}: a task that is gone and has files.
 * - keys: hash of idempotency keys to ids. n: hash of numbers of unfinished tasks by group, line
 *   feed and caller.
 * - exp: ids by expiry. No key has an expiry in Redis, because a row that Redis removes would stay in
 *   the lists and in the share of its caller.
 * - gone: rows `{id}~{birth}` by the next attempt to remove their files.
 * - cb: ids by the time of the next attempt at the callback.
 * - delayed:{pool}: ids by due time. run:{pool}: ids by the end of the lease.
 * - ready:{pool}: ids of tasks that may begin, by the microsecond in which they became ready. A task
 *   whose lease has ended is here too. Only a task in this set can begin.
 * - tk: ids of ready tasks that have a ticket in BullMQ, by the time at which it is added again.
 * - g: hash of the number of tickets by group: pool, priority and caller.
 * - w:{group}: ids of ready tasks without a ticket.
 * - pools: hash of pools to the maximum number of tickets of one group.
 * - s:{caller}: ids of final tasks by the time of their end. sb: hash of their bytes by caller.
 *   f:{caller} and fb: the same for tasks with files.
 * - l:{kind}:{name} and l:{kind}:{name}\n{owner}: ids by creation. The kind is the status in lists.
 *   names: set of names.
 */

/** Elements of `m`. Absent strings are '', absent times are 0. rows.ts has the same order. */
const FIELDS = [
  'ID', 'BIRTH', 'KEY', 'OWNER', 'CALLER', 'NAME', 'STATUS', 'VERSION', 'RUN', 'ATTEMPT', 'CRASHES',
  'PRIORITY', 'CREATED', 'START', 'STARTED', 'RUN_STARTED', 'FINISHED', 'EXPIRES', 'CALLBACK_RUN',
  'CALLBACK_AT', 'POOL', 'RUN_STARTED_BEFORE', 'NONCE', 'WORKER', 'TAKEN_BY', 'FILES', 'FILE_BYTES',
  'BYTES', 'KIND', 'PLACE_POOL', 'COUNTED',
]

/** Beginning of each script: time, and reading and writing a task. */
export const READS = `
local ${FIELDS.join(', ')} = ${FIELDS.map((_, n) => String(n + 1)).join(', ')}
local FINAL = {completed = true, failed = true, cancelled = true}
local base, call = KEYS[1], redis.call
local clock = call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)

local function load(row)
  local m = call('HGET', base .. 'h:' .. row, 'm')
  return m and cjson.decode(m)
end

local function save(t)
  call('HSET', base .. 'h:' .. t[ID], 'm', cjson.encode(t))
end

local function reply(row)
  return call('HMGET', base .. 'h:' .. row, 'm', 'details', 'result')
end
`

/** Lists, and what is due. */
const PLACES = `
local channel = string.match(base, '.*({.*)')
-- Tickets to add, and the time at which workers have to look for what is due.
local tickets, due = {}, false

local function wake(at)
  if not due or at < due then due = at end
end

local function done(...)
  if due and due <= now then call('PUBLISH', channel .. 'due', '') end
  return {#tickets > 0 and tickets, due and due - now, ...}
end

-- Calls act with the tasks of a sorted set whose time has come.
local function each(set, limit, act)
  local rows = call('ZRANGEBYSCORE', base .. set, '-inf', now, 'LIMIT', 0, limit)
  for _, row in ipairs(rows) do
    local t = load(row)
    if t then act(t) else call('ZREM', base .. set, row) end
  end
  if #rows > 0 and #rows == limit then wake(now) end
end

-- Adds to a number in a hash. 0 is not kept.
local function add(hash, field, by)
  local sum = call('HINCRBY', base .. hash, field, by)
  if sum <= 0 then call('HDEL', base .. hash, field) end
  return sum
end

local function list(t, kind)
  local old = t[KIND]
  if old == kind then return end
  for _, name in ipairs({t[NAME], t[NAME] .. '\\n' .. t[OWNER]}) do
    if old ~= '' then call('ZREM', base .. 'l:' .. old .. ':' .. name, t[ID]) end
    if kind ~= '' then call('ZADD', base .. 'l:' .. kind .. ':' .. name, t[CREATED], t[ID]) end
  end
  t[KIND] = kind
end

local function groupOf(t)
  return t[PLACE_POOL] .. '\\n' .. t[PRIORITY] .. '\\n' .. t[CALLER]
end

local function mostOf(pool)
  local most = call('HGET', base .. 'pools', pool)
  if not most then call('HSET', base .. 'pools', pool, 1) end
  return tonumber(most or 1)
end

local function tell(t)
  tickets[#tickets + 1] = {t[PLACE_POOL], t[PRIORITY], t[NAME], t[ID], t[RUN] + 1, t[BIRTH]}
end

local function addTicket(t, group)
  call('HINCRBY', base .. 'g', group, 1)
  call('ZADD', base .. 'tk', now + 1000, t[ID])
  tell(t)
end

local function makeReady(t)
  local group, pool = groupOf(t), t[PLACE_POOL]
  call('ZADD', base .. 'ready:' .. pool, micros, t[ID])
  if tonumber(call('HGET', base .. 'g', group) or 0) < mostOf(pool) then
    addTicket(t, group)
  else
    call('ZADD', base .. 'w:' .. group, micros, t[ID])
  end
  micros = micros + 1
end

-- Returns whether the task was ready. The next ones of its group get its ticket.
local function endReady(t)
  local group, pool = groupOf(t), t[PLACE_POOL]
  if call('ZREM', base .. 'ready:' .. pool, t[ID]) == 0 then return false end
  if call('ZREM', base .. 'tk', t[ID]) == 0 then
    call('ZREM', base .. 'w:' .. group, t[ID])
    return true
  end
  local count = add('g', group, -1)
  while count < mostOf(pool) do
    local next = call('ZPOPMIN', base .. 'w:' .. group)[1]
    local other = next and load(next)
    if not other then break end
    addTicket(other, group)
    count = count + 1
  end
  return true
end

local function schedule(t, at)
  t[PLACE_POOL] = t[POOL]
  if at <= now then return makeReady(t) end
  mostOf(t[POOL])
  call('ZADD', base .. 'delayed:' .. t[POOL], at, t[ID])
  wake(at)
end

local function endDelay(t)
  call('ZREM', base .. 'delayed:' .. t[PLACE_POOL], t[ID])
  makeReady(t)
  list(t, 'queued')
  save(t)
end

local function stopRun(t)
  call('PUBLISH', channel .. 'k:' .. t[WORKER], '')
end

-- Ends the wait of a task, or its run.
local function unschedule(t, isOwn)
  local isRunning = t[STATUS] == 'processing'
  local set = base .. (isRunning and 'run:' or 'delayed:') .. t[PLACE_POOL]
  if call('ZREM', set, t[ID]) == 0 then endReady(t) end
  if isRunning and not isOwn then stopRun(t) end
end
`

/** Limits and shares of callers, and the end of a task. */
const CALLERS = `
local function count(t, by)
  if t[COUNTED] ~= '' then add('n', t[COUNTED], by) end
end

local function notify(t)
  call('PUBLISH', channel .. 'w:' .. t[ID], '')
end

local function unshare(t, kind, field)
  if call('ZREM', base .. kind .. ':' .. t[CALLER], t[ID]) == 0 then return end
  add(kind .. 'b', t[CALLER], -t[field])
end

-- Takes a task out of everything. Its row stays under another name if it has files.
local function retire(t)
  local id, h = t[ID], base .. 'h:' .. t[ID]
  if FINAL[t[STATUS]] then
    unshare(t, 's', BYTES)
    unshare(t, 'f', FILE_BYTES)
  else
    unschedule(t)
    count(t, -1)
  end
  list(t, '')
  call('ZREM', base .. 'exp', id)
  call('ZREM', base .. 'cb', id)
  call('HDEL', base .. 'keys', t[KEY])
  if t[FILES] == 1 then
    local row = id .. '~' .. t[BIRTH]
    call('RENAME', h, base .. 'h:' .. row)
    call('ZADD', base .. 'gone', now, row)
    wake(now)
  else
    call('UNLINK', h)
  end
  notify(t)
end

local function live(id)
  local t = load(id)
  if t and t[EXPIRES] > now then return t end
  if t then retire(t) end
  return nil
end

-- Returns the name of the count of a caller and a limit, or nothing if the caller is full.
-- Unfinished tasks that have expired do not count.
local function placeOf(caller, limit)
  if caller == '' or not limit then return '' end
  local field = limit.group .. '\\n' .. caller
  for _ = 1, 2 do
    if tonumber(call('HGET', base .. 'n', field) or 0) < limit.max then return field end
    each('exp', 200, retire)
  end
  return nil
end

-- Counts what a final task keeps for its caller, who loses the oldest such tasks above the maximum.
local function share(t, kind, field, bytes, maxTasks, maxBytes)
  if t[CALLER] == '' or bytes == 0 then return end
  local set, sums = base .. kind .. ':' .. t[CALLER], kind .. 'b'
  local isNew = call('ZADD', set, 'NX', micros, t[ID]) == 1
  add(sums, t[CALLER], isNew and bytes or bytes - t[field])
  t[field] = bytes
  for _ = 1, 100 do
    local sum = tonumber(call('HGET', base .. sums, t[CALLER]) or 0)
    if sum <= maxBytes and call('ZCARD', set) <= maxTasks then return end
    local first = call('ZRANGE', set, 0, 0)[1]
    if first == t[ID] then return end
    local other = load(first)
    if other then retire(other) else call('ZREM', set, first) end
  end
end
`

/** Beginning of the scripts that change tasks. */
export const CHANGES = READS + PLACES + CALLERS
