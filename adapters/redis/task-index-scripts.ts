import { script } from './scripts.js'

/*
 * Keys of one bucket. All have its hash tag, so each script is safe in a Cluster.
 *
 * - checks: sorted set of entries by the time of their next check, by the clock of Redis.
 * - lists: sorted set of all tasks. A member is `id\nname\nowner`. Its score packs the minute in
 *   which the entry expires (26 bits), the version of the record (24) and the number of the status (3).
 * - lists:names: set of the names of definitions.
 * - lists:{status}:{name}: sorted set of `id\nowner` by time of creation.
 * - lists:{status}:{name}:{owner}: sorted set of ids by time of creation.
 *
 * The owner is empty for tasks without an owner. The empty member of `lists` and of `names` says
 * that a scan of the store has found all tasks. It is lost together with its set.
 */

/** Start of the scripts that change lists. */
const CHANGE = `
local checks, lists = KEYS[1], KEYS[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local MINUTE, LAST_MINUTE, LAST_VERSION = 134217728, 67108863, 16777215

local function sets(id, name, owner, status)
  local all = lists .. ':' .. status .. ':' .. name
  return all, id .. '\\n' .. owner, all .. ':' .. owner
end

local function leave(id, name, owner, status)
  local all, member, own = sets(id, name, owner, status)
  redis.call('ZREM', all, member)
  redis.call('ZREM', own, id)
end

local function trim(most)
  local limit = '(' .. string.format('%.0f', (math.floor(now / 60000) + 1) * MINUTE)
  local over = redis.call('ZRANGEBYSCORE', lists, '-inf', limit, 'WITHSCORES', 'LIMIT', 0, most)
  for at = 1, #over, 2 do
    local id, name, owner = string.match(over[at], '^(.-)\\n(.-)\\n(.*)$')
    leave(id, name, owner, over[at + 1] % 8)
    redis.call('ZREM', lists, over[at])
  end
end
`

/**
 * KEYS: checks, lists. ARGV: operations, each one text, because each argument costs the client more
 * than its bytes. Returns nothing.
 *
 * - `a` ms entry: adds a check
 * - `r` ms entry: restores a check; keeps an existing entry
 * - `x` entry: removes a check
 * - `p` status version created ttl id name owner: puts a task
 * - `d` status created id name owner: drops a task
 *
 * Also removes up to two expired tasks for each one that is put.
 */
export const WRITE = script(`${CHANGE}
local known = {}

local function put(id, owner, name, status, version, created, ttl)
  local key = id .. '\\n' .. name .. '\\n' .. owner
  local all, member, own = sets(id, name, owner, status)
  local minute = math.min(math.ceil((now + ttl) / 60000), LAST_MINUTE)
  version = math.min(version, LAST_VERSION)
  local score = string.format('%.0f', minute * MINUTE + version * 8 + status)
  if redis.call('ZADD', lists, 'NX', score, key) == 1 then
    if not known[name] then redis.call('SADD', lists .. ':names', name) end
    known[name] = true
    -- If the lists have lost this entry, its old status is unknown.
    if version > 1 then
      for other = 0, 5 do
        if other ~= status then leave(id, name, owner, other) end
      end
    end
  else
    local before = redis.call('ZSCORE', lists, key)
    local oldStatus, oldVersion = before % 8, math.floor(before / 8) % (LAST_VERSION + 1)
    local _, _, oldSet = sets(id, name, owner, oldStatus)
    local oldCreated = tonumber(redis.call('ZSCORE', oldSet, id) or created)
    if oldCreated > created or (oldCreated == created and oldVersion > version) then return end
    if oldCreated == created and oldVersion == version then
      minute = math.max(minute, math.floor(before / MINUTE))
      score = string.format('%.0f', minute * MINUTE + version * 8 + status)
    end
    if oldStatus ~= status then leave(id, name, owner, oldStatus) end
    redis.call('ZADD', lists, score, key)
  end
  redis.call('ZADD', all, created, member)
  redis.call('ZADD', own, created, id)
end

local function drop(id, owner, name, status, created)
  local key = id .. '\\n' .. name .. '\\n' .. owner
  local before = redis.call('ZSCORE', lists, key)
  if before then
    local _, _, set = sets(id, name, owner, before % 8)
    if tonumber(redis.call('ZSCORE', set, id) or created) ~= created then return end
    leave(id, name, owner, before % 8)
    redis.call('ZREM', lists, key)
  end
  leave(id, name, owner, status)
end

local puts = 0
for _, operation in ipairs(ARGV) do
  local verb, rest = string.sub(operation, 1, 1), string.sub(operation, 3)
  if verb == 'p' then
    local status, version, created, ttl, id, name, owner =
      string.match(rest, '^(%d+) (%d+) (-?%d+) (-?%d+) (%S+) (%S+) (.*)$')
    put(id, owner, name, tonumber(status), tonumber(version), tonumber(created), tonumber(ttl))
    puts = puts + 1
  elseif verb == 'd' then
    local status, created, id, name, owner = string.match(rest, '^(%d+) (-?%d+) (%S+) (%S+) (.*)$')
    drop(id, owner, name, tonumber(status), tonumber(created))
  elseif verb == 'x' then
    redis.call('ZREM', checks, rest)
  else
    local ms, entry = string.match(rest, '^(%d+) (.*)$')
    if verb == 'a' then redis.call('ZADD', checks, now + ms, entry)
    else redis.call('ZADD', checks, 'NX', now + ms, entry) end
  end
end
if puts > 0 then trim(2 * puts) end
`)

/**
 * KEYS: checks, lists. ARGV: 1 maximum number of entries, 2 ms until they are due again. Returns
 * the entries that are due, earliest first. Also removes up to 500 expired tasks.
 */
export const TAKE = script(`${CHANGE}
trim(500)
local entries = redis.call('ZRANGEBYSCORE', checks, '-inf', now, 'LIMIT', 0, ARGV[1])
for _, entry in ipairs(entries) do redis.call('ZADD', checks, now + ARGV[2], entry) end
return entries
`)

/**
 * KEYS: lists. ARGV: 1 `all`, or `=` and the owner; 2 and 3 first and last time of creation in the
 * order of the page; 4 `REV` for the newest first; 5 limit; 6 time of creation of the last task of
 * the page before, or empty; 7 digits of the statuses; 8 and so on: names, none for all names.
 *
 * Reads a few tasks of each list, then more of those lists that may have further tasks of the page.
 * Returns one array for each list: status, name, then pairs of member and score. They include every
 * task of the page, and the tasks of the time of ARGV[6] that may precede it.
 */
export const PAGE = script(`
local lists = KEYS[1]
local first, last, isNewest, limit, after = ARGV[2], ARGV[3], ARGV[4] == 'REV', tonumber(ARGV[5]), ARGV[6]
local range = isNewest and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE'
local owner = ARGV[1] ~= 'all' and ':' .. string.sub(ARGV[1], 2) or ''
local names = {}
for at = 8, #ARGV do names[#names + 1] = ARGV[at] end
if #names == 0 then names = redis.call('SMEMBERS', lists .. ':names') end

local found, scores, wanted = {}, {}, limit
local few = math.max(4, math.ceil(2 * limit / math.max(1, #names * #ARGV[7])))

local function read(list, count)
  count = math.min(count, list.most - list.size)
  local part = redis.call(range, list.key, first, last, 'WITHSCORES', 'LIMIT', list.size, count)
  for at = 1, #part, 2 do
    local score = tonumber(part[at + 1])
    list.page[#list.page + 1] = part[at]
    list.page[#list.page + 1] = part[at + 1]
    scores[#scores + 1] = score
    list.horizon = score
  end
  list.size = list.size + #part / 2
  list.isOpen = #part == 2 * count and list.size < list.most
end

for _, name in ipairs(names) do
  for status in string.gmatch(name ~= '' and ARGV[7] or '', '%d') do
    local key = lists .. ':' .. status .. ':' .. name .. owner
    local ties = after ~= '' and redis.call('ZCOUNT', key, after, after) or 0
    wanted = wanted + ties
    local list = {key = key, page = {status, name}, size = 0, most = limit + ties}
    read(list, few + ties)
    if list.size > 0 then found[#found + 1] = list end
  end
end

local edge
local function mayBeInPage(score)
  return not edge or (isNewest and score >= edge) or (not isNewest and score <= edge)
end
repeat
  local hasRead = false
  if #scores >= wanted then
    table.sort(scores)
    edge = isNewest and scores[#scores - wanted + 1] or scores[wanted]
  end
  for _, list in ipairs(found) do
    if list.isOpen and mayBeInPage(list.horizon) then
      read(list, 3 * list.size)
      hasRead = true
    end
  end
until not hasRead

local pages = {}
for at, list in ipairs(found) do
  local page = list.page
  while #page > 2 and not mayBeInPage(tonumber(page[#page])) do
    page[#page] = nil
    page[#page] = nil
  end
  pages[at] = page
end
return pages
`)

/** KEYS: lists. ARGV: 1 (optional) any text to set the mark. Returns 1 if the lists are complete. */
export const COMPLETE = script(`
local lists, names = KEYS[1], KEYS[1] .. ':names'
if ARGV[1] then
  redis.call('ZADD', lists, '+inf', '')
  redis.call('SADD', names, '')
end
return redis.call('ZSCORE', lists, '') and redis.call('SISMEMBER', names, '') or 0
`)

/** No key. ARGV: 1 cursor, 2 pattern, 3 count. Returns the next cursor and keys of one server. */
export const SCAN = script(`
return redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
`)
