import { after } from 'node:test'
import { Redis } from 'ioredis'
import { redis as redisParts } from 'longhaul/redis'
import { redisForFile } from '../../servers/redis-server.js'
import type { CrashDatabase, CrashParts } from './database.js'
import { LEASE_MS } from './work.js'

export function openRedis(url: string): CrashParts {
  const client = new Redis(url)
  return { ...redisParts({ client, leaseMs: LEASE_MS }), count: (taskId) => client.incr(`runs:${taskId}`) }
}

/** A Redis of the file. */
export async function crashRedis(): Promise<CrashDatabase & { readonly redis: Redis }> {
  const { url } = await redisForFile()
  const redis = new Redis(url)
  const { engine } = redisParts({ client: redis })
  after(async () => {
    await engine.close({ drainMs: 0 })
    redis.disconnect()
  })
  return {
    url, redis, engine,
    runs: async (taskId) => Number(await redis.get(`runs:${taskId}`) ?? 0),
  }
}
