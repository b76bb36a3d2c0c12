import { createHash } from 'node:crypto'
import type { RedisClient } from './client.js'

/** A Lua script and the name under which a server that has seen it knows it. */
export interface Script {
  readonly source: string
  readonly sha: string
}

function script(source: string): Script {
  return { source, sha: createHash('sha1').update(source).digest('hex') }
}

/*
 * Every script touches one key at the most, so all of them are safe in a Cluster. An entry is the text
 * `<revision> <expiresAt>\n<value>`.
 */

/**
 * KEYS[1] entry; ARGV: 1 revision that must be there, 2 new text, 3 expiry in ms, 4 channel.
 * Gives {1}, or {0, text that is there or nil}.
 */
export const REPLACE = script(`
local now = redis.call('GET', KEYS[1])
if not now or string.sub(now, 1, #ARGV[1] + 1) ~= ARGV[1] .. ' ' then return {0, now} end
redis.call('SET', KEYS[1], ARGV[2], 'PXAT', ARGV[3])
redis.call('PUBLISH', ARGV[4], '')
return {1}
`)

/** KEYS[1] entry; ARGV: 1 channel, 2 (may be left out) revision that must be there. Gives how many were removed. */
export const DELETE = script(`
if ARGV[2] then
  local now = redis.call('GET', KEYS[1])
  if not now or string.sub(now, 1, #ARGV[2] + 1) ~= ARGV[2] .. ' ' then return 0 end
end
local removed = redis.call('DEL', KEYS[1])
if removed == 1 then redis.call('PUBLISH', ARGV[1], '') end
return removed
`)

/**
 * KEYS[1] counter, a hash of v (value) and x (expiry in ms); ARGV: 1 by, 2 expiry in ms for the first writer.
 * Gives {value as text, expiry}, or {} when the sum would be no safe integer.
 */
export const INCREMENT = script(`
local sum = (redis.call('HGET', KEYS[1], 'v') or 0) + ARGV[1]
if math.abs(sum) > 9007199254740991 then return {} end
local text = string.format('%.0f', sum)
redis.call('HSET', KEYS[1], 'v', text)
if redis.call('HSETNX', KEYS[1], 'x', ARGV[2]) == 1 then
  redis.call('PEXPIREAT', KEYS[1], ARGV[2])
  return {text, ARGV[2]}
end
return {text, redis.call('HGET', KEYS[1], 'x')}
`)

/** No key; ARGV: channels, each of which gets a notice. */
export const NOTIFY = script(`
for _, channel in ipairs(ARGV) do redis.call('PUBLISH', channel, '') end
return 0
`)

/** Runs a script by its name; a server that does not know it (new, restarted, failed over) is given the source. */
export function runScript(client: RedisClient, { source, sha }: Script, keys: number, ...args: (string | number)[]): Promise<unknown> {
  return client.evalsha(sha, keys, ...args).catch((error: unknown) => {
    if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
    return client.eval(source, keys, ...args)
  })
}
