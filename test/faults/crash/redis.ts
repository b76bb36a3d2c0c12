import { after } from 'node:test'
import { Redis } from 'ioredis'
import { redis } from 'longhaul/redis'
import { redisForFile } from '../../servers/redis-server.js'
import type { CrashDatabase, CrashEngine } from '../kit/database.js'
import { LEASE_MS } from './work.js'

export function openRedis(url: string): CrashEngine {
  const client = new Redis(url, { maxRetriesPerRequest: null })
  return { ...redis({ client, leaseMs: LEASE_MS }), count: (taskId) => client.incr(`runs:${taskId}`) }
}

/** A Redis of the file. */
export async function crashRedis(): Promise<CrashDatabase & { readonly redis: Redis }> {
  const { url } = await redisForFile()
  const client = new Redis(url, { maxRetriesPerRequest: null })
  const { engine, store } = redis({ client })
  after(async () => {
    await engine.close({ drainMs: 0 })
    await store.close()
    client.disconnect()
  })
  return { url, redis: client, engine, runs: async (taskId) => Number(await client.get(`runs:${taskId}`) ?? 0) }
}
