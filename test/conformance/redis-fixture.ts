// Processes for the suite of engines on Redis.
import { Cluster, Redis } from 'ioredis'
import type { EngineFixture, EngineSettings } from 'longhaul/conformance'
import { RedisTaskEngine } from '../../adapters/redis/engine.js'
import { TcpProxy } from '../servers/tcp-proxy.js'

let fixtures = 0

/** Processes whose packets go through proxies, one for each of the servers. */
export function redisFixture(
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
