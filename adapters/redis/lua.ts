import { script, type Script } from './client.js'

/*
 * Parts of the scripts of the task engine. KEYS[1] is the start of all keys of one namespace, which
 * have one hash tag, so every script is safe in a Cluster. Without the key prefix of the client it is
 * also the start of the names of channels. Time is that of Redis, in milliseconds.
 *
 * - h:{id}: hash of a task: input, details, result, checkpoint, and m, a JSON array of the rest, in the
 *   order of `FIELDS`. h:{id}~{birth}: a task that is gone and has files.
 * - keys: hash of idempotency keys to ids. n: hash of numbers of unfinished tasks by group, line
 *   feed and caller.
 * - exp: ids by expiry. No key has an expiry in Redis, because its id would stay in the lists.
 * - gone: rows `{id}~{birth}` by the next attempt to remove their files.
 * - cb: ids by the time of the next attempt at the callback.
 * - delayed:{pool}: ids by due time. run:{pool}: ids of tasks that run, by the end of the lease, which
 *   is infinite once a lease has ended.
 * - ready:{pool}: ids of tasks that may begin, by the microsecond in which they became ready, those
 *   whose lease has ended included. Only a task in this set can begin.
 * - tk: ids of ready tasks that have a ticket in BullMQ, by the time at which it is added again.
 * - g: hash of the number of tickets by group: pool, priority and caller.
 * - w:{group}: ids of ready tasks without a ticket.
 * - s:{caller}: ids of final tasks by the time of their end. sb: hash of their bytes by caller.
 *   f:{caller} and fb: the same for tasks with files.
 * - l:{kind}:{name} and l:{kind}:{name}\n{owner}: ids by creation. The kind is the status in lists, and
 *   `queued` for tasks that run: a begin changes no list, and run:{pool} tells what runs.
 * - defs: hash of the names of definitions, after an n, and of pools, after a p, to the maximum number
 *   of tickets of one group of the pool.
 */

/** Elements of `m`. Absent strings are '', absent times are 0. rows.ts has the same order. */
const FIELDS = [
  'ID', 'BIRTH', 'KEY', 'OWNER', 'CALLER', 'NAME', 'STATUS', 'VERSION', 'RUN', 'ATTEMPT', 'CRASHES',
  'PRIORITY', 'CREATED', 'START', 'STARTED', 'RUN_STARTED', 'FINISHED', 'EXPIRES', 'CALLBACK_RUN',
  'CALLBACK_AT', 'POOL', 'RUN_STARTED_BEFORE', 'NONCE', 'TAKEN_BY', 'FILES', 'FILE_BYTES', 'BYTES',
  'KIND', 'PLACE_POOL', 'COUNTED',
]

/** Replaces the names of fields by numbers: as variables they would cost each call some microseconds. */
export function taskScript(source: string): Script {
  const names = new RegExp(`\\b(${FIELDS.join('|')})\\b`, 'g')
  return script(source.replace(names, (name) => String(FIELDS.indexOf(name) + 1)))
}

/** Beginning of each script: time, and reading a task. */
export const READS = `
local base, call = KEYS[1], redis.call
local clock = call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)

local function load(row)
  local m = call('HGET', base .. 'h:' .. row, 'm')
  return m and cjson.decode(m)
end

local function reply(row)
  return call('HMGET', base .. 'h:' .. row, 'm', 'details', 'result')
end
`

/**
 * Ready tasks, and their tickets. `tickets` are those to add, and `due` is the time at which workers
 * have to look for what is due. `add` changes a number in a hash, which does not keep 0. `endReady`
 * returns whether the task was ready; the next tasks of its group get its ticket.
 */
export const TICKETS = `${READS}
local channel = string.match(base, '.*({.*)')
local tickets, due = {}, false

local function wake(at)
  if not due or at < due then due = at end
end

local function done(...)
  if due and due <= now then call('PUBLISH', channel .. 'due', '') end
  return {#tickets > 0 and tickets, due and due - now, ...}
end

local function add(hash, field, by)
  if field == '' then return end
  if call('HINCRBY', base .. hash, field, by) <= 0 then call('HDEL', base .. hash, field) end
end

local function mostOf(pool)
  return tonumber(call('HGET', base .. 'defs', 'p' .. pool) or 1)
end

local function groupOf(t)
  return t[PLACE_POOL] .. '\\n' .. t[PRIORITY] .. '\\n' .. t[CALLER]
end

local function addTicket(t, delay)
  call('ZADD', base .. 'tk', now + (delay or 1000), t[ID])
  tickets[#tickets + 1] = {t[PLACE_POOL], t[PRIORITY], t[NAME], t[ID], t[RUN] + 1, t[BIRTH]}
end

local function makeReady(t, most)
  local group, pool = groupOf(t), t[PLACE_POOL]
  call('ZADD', base .. 'ready:' .. pool, micros, t[ID])
  if call('HINCRBY', base .. 'g', group, 1) <= (most or mostOf(pool)) then
    addTicket(t)
  else
    call('HINCRBY', base .. 'g', group, -1)
    call('ZADD', base .. 'w:' .. group, micros, t[ID])
  end
  micros = micros + 1
end

local function stop(t)
  call('PUBLISH', channel .. 'k:' .. string.match(t[TAKEN_BY], '^[^.]*'), '')
end

local function endReady(t)
  local group, pool = groupOf(t), t[PLACE_POOL]
  if call('ZREM', base .. 'ready:' .. pool, t[ID]) == 0 then return false end
  local waiting = base .. 'w:' .. group
  if call('ZREM', base .. 'tk', t[ID]) == 0 then
    call('ZREM', waiting, t[ID])
    return true
  end
  local by = -1
  if call('EXISTS', waiting) == 1 then
    local most = math.max(mostOf(pool) - call('HGET', base .. 'g', group) + 1, 0)
    local next = call('ZPOPMIN', waiting, most)
    for at = 1, #next, 2 do
      local other = load(next[at])
      if other then
        addTicket(other)
        by = by + 1
      end
    end
  end
  if by ~= 0 then add('g', group, by) end
  return true
end
`

/**
 * Lists, limits and shares of callers. `unschedule` ends the wait or the run of a task. `retire` removes
 * a task; its row stays under another name if it has files. `each` calls `act` with the tasks of a sorted
 * set whose time has come. `placeOf` returns the name of the count of a caller and a limit, or nothing if
 * the caller is full; unfinished tasks that have expired do not count.
 */
export const CHANGES = `${TICKETS}
local FINAL = {completed = true, failed = true, cancelled = true}

local function list(t, kind)
  local old = t[KIND]
  if old == kind then return end
  for _, name in ipairs({t[NAME], t[NAME] .. '\\n' .. t[OWNER]}) do
    if old ~= '' then call('ZREM', base .. 'l:' .. old .. ':' .. name, t[ID]) end
    if kind ~= '' then call('ZADD', base .. 'l:' .. kind .. ':' .. name, t[CREATED], t[ID]) end
  end
  t[KIND] = kind
end

local function schedule(t, at, most)
  t[PLACE_POOL] = t[POOL]
  if at <= now then return makeReady(t, most) end
  call('HSETNX', base .. 'defs', 'p' .. t[POOL], 1)
  call('ZADD', base .. 'delayed:' .. t[POOL], at, t[ID])
  wake(at)
end

local function unschedule(t, isOwn)
  local isRunning = t[STATUS] == 'processing'
  local set = base .. (isRunning and 'run:' or 'delayed:') .. t[PLACE_POOL]
  if call('ZREM', set, t[ID]) == 0 or isRunning then endReady(t) end
  if isRunning and not isOwn then stop(t) end
end

local function unshare(t, kind, field)
  if t[CALLER] ~= '' and call('ZREM', base .. kind .. ':' .. t[CALLER], t[ID]) == 1 then
    add(kind .. 'b', t[CALLER], -t[field])
  end
end

local function retire(t)
  local id, h = t[ID], base .. 'h:' .. t[ID]
  if FINAL[t[STATUS]] then
    unshare(t, 's', BYTES)
    unshare(t, 'f', FILE_BYTES)
  else
    unschedule(t)
    add('n', t[COUNTED], -1)
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
  call('PUBLISH', channel .. 'w:' .. id, '')
end

local function each(set, limit, act)
  local rows = call('ZRANGEBYSCORE', base .. set, '-inf', now, 'LIMIT', 0, limit)
  for _, row in ipairs(rows) do
    local t = load(row)
    if t then act(t) else call('ZREM', base .. set, row) end
  end
  if #rows > 0 and #rows == limit then wake(now) end
end

local function placeOf(caller, limit)
  if caller == '' or not limit then return '' end
  local field = limit.group .. '\\n' .. caller
  for _ = 1, 2 do
    if tonumber(call('HGET', base .. 'n', field) or 0) < limit.max then return field end
    each('exp', 200, retire)
  end
  return nil
end
`

/** Expiry, and ends of delays. */
export const DELAYS = `${CHANGES}
local pools, names = {}, {}
for _, field in ipairs(call('HKEYS', base .. 'defs')) do
  local set = string.sub(field, 1, 1) == 'p' and pools or names
  set[#set + 1] = string.sub(field, 2)
end

local function endDelays()
  each('exp', 200, retire)
  for _, pool in ipairs(pools) do
    each('delayed:' .. pool, 200, function(t)
      call('ZREM', base .. 'delayed:' .. pool, t[ID])
      makeReady(t)
      list(t, 'queued')
      call('HSET', base .. 'h:' .. t[ID], 'm', cjson.encode(t))
    end)
  end
end
`
