import * as runner from 'node:test'
import { Cluster, Redis } from 'ioredis'
import { engineConformance, type EngineFixture, type EngineSettings } from 'longhaul/conformance'
import { comparesWithModel } from './engine-oracle.js'
import { redisFixture } from './redis-fixture.js'
import { clusterForFile } from '../servers/redis-cluster.js'
import { redisForFile } from '../servers/redis-server.js'

const { port } = await redisForFile()
const cluster = await clusterForFile()

const open = async (settings: EngineSettings): Promise<EngineFixture> => (
  redisFixture(settings, [port], ([proxy]) => new Redis(proxy?.port ?? 0, { retryStrategy: () => 50 }))
)
comparesWithModel(runner, open)
engineConformance(runner, open, {
  title: 'RedisTaskEngine', leaseMs: 1200, toleranceMs: 100, removesAgainSoon: true, concurrency: 8,
})

const ports = cluster.map((server) => server.port)
engineConformance(runner, async (settings) => redisFixture(settings, ports, (proxies) => {
  const places = proxies.map((proxy) => ({ host: '127.0.0.1', port: proxy.port }))
  const natMap = Object.fromEntries(ports.map((each, at) => [`127.0.0.1:${String(each)}`, places[at]]))
  return new Cluster(places, {
    natMap: natMap as Record<string, { host: string, port: number }>, clusterRetryStrategy: () => 50,
  })
}), {
  title: 'RedisTaskEngine on a Cluster', leaseMs: 1200, toleranceMs: 100, removesAgainSoon: true, concurrency: 8,
})
