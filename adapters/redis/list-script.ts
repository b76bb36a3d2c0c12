import { DELAYS, taskScript } from './lua.js'

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
