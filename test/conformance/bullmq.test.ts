import * as runner from 'node:test'
import { after, describe } from 'node:test'
import { Cluster, Redis } from 'ioredis'
import { BullMQQueue } from 'longhaul/bullmq'
import { queueConformance } from 'longhaul/conformance'
import { clusterForFile } from '../servers/redis-cluster.js'
import { redisUrl } from '../servers/redis-server.js'

const url = await redisUrl()
const cluster = await clusterForFile()
const nodes = cluster.map(({ port }) => ({ host: '127.0.0.1', port }))
const clients = {
  'a single server': () => new Redis(url, { maxRetriesPerRequest: null }),
  'a cluster': () => new Cluster(nodes, { redisOptions: { maxRetriesPerRequest: null } }),
}

describe('BullMQQueue', { concurrency: 2 }, () => {
  for (const [title, make] of Object.entries(clients)) {
    const connection = make()
    after(() => { connection.disconnect() })
    let made = 0
    queueConformance(runner, async () => {
      const options = { connection, name: `test-${String(process.pid)}-${String(made++)}`, stalledIntervalMs: 1000 }
      const queue = new BullMQQueue(options)
      const producer = new BullMQQueue(options)
      return {
        queue, producer,
        close: async () => {
          await Promise.all([queue.close({ drainMs: 0 }), producer.close()])
          const rest = new BullMQQueue(options)
          await rest.bull.obliterate({ force: true })
          await rest.close()
        },
      }
    }, { title: `on ${title}`, toleranceMs: 100 })
  }
})
