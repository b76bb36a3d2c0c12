import { Redis } from 'ioredis'
import { RedisUsers } from './redis-users.js'
import type { Users } from './repository.js'
import { seededUsers } from './seed.js'

export function openRedisUsers(url: string): Users {
  const redis = new Redis(url, {
    maxRetriesPerRequest: 3, commandTimeout: 4000, retryStrategy: (tried) => Math.min(100 * tried, 1000),
    // A peer that has vanished sends nothing, not even an end: connects again.
    socketTimeout: 3000,
  })
  // The client of the store reports errors of Redis.
  redis.on('error', () => undefined)
  return new RedisUsers(redis, seededUsers())
}
