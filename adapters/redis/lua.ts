import { script, type Script } from './client.js'

/*
 * Parts of the scripts of the task engine. KEYS[1] is the start of all keys of one namespace, which
 * have one hash tag. Without the key prefix of the client it is also the start of the names of channels.
 * KEYS[2] never exists, so that a Cluster runs no script while their slot moves: see `Connection.run`.
 * Time is that of Redis, in milliseconds.
 *
 * - h:{id}: hash of a task: input, details, result, checkpoint, and m, a JSON array of the rest, in the
 *   order of `FIELDS`. h:{id}~{birth}: a task that is gone and has files.
 * - keys and unique: hashes of idempotency keys, and of business keys, to ids. n: numbers of unfinished
 *   tasks by group, line feed and caller.
 * - exp: ids by expiry. No key has an expiry in Redis, because its id would stay in the lists. The names
 *   of definitions (after a 0 and an n) and of pools (after a 0 and a p) stand there without an end.
 * - gone: rows `{id}~{birth}` by the next attempt to remove their files. paused: names of pools.
 * - cb: ids by the time of the next attempt at the callback.
 * - s:{caller}: ids of final tasks by the time of their end. sb: hash of their bytes by caller.
 *   f:{caller} and fb: the same for tasks with files.
 * - l:{kind}:{name}, l:{kind}:{name}\n{owner} and, for a caller that is a tenant, l:{kind}:{name}\r{caller}:
 *   ids by creation. The kind is the status in lists, and
 *   `queued` for tasks that run: a begin changes no list, except for a task that has waited for an answer,
 *   and run:{pool} tells what runs.
 *
 * A task that waits stands in one place, which m names (PLACE):
 *
 * - delayed:{pool}: ids by due time.
 * - ready:{pool}: lines, in the order of bytes. A line is the tasks of one priority and caller:
 *   `{priority}0{caller}0{microsecond}0{id}`, with bytes 0. The member `!` is first: the pool is paused.
 *   q:{priority}:{pool}: the callers that have such a line, in the order of their turns.
 * - held:{pool}: tasks whose caller has its share running, by share:
 *   `{caller}0{name, or nothing}0{priority}{microsecond}0{id}`.
 *
 * Running tasks stand in run:{pool}, by the end of their lease, which is infinite once it has been found to
 * be over: `{id}0{birth}0{lease}0{name}0{caller}`. Limits count these members, so no count can be wrong.
 * starts:{pool}: list of the microseconds of the newest begins, in pools with `startsPer`.
 */

/** Elements of `m`. Absent strings are '', absent times are 0. rows.ts has the same order. */
const FIELDS = [
  'ID', 'BIRTH', 'KEY', 'OWNER', 'CALLER', 'NAME', 'STATUS', 'VERSION', 'RUN', 'ATTEMPT', 'CRASHES',
  'PRIORITY', 'CREATED', 'START', 'STARTED', 'RUN_STARTED', 'FINISHED', 'EXPIRES', 'CALLBACK_RUN',
  'CALLBACK_AT', 'POOL', 'LEASE', 'RUN_POOL', 'HAS_LIMITS', 'PLACE', 'PLACE_POOL', 'SINCE', 'SHARE',
  'NONCE', 'FILES', 'FILE_BYTES', 'BYTES', 'KIND', 'COUNTED', 'UNIQUE',
]

/**
 * Replaces the names of fields by numbers, because variables would cost each call some
 * microseconds.
 */
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
 * Places of tasks that wait. `wake` notes when workers have to look for what is due, and `done`
 * notifies them. A new line, and a run that a limit counted, make workers take from the pool. A
 * function that changes the place of a task writes its `m` afterwards.
 */
const PLACES = `${READS}
local channel = string.match(base, '.*({.*)')
local awake, freed, due = {}, {}, false

local function wake(at)
  if not due or at < due then due = at end
end

local function done(...)
  for pool in pairs(freed) do awake[pool] = true end
  for pool in pairs(awake) do call('PUBLISH', channel .. 'r:' .. pool, '') end
  if due and due <= now then call('PUBLISH', channel .. 'due', '') end
  return {due and due - now, ...}
end

local function save(t) call('HSET', base .. 'h:' .. t[ID], 'm', cjson.encode(t)) end

local function stamp()
  micros = micros + 1
  return string.format('%016.0f', micros)
end

local function level(t) return string.format('%07d', t[PRIORITY]) end
local function lineOf(t) return level(t) .. '\\0' .. t[CALLER] .. '\\0' end
local function shareOf(t, name) return t[CALLER] .. '\\0' .. name .. '\\0' end
local function turnsOf(t) return base .. 'q:' .. level(t) .. ':' .. t[PLACE_POOL] end
local function readyAs(t) return lineOf(t) .. t[SINCE] .. '\\0' .. t[ID] end
local function heldAs(t) return shareOf(t, t[SHARE]) .. level(t) .. t[SINCE] .. '\\0' .. t[ID] end
local function runAs(t)
  return table.concat({t[ID], t[BIRTH], t[LEASE], t[NAME], t[CALLER]}, '\\0')
end

local function starting(set, prefix, count)
  local last = '(' .. string.sub(prefix, 1, -2) .. '\\1'
  return call('ZRANGEBYLEX', base .. set, '[' .. prefix, last, 'LIMIT', 0, count)
end

local function makeReady(t)
  t[PLACE], t[PLACE_POOL] = 'ready', t[POOL]
  call('ZADD', base .. 'ready:' .. t[POOL], 0, readyAs(t))
  if call('ZADD', turnsOf(t), 'NX', stamp(), t[CALLER]) == 1 then awake[t[POOL]] = true end
end

local function schedule(t, at)
  t[SINCE] = stamp()
  if at <= now then return makeReady(t) end
  t[PLACE], t[PLACE_POOL] = 'delayed', t[POOL]
  call('ZADD', base .. 'delayed:' .. t[POOL], at, t[ID])
  wake(at)
end

local function unplace(t)
  local place, pool = t[PLACE], t[PLACE_POOL]
  t[PLACE] = ''
  if place == 'delayed' then
    call('ZREM', base .. 'delayed:' .. pool, t[ID])
  elseif place == 'held' then
    call('ZREM', base .. 'held:' .. pool, heldAs(t))
  elseif place == 'ready' then
    call('ZREM', base .. 'ready:' .. pool, readyAs(t))
    if #starting('ready:' .. pool, lineOf(t), 1) == 0 then call('ZREM', turnsOf(t), t[CALLER]) end
  end
end

local function hold(t, name)
  t[PLACE], t[SHARE] = 'held', name
  call('ZADD', base .. 'held:' .. t[PLACE_POOL], 0, heldAs(t))
  save(t)
end

local function release(pool, share)
  local held = starting('held:' .. pool, share, 1)[1]
  if not held then return false end
  call('ZREM', base .. 'held:' .. pool, held)
  local t = load(string.match(held, '[^%z]*$'))
  if t then
    makeReady(t)
    save(t)
  end
  return true
end

local function freeShares(t)
  if t[HAS_LIMITS] == 0 then return end
  t[HAS_LIMITS] = 0
  freed[t[RUN_POOL]] = true
  release(t[RUN_POOL], shareOf(t, ''))
  release(t[RUN_POOL], shareOf(t, t[NAME]))
end

local function stop(t) call('PUBLISH', channel .. 'k:' .. string.match(t[LEASE], '^[^.]*'), '') end
`

/**
 * Lists, limits and shares of callers. `unschedule` ends the wait or the run of a task. `retire` removes
 * a task; its row stays under another name if it has files. `each` calls `act` with the tasks of a sorted
 * set whose time has come. `placeOf` returns the name of the count of a caller and a limit, which it has
 * raised, or nothing if the caller is full; unfinished tasks that have expired do not count.
 */
export const CHANGES = `${PLACES}
local FINAL = {completed = true, failed = true, cancelled = true}

local function list(t, kind)
  local old = t[KIND]
  if old == kind then return end
  local isOfTenant = string.sub(t[CALLER], 1, 7) == 'tenant '
  for _, name in ipairs({t[NAME], t[NAME] .. '\\n' .. t[OWNER], isOfTenant and t[NAME] .. '\\r' .. t[CALLER] or nil}) do
    if old ~= '' then call('ZREM', base .. 'l:' .. old .. ':' .. name, t[ID]) end
    if kind ~= '' then call('ZADD', base .. 'l:' .. kind .. ':' .. name, t[CREATED], t[ID]) end
  end
  t[KIND] = kind
end

local function unschedule(t, isOwn)
  unplace(t)
  if t[STATUS] ~= 'processing' then return end
  call('ZREM', base .. 'run:' .. t[RUN_POOL], runAs(t))
  freeShares(t)
  if not isOwn then stop(t) end
end

local function unshare(t, kind, field)
  if t[CALLER] == '' or call('ZREM', base .. kind .. ':' .. t[CALLER], t[ID]) == 0 then return end
  local bytes = call('HINCRBY', base .. kind .. 'b', t[CALLER], -t[field])
  if bytes <= 0 then call('HDEL', base .. kind .. 'b', t[CALLER]) end
end

local function giveUp(t)
  if t[COUNTED] ~= '' then call('ZINCRBY', base .. 'n', -1, t[COUNTED]) end
  if t[UNIQUE] ~= '' then call('HDEL', base .. 'unique', t[UNIQUE]) end
  t[COUNTED], t[UNIQUE] = '', ''
end

local function retire(t)
  local id, h = t[ID], base .. 'h:' .. t[ID]
  if FINAL[t[STATUS]] then
    unshare(t, 's', BYTES)
    unshare(t, 'f', FILE_BYTES)
  else
    unschedule(t)
    giveUp(t)
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
  local counts, field = base .. 'n', limit.group .. '\\n' .. caller
  if tonumber(call('ZINCRBY', counts, 1, field)) <= limit.max then return field end
  each('exp', 200, retire)
  if tonumber(call('ZSCORE', counts, field)) <= limit.max then return field end
  call('ZINCRBY', counts, -1, field)
  return nil
end
`

/** Expiry, and ends of delays. */
export const DELAYS = `${CHANGES}
local pools, names = {}, {}
for _, name in ipairs(call('ZRANGEBYSCORE', base .. 'exp', '+inf', '+inf')) do
  local set = string.sub(name, 2, 2) == 'p' and pools or names
  set[#set + 1] = string.sub(name, 3)
end

local function endDelays()
  each('exp', 200, retire)
  for _, pool in ipairs(pools) do
    each('delayed:' .. pool, 200, function(t)
      unplace(t)
      schedule(t, now)
      if t[STATUS] == 'queued' then list(t, 'queued') end
      save(t)
    end)
  end
end
`
