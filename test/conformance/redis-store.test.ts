import * as runner from 'node:test'
import { after, describe } from 'node:test'
import { Cluster, Redis } from 'ioredis'
import { Cluster as Cluster5, Redis as Redis5 } from 'ioredis5'
import { storeConformance } from 'longhaul/conformance'
import { type RedisClient } from 'longhaul/redis'
import { RedisStore } from '../../adapters/redis/store.js'
import { clusterForFile } from '../servers/redis-cluster.js'
import { redisUrl } from '../servers/redis-server.js'

const url = await redisUrl()
const cluster = await clusterForFile()
/** By default a node that does not tell its slots within a second is none. */
const PATIENT = { slotsRefreshTimeout: 20_000 }
/** Two suites run at once, and the machine may have other work: a slow call is no failure here. */
const OPTIONS = { maxEntriesPerOwner: 20, maxBytesPerOwner: 16_000, timeoutMs: 20_000 }
const nodes = cluster.map(({ port }) => ({ host: '127.0.0.1', port }))

const clients: Readonly<Record<string, () => RedisClient>> = {
  'a single server, ioredis 6': () => new Redis(url),
  'a single server, ioredis 6 with auto-pipelining': () => new Redis(url, { enableAutoPipelining: true }),
  'a single server, ioredis 5': () => new Redis5(url),
  'a cluster, ioredis 6': () => new Cluster(nodes, PATIENT),
  'a cluster, ioredis 5 with auto-pipelining': () => new Cluster5(nodes, { ...PATIENT, enableAutoPipelining: true }),
}

describe('RedisStore', { concurrency: 2 }, () => {
  for (const [title, make] of Object.entries(clients)) {
    const one = make()
    const other = make()
    after(() => { for (const client of [one, other]) client.disconnect() })
    const namespace = `test-${String(process.pid)}-${title.replaceAll(/\W/g, '-')}`
    storeConformance(
      runner,
      async () => ({
        store: new RedisStore({ client: one, namespace, ...OPTIONS }),
        second: new RedisStore({ client: other, namespace, ...OPTIONS }),
      }),
      { title: `on ${title}`, callerShare: { entries: 20, bytes: 16_000 } },
    )
  }
})
