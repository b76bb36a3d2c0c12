import { after } from 'node:test'
import { Redis } from 'ioredis'
import { BullMQQueue } from 'longhaul/bullmq'
import { RedisStore, RedisTaskIndex } from 'longhaul/redis'
import { redisForFile } from '../../servers/redis-server.js'
import type { CrashDatabase, CrashEngine } from './database.js'
import { TIMES } from './work.js'

const TASK = 'longhaul:e:task:'

export function openRedis(url: string, maxStalledCount: number): CrashEngine {
  const client = new Redis(url)
  const connection = new Redis(url, { maxRetriesPerRequest: null })
  return {
    store: new RedisStore({ client }), index: new RedisTaskIndex({ client }),
    queue: new BullMQQueue({ connection, ...TIMES, maxStalledCount }),
    callbackQueue: new BullMQQueue({ connection, ...TIMES, name: 'callbacks' }),
    count: (taskId) => client.incr(`runs:${taskId}`),
  }
}

/** A Redis of the file. */
export async function crashRedis(): Promise<CrashDatabase & { readonly redis: Redis, readonly jobs: Redis }> {
  const { url } = await redisForFile()
  const redis = new Redis(url)
  const jobs = new Redis(url, { maxRetriesPerRequest: null })
  const board = new BullMQQueue({ connection: jobs })
  after(async () => {
    await board.close()
    for (const client of [redis, jobs]) client.disconnect()
  })
  return {
    url, redis, jobs, board,
    runs: async (taskId) => Number(await redis.get(`runs:${taskId}`) ?? 0),
    taskIds: async () => (await redis.keys(`${TASK}*`)).map((key) => key.slice(TASK.length)),
  }
}
