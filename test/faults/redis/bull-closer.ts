// A worker whose connection to BullMQ is made of options: node bull-closer.ts <port of Redis>. Runs a task, says so, and ends on SIGTERM.
import { Redis } from 'ioredis'
import { createTasks, defineTask } from 'longhaul'
import { redis } from 'longhaul/redis'

const port = Number(process.argv[2])
const client = new Redis(port, { retryStrategy: () => 100 })
client.on('error', () => undefined)
const work = defineTask({ name: 'work', run: () => { console.log('The worker is ready') } })
const { engine, store } = redis({ client, connection: { host: '127.0.0.1', port } })
const tasks = createTasks({ engine, store, definitions: [work] })
process.once('SIGTERM', () => {
  void tasks.close({ drainMs: 1000 }).then(() => store.close()).then(() => { client.disconnect() })
})
await tasks.submit(work, undefined)
