import { CHANGES, DELAYS, READS, taskScript } from './lua.js'

/* Scripts of workers. Their results are as in task-scripts.ts. */

/** Makes one change of a task. `text` is made by `changeArguments`. Returns an outcome and a task. */
const CHANGE = `
local function share(t, kind, field, bytes, maxTasks, maxBytes)
  if bytes == 0 then return end
  local set, sums = base .. kind .. ':' .. t[CALLER], base .. kind .. 'b'
  local isNew = call('ZADD', set, 'NX', micros, t[ID]) == 1
  local sum = call('HINCRBY', sums, t[CALLER], isNew and bytes or bytes - t[field])
  t[field] = bytes
  for _ = 1, 100 do
    -- Each task has at least 2 bytes, so a small sum says that there are few.
    if sum <= maxBytes and (sum <= 2 * maxTasks or call('ZCARD', set) <= maxTasks) then return end
    local first = call('ZRANGE', set, 0, 0)[1]
    if first == t[ID] then return end
    local other = load(first)
    if other then retire(other) else call('ZREM', set, first) end
    sum = tonumber(call('HGET', sums, t[CALLER]) or 0)
  end
end

local function change(text, checkpoint)
  local head, details, result = string.match(text, '^([^\\n]*)\\n([^\\n]*)\\n(.*)$')
  local c = cjson.decode(head)
  local id, h, status, expected = c.id, base .. 'h:' .. c.id, c.status, c.expected
  local row = call('HMGET', h, 'm', 'details', 'result')
  local t = row[1] and cjson.decode(row[1])
  if not t or t[BIRTH] ~= c.birth or t[EXPIRES] <= now then return {'conflict'} end
  if t[NONCE] == c.nonce then return {'changed', row} end
  local isFinal = FINAL[t[STATUS]]
  local holds = expected.version == t[VERSION] or expected.callbackRun == t[CALLBACK_RUN] and isFinal
    or expected.lease == t[LEASE] and t[STATUS] == 'processing'
  if not holds or status == 'queued' and t[STATUS] == 'completed' then
    return {'conflict', row}
  end
  if isFinal and status == 'queued' then
    local place = placeOf(t[CALLER], c.limit)
    if not place then return {'caller_full'} end
    unshare(t, 's', BYTES)
    unshare(t, 'f', FILE_BYTES)
    t[COUNTED], t[START], t[FINISHED], row[3] = place, 0, 0, false
    call('HDEL', h, 'result')
  end

  local isAsked = status == 'input_required'
  local dueAt = (isAsked or status == 'queued') and now + math.ceil(c.delayMs or 0)
  if c.pool and not status and t[PLACE] ~= '' and t[STATUS] ~= 'processing' then
    dueAt = t[PLACE] == 'delayed' and tonumber(call('ZSCORE', base .. 'delayed:' .. t[PLACE_POOL], id)) or now
  end
  if not isFinal and (status or dueAt) then unschedule(t, expected.lease) end
  if not isFinal and FINAL[status] then
    t[FINISHED] = now
    giveUp(t)
  end
  if isAsked or c.isGivenBack then t[ATTEMPT] = t[ATTEMPT] - 1 end
  if isAsked or c.checkpoint or status == 'queued' and not c.isGivenBack then t[CRASHES] = 0 end
  t[STATUS], t[POOL], t[NONCE] = status or t[STATUS], c.pool or t[POOL], c.nonce
  if c.hasFiles ~= nil then t[FILES] = c.hasFiles and 1 or 0 end
  if c.files then
    unshare(t, 'f', FILE_BYTES)
    t[FILE_BYTES] = c.files.bytes
  end
  if c.pool then call('ZADD', base .. 'exp', 'inf', '\\0p' .. c.pool) end
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
  if c.callbackMs and not expected.callbackRun then t[CALLBACK_RUN] = t[CALLBACK_RUN] + 1 end
  if not c.isHidden then t[VERSION] = t[VERSION] + 1 end
  if status then list(t, status)
  elseif dueAt and dueAt <= now and t[STATUS] == 'queued' then list(t, 'queued') end

  local written = {}
  local function write(field, value)
    written[#written + 1] = field
    written[#written + 1] = value
  end
  if details ~= '' then write('details', details) end
  if result ~= '' then write('result', result) end
  if c.checkpoint == 'new' then write('checkpoint', checkpoint)
  elseif c.checkpoint == 'none' then call('HDEL', h, 'checkpoint') end
  if status == 'completed' then
    write('input', '')
    write('checkpoint', '')
  end
  if FINAL[t[STATUS]] and t[CALLER] ~= '' then
    local bytes = #(details == '' and row[2] or details) + #(result == '' and row[3] or result)
    if t[STATUS] ~= 'completed' then
      local kept = c.checkpoint == 'new' and #checkpoint or call('HSTRLEN', h, 'checkpoint')
      bytes = bytes + call('HSTRLEN', h, 'input') + kept
    end
    share(t, 's', BYTES, bytes, most.maxEntries, most.maxBytes)
    share(t, 'f', FILE_BYTES, t[FILE_BYTES], 1e18, c.files and c.files.max or 1e18)
  end
  if dueAt then schedule(t, dueAt) end
  local m = cjson.encode(t)
  call('HSET', h, 'm', m, unpack(written))
  if not c.isHidden then call('PUBLISH', channel .. 'w:' .. id, '') end
  return {'changed', {m, details == '' and row[2], result == '' and row[3]}}
end
`

/**
 * Limits of running work. `isClosed` returns whether no run of a pool may begin, `sharesIn` the numbers of
 * runs by share, and `fullShare` the name of the share of a task that has no room, '' for that of the pool.
 */
const SHARES = `
local started = micros

local function isClosed(pool, limits)
  local rate = limits.startsPer
  local last = rate and call('LINDEX', base .. 'starts:' .. pool, rate.count - 1)
  if last and last + rate.ms * 1000 > started then
    wake(math.ceil(last / 1000 + rate.ms))
    return true
  end
  local most = limits.maxRunning
  return most and call('ZCOUNT', base .. 'run:' .. pool, '-inf', '(inf') >= most
end

local function add(sums, ...)
  for _, share in ipairs({...}) do sums[share] = (sums[share] or 0) + 1 end
end

local function sharesIn(pool)
  local sums = {}
  for _, run in ipairs(call('ZRANGEBYSCORE', base .. 'run:' .. pool, '-inf', '(inf')) do
    local name, caller = string.match(run, '%z([^%z]*)%z([^%z]*)$')
    add(sums, caller .. '\\0\\0', caller .. '\\0' .. name .. '\\0')
  end
  return sums
end

local function roomIn(share, name, limits, sums)
  local most = limits.maxPerCaller
  if name ~= '' then most = limits.maxPerCallerOf and limits.maxPerCallerOf[name] end
  return (most or math.huge) - (sums[share] or 0)
end

local function fullShare(t, limits, sums)
  if t[CALLER] == '' then return nil end
  for _, name in ipairs({t[NAME], ''}) do
    if roomIn(shareOf(t, name), name, limits, sums) <= 0 then return name end
  end
  return nil
end
`

/** Begins runs of one pool. A take that holds very many tasks continues at the next look. */
const TAKE = `
local function begin(t, row, pool, limits)
  local runs, before = base .. 'run:' .. pool, -1
  if t[STATUS] == 'processing' then
    call('ZREM', base .. 'run:' .. t[RUN_POOL], runAs(t))
    stop(t)
    before = t[RUN_STARTED]
    t[CRASHES] = t[CRASHES] + 1
  elseif t[STATUS] == 'input_required' then
    list(t, 'queued')
    t[CALLBACK_AT] = 0
    call('ZREM', base .. 'cb', t[ID])
  end
  t[PLACE], t[STATUS], t[LEASE], t[RUN_POOL] = '', 'processing', lease, pool
  t[HAS_LIMITS], t[RUN_STARTED] = limits and 1 or 0, now
  t[RUN], t[ATTEMPT], t[VERSION] = t[RUN] + 1, t[ATTEMPT] + 1, t[VERSION] + 1
  if t[STARTED] == 0 then t[STARTED] = now end
  row[1] = cjson.encode(t)
  call('HSET', base .. 'h:' .. t[ID], 'm', row[1])
  call('ZADD', runs, now + leaseMs, runAs(t))
  call('PUBLISH', channel .. 'w:' .. t[ID], '')
  row[6] = before
  return row
end

local function nextIn(pool)
  local first, second = unpack(call('ZRANGE', base .. 'ready:' .. pool, 0, 1))
  if not first or first == '!' then return nil end
  local level, caller = string.match(first, '^(%d+)%z([^%z]*)')
  local turns = base .. 'q:' .. level .. ':' .. pool
  caller = call('ZPOPMIN', turns)[1] or caller
  local line = starting('ready:' .. pool, level .. '\\0' .. caller .. '\\0', 2)
  if not line[1] then return '' end
  call('ZREM', base .. 'ready:' .. pool, line[1])
  if line[2] then call('ZADD', turns, stamp(), caller) end
  return string.match(line[1], '[^%z]*$'), not second
end

local function take(pool, count, limits)
  local begun, held, sums, rate = {}, 0, nil, limits and limits.startsPer
  if limits and (limits.maxPerCaller or limits.maxPerCallerOf) then sums = sharesIn(pool) end
  while #begun < count and held < 500 do
    if limits and isClosed(pool, limits) then break end
    local id, isLast = nextIn(pool)
    if not id then break end
    local row = call('HMGET', base .. 'h:' .. id, 'm', 'details', 'result', 'input', 'checkpoint')
    local t = row[1] and cjson.decode(row[1])
    local full = t and sums and fullShare(t, limits, sums)
    if t and t[EXPIRES] <= now then
      retire(t)
    elseif full then
      held = held + 1
      hold(t, full)
      if full ~= '' and roomIn(shareOf(t, ''), '', limits, sums) > 0 then release(pool, shareOf(t, '')) end
    elseif t then
      begun[#begun + 1] = begin(t, row, pool, limits)
      if sums then add(sums, shareOf(t, ''), shareOf(t, t[NAME])) end
      if rate then
        call('LPUSH', base .. 'starts:' .. pool, started)
        call('LTRIM', base .. 'starts:' .. pool, 0, rate.count - 1)
      end
      if isLast then break end
    end
  end
  return begun
end
`

/**
 * One turn of a process: makes its changes, each with its own outcome, and begins runs. ARGV: 1 as
 * JSON: the worker and the name of the turn, with a full stop between them, which is the lease of
 * the runs; its length in ms; the maximum number and bytes of the final tasks of a caller; for each
 * pool its name, the number of runs, and its limits. Then for each change its text, and its
 * checkpoint. Result: an outcome and a task, or `error` and its message, of each change; the runs
 * of each pool (task, input, checkpoint, start of the run that crashed or -1).
 */
export const TURN = taskScript(`${CHANGES}
local turn = cjson.decode(ARGV[1])
local lease, leaseMs, most = turn.lease, turn.leaseMs, turn
${SHARES}
${CHANGE}
${TAKE}
local outcomes, runs = {}, {}
for n = 2, #ARGV, 2 do
  local isMade, outcome = pcall(change, ARGV[n], ARGV[n + 1])
  if not isMade then
    outcome = {'error', type(outcome) == 'table' and outcome.err or tostring(outcome)}
  end
  outcomes[#outcomes + 1] = outcome
end
for n, pool in ipairs(turn.pools) do
  runs[n] = take(pool.name, pool.count, pool.limits)
  freed[pool.name] = nil
end
return done(outcomes, runs)
`)

/**
 * Renews leases that have not ended. ARGV: 1 lease in ms, then pairs of a pool and a run, as in
 * run:{pool}. Returns an outcome for each run.
 */
export const RENEW = taskScript(`${READS}
local renewals = {}
for n = 2, #ARGV, 2 do
  local runs, run = base .. 'run:' .. ARGV[n], ARGV[n + 1]
  local ends = call('ZSCORE', runs, run)
  local isRenewed = ends and ends ~= 'inf' and tonumber(ends) > now
  if isRenewed then call('ZADD', runs, now + ARGV[1], run) end
  renewals[#renewals + 1] = isRenewed and 'renewed' or 'lost'
end
return renewals
`)

/**
 * Finds due tasks: 200 of one kind at most. It begins with a removal, because a full server allows
 * only such scripts. A callback and a removal of files is tried again after a minute. ARGV: 1 as
 * JSON: the worker, its maximum numbers of callbacks and removals, and the name and limits of each
 * pool. Result: callbacks; tasks whose files are to be removed; the runs of this worker; and for
 * each pool: `ready` if tasks wait in it, `paused` or nothing.
 */
export const LOOK = taskScript(`${DELAYS}
${SHARES}
local q, again = cjson.decode(ARGV[1]), now + 60000
call('ZREMRANGEBYSCORE', base .. 'n', '-inf', 0)
endDelays()
for _, pool in ipairs(pools) do
  local runs = base .. 'run:' .. pool
  for _, run in ipairs(call('ZRANGEBYSCORE', runs, '-inf', now, 'LIMIT', 0, 200)) do
    local t = load(string.match(run, '^[^%z]*'))
    call('ZREM', runs, run)
    if t and runAs(t) == run then
      call('ZADD', runs, 'inf', run)
      freeShares(t)
      schedule(t, now)
      save(t)
    end
  end
end

local callbacks, removals, own, states = {}, {}, {}, {}
each('cb', q.callbacks, function(t)
  if not FINAL[t[STATUS]] and t[STATUS] ~= 'input_required' then return call('ZREM', base .. 'cb', t[ID]) end
  t[CALLBACK_RUN], t[CALLBACK_AT] = t[CALLBACK_RUN] + 1, again
  call('ZADD', base .. 'cb', t[CALLBACK_AT], t[ID])
  save(t)
  callbacks[#callbacks + 1] = reply(t[ID])
end)
each('gone', q.removals, function(t)
  local row = t[ID] .. '~' .. t[BIRTH]
  call('ZADD', base .. 'gone', again, row)
  removals[#removals + 1] = reply(row)
end)

-- A share without room has a run, so there are not many.
local function releaseHeld(pool, limits)
  local sums, from
  for _ = 1, 1000 do
    local held = call('ZRANGEBYLEX', base .. 'held:' .. pool, from or '-', '+', 'LIMIT', 0, 1)[1]
    if not held then return end
    sums = sums or sharesIn(pool)
    local share, name = string.match(held, '^([^%z]*%z([^%z]*)%z)')
    for _ = 1, math.min(roomIn(share, name, limits, sums), 100) do
      if not release(pool, share) then break end
    end
    from = '(' .. string.sub(share, 1, -2) .. '\\1'
  end
end

local function note(set)
  local at = call('ZRANGE', base .. set, 0, 0, 'WITHSCORES')[2]
  if at and at ~= 'inf' then wake(tonumber(at)) end
end
for n, pool in ipairs(q.pools) do
  releaseHeld(pool.name, pool.limits or {})
  for _, run in ipairs(call('ZRANGEBYSCORE', base .. 'run:' .. pool.name, '-inf', '(inf')) do
    if string.find(run, '\\0' .. q.worker .. '.', 1, true) then own[#own + 1] = run end
  end
  local first = call('ZRANGE', base .. 'ready:' .. pool.name, 0, 0)[1]
  local isOpen = first and not (pool.limits and isClosed(pool.name, pool.limits))
  states[n] = first == '!' and 'paused' or isOpen and 'ready' or ''
end
for _, pool in ipairs(pools) do
  note('delayed:' .. pool)
  note('run:' .. pool)
end
if q.callbacks > 0 then note('cb') end
return done(callbacks, removals, own, states)
`)
