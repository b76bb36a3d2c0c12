import { createHash } from 'node:crypto'
import { Notices } from '../../src/runtime/notices.js'
import type { RedisClient } from './client.js'

/** A Lua script and the name under which a server that has seen it knows it. */
export interface Script {
  readonly source: string
  readonly sha: string
}

/** Returns the script of a Lua source. */
export function script(source: string): Script {
  return { source, sha: createHash('sha1').update(source).digest('hex') }
}

/*
 * Every script here touches at most one key, so all of them are safe in a Cluster. An entry is the
 * text `<revision>\n<value>`. Lifetimes are durations, so that only the clock of Redis decides when
 * a key expires.
 */

/**
 * KEYS[1] entry; ARGV: 1 revision that must be there, 2 new text, 3 channel, 4 (optional) lifetime
 * in ms; without it the key keeps its expiry. Gives {1}, or {0, text that is there or nil}.
 */
export const REPLACE = script(`
local now = redis.call('GET', KEYS[1])
if not now or string.sub(now, 1, #ARGV[1] + 1) ~= ARGV[1] .. '\\n' then return {0, now} end
if ARGV[4] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[4])
else
  redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
end
redis.call('PUBLISH', ARGV[3], '')
return {1}
`)

/**
 * KEYS[1] entry; ARGV: 1 channel, 2 (may be left out) revision that must be there. Gives how many
 * were removed.
 */
export const DELETE = script(`
if ARGV[2] then
  local now = redis.call('GET', KEYS[1])
  if not now or string.sub(now, 1, #ARGV[2] + 1) ~= ARGV[2] .. '\\n' then return 0 end
end
local removed = redis.call('DEL', KEYS[1])
if removed == 1 then redis.call('PUBLISH', ARGV[1], '') end
return removed
`)

/**
 * KEYS[1] counter; ARGV: 1 by, 2 lifetime in ms for the first writer.
 * Gives {value as text, ms until it expires}, or {} when the sum would be no safe integer.
 */
export const INCREMENT = script(`
local before = redis.call('GET', KEYS[1])
local sum = (before or 0) + ARGV[1]
if math.abs(sum) > 9007199254740991 then return {} end
local text = string.format('%.0f', sum)
if before then
  redis.call('SET', KEYS[1], text, 'KEEPTTL')
  return {text, redis.call('PTTL', KEYS[1])}
end
redis.call('SET', KEYS[1], text, 'PX', ARGV[2])
return {text, tonumber(ARGV[2])}
`)

/** No key; ARGV: channels, each of which gets a notice. */
const NOTIFY = script(`
for _, channel in ipairs(ARGV) do redis.call('PUBLISH', channel, '') end
return 0
`)

/**
 * Returns the sender of notices. It waits for no reply, because a connection that is lost would hold
 * up the notices.
 */
export function noticesOf(client: RedisClient): Notices {
  return new Notices(async ([channel = '', ...others]) => {
    const sent = others.length === 0
      ? client.publish(channel, '') : runScript(client, NOTIFY, 0, channel, ...others)
    sent.catch(() => undefined)
  })
}

/**
 * Runs a script by its digest. If the server does not know it (new, restarted), sends the source.
 */
export function runScript(
  client: RedisClient, { source, sha }: Script, keys: number, ...args: (string | number)[]
): Promise<unknown> {
  return client.evalsha(sha, keys, ...args).catch((error: unknown) => {
    if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
    return client.eval(source, keys, ...args)
  })
}
