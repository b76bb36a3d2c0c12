import * as runner from 'node:test'
import { Cluster, Redis } from 'ioredis'
import {
  engineConformance, type EngineFixture, type EngineSettings,
} from 'longhaul/conformance'
import { RedisTaskEngine } from '../../adapters/redis/engine.js'
import { comparesWithModel } from './engine-oracle.js'
import { clusterForFile } from '../servers/redis-cluster.js'
import { redisForFile } from '../servers/redis-server.js'
import { TcpProxy } from '../servers/tcp-proxy.js'

const { port } = await redisForFile()
const cluster = await clusterForFile()
let fixtures = 0

/** Processes whose packets go through proxies, one for each of the servers. */
function redisFixture(
  { leaseMs, share }: EngineSettings, ports: readonly number[],
  connect: (proxies: readonly TcpProxy[]) => Redis | Cluster,
): EngineFixture {
  const namespace = `fixture-${String(++fixtures)}`
  const closers: (() => Promise<void>)[] = []
  return {
    async open() {
      const proxies = await Promise.all(ports.map((each) => TcpProxy.to(each)))
      const client = connect(proxies)
      client.on('error', () => undefined)
      const engine = new RedisTaskEngine({
        client, namespace, leaseMs,
        ...share && { maxEntriesPerOwner: share.tasks, maxBytesPerOwner: share.bytes },
      })
      const kill = () => {
        client.disconnect()
        for (const proxy of proxies) proxy.close()
      }
      closers.push(async () => {
        for (const proxy of proxies) proxy.heal()
        await engine.close({ drainMs: 0 })
        kill()
      })
      return {
        engine, kill,
        freeze: () => { for (const proxy of proxies) proxy.swallow() },
        thaw: () => { for (const proxy of proxies) proxy.heal() },
      }
    },
    async close() { await Promise.all(closers.map((close) => close())) },
    async snapshot() {
      const admin = ports.length === 1
        ? new Redis(ports[0] ?? 0)
        : new Cluster(ports.map((each) => ({ host: '127.0.0.1', port: each })))
      const all = async (): Promise<string[]> => {
        await admin.get(`{${namespace}}`)
        const nodes = admin instanceof Cluster ? admin.nodes('master') : [admin]
        return (await Promise.all(nodes.map((node) => node.keys(`{${namespace}}:*`)))).flat()
      }
      const copies = await Promise.all((await all()).map(async (key) => [key, await admin.dumpBuffer(key)] as const))
      return async () => {
        const keys = await all()
        if (keys.length > 0) await admin.del(...keys)
        for (const [key, copy] of copies) if (copy) await admin.restore(key, 0, copy)
        admin.disconnect()
      }
    },
  }
}

const open = async (settings: EngineSettings): Promise<EngineFixture> => (
  redisFixture(settings, [port], ([proxy]) => new Redis(proxy?.port ?? 0, { retryStrategy: () => 50 }))
)
comparesWithModel(runner, open)
engineConformance(runner, open, { title: 'RedisTaskEngine', leaseMs: 600, toleranceMs: 100, removesAgainSoon: true })

const ports = cluster.map((server) => server.port)
engineConformance(runner, async (settings) => redisFixture(settings, ports, (proxies) => {
  const places = proxies.map((proxy) => ({ host: '127.0.0.1', port: proxy.port }))
  const natMap = Object.fromEntries(ports.map((each, at) => [`127.0.0.1:${String(each)}`, places[at]]))
  return new Cluster(places, {
    natMap: natMap as Record<string, { host: string, port: number }>, clusterRetryStrategy: () => 50,
  })
}), {
  title: 'RedisTaskEngine on a Cluster', leaseMs: 600, toleranceMs: 100, removesAgainSoon: true,
})
