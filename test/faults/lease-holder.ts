// A process whose tasks are in Redis and run in itself: node lease-holder.ts <redis url>. Prints the id of a task that never ends.
import { Redis } from 'ioredis'
import { createTasks, defineTask } from 'longhaul'
import { MemoryQueue } from 'longhaul/memory'
import { RedisStore } from 'longhaul/redis'

const endless = defineTask({ name: 'endless', run: () => new Promise<never>(() => undefined) })
const store = new RedisStore({ client: new Redis(process.argv[2] ?? '') })
const tasks = createTasks({ store, queue: new MemoryQueue(), definitions: [endless], leaseMs: 1000 })
const { id } = await tasks.submit(endless, {})
console.log(id)
