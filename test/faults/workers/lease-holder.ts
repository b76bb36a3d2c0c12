// A process whose tasks are in Redis and run in itself: node lease-holder.ts <redis url> [callback url]. Prints the id of a task that never
// ends, or, with a callback, of one that ends at once.
import { Redis } from 'ioredis'
import { createTasks, defineTask } from 'longhaul'
import { callbacks, httpSender } from 'longhaul/callbacks'
import { MemoryQueue } from 'longhaul/memory'
import { RedisStore } from 'longhaul/redis'

const [, , url = '', callbackUrl] = process.argv
const endless = defineTask({ name: 'endless', run: () => new Promise<never>(() => undefined) })
const quick = defineTask({ name: 'quick', run: () => ({ message: 'done' }) })
const store = new RedisStore({ client: new Redis(url) })
const tasks = createTasks({
  store, queue: new MemoryQueue(), definitions: [endless, quick], leaseMs: 1000,
  callbacks: callbacks({
    sender: httpSender({ allow: ['127.0.0.1'] }), secrets: () => ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'], queue: new MemoryQueue(),
    backoff: { type: 'fixed', delayMs: 1500 },
  }),
})
const { taskId: id } = callbackUrl === undefined ? await tasks.submit(endless, {}) : await tasks.submit(quick, {}, { callbackUrl })
console.log(id)
