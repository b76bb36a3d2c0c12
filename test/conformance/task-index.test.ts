import * as runner from 'node:test'
import { after, describe } from 'node:test'
import { Cluster, Redis } from 'ioredis'
import { taskIndexConformance } from 'longhaul/conformance'
import { MemoryTaskIndex } from 'longhaul/memory'
import { RedisTaskIndex } from 'longhaul/redis'
import { clusterForFile } from '../servers/redis-cluster.js'
import { redisUrl } from '../servers/redis-server.js'

const url = await redisUrl()
const cluster = await clusterForFile()
const clients = {
  'a single server': () => new Redis(url),
  'a cluster': () => new Cluster(cluster.map(({ port }) => ({ host: '127.0.0.1', port })), { slotsRefreshTimeout: 20_000 }),
}

taskIndexConformance(runner, async () => ({ index: new MemoryTaskIndex() }), { title: 'MemoryTaskIndex' })

describe('RedisTaskIndex', () => {
  for (const [title, make] of Object.entries(clients)) {
    const [client, other] = [make(), make()]
    after(() => { for (const each of [client, other]) each.disconnect() })
    let made = 0
    taskIndexConformance(runner, async () => {
      const namespace = `index-${String(process.pid)}-${String(made++)}`
      return { index: new RedisTaskIndex({ client, namespace }), second: new RedisTaskIndex({ client: other, namespace }) }
    }, { title: `on ${title}` })
  }
})
