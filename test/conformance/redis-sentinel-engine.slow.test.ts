import * as runner from 'node:test'
import { Redis } from 'ioredis'
import { engineConformance } from 'longhaul/conformance'
import { redisFixture } from './redis-fixture.js'
import { sentinelForFile } from '../servers/redis-sentinel.js'

// No fail-over: a server of a busy machine may be late.
const { master, options } = await sentinelForFile(60_000)

engineConformance(
  runner,
  async (settings) =>
    redisFixture(
      settings,
      [master.port],
      ([proxy]) =>
        new Redis({
          ...options,
          retryStrategy: () => 50,
          natMap: { [`127.0.0.1:${String(master.port)}`]: { host: '127.0.0.1', port: proxy?.port ?? 0 } },
        }),
    ),
  {
    title: 'RedisTaskEngine behind sentinels',
    leaseMs: 1200,
    toleranceMs: 100,
    removesAgainSoon: true,
    concurrency: 8,
  },
)
