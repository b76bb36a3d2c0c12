// A process that keeps its tasks in a shared store and runs them itself: node clock-process.ts <redis url>. Says what it has begun.
import { Redis } from 'ioredis'
import { createTasks, defineTask } from 'longhaul'
import { MemoryQueue } from 'longhaul/memory'
import { RedisStore } from 'longhaul/redis'

const quick = defineTask({ name: 'quick', run: () => 'done' })
const endless = defineTask({ name: 'endless', run: (_input, { signal }) => new Promise((_, reject) => {
  signal.addEventListener('abort', () => { reject(signal.reason as Error) })
}) })
const store = new RedisStore({ client: new Redis(process.argv[2] ?? '') })
// Lifetimes that are much shorter than the skew.
const tasks = createTasks({
  store, queue: new MemoryQueue(), definitions: [quick, endless], leaseMs: 2000, pendingMs: 20_000, retentionMs: 20_000,
})
const running = await tasks.submit(endless, {})
const ended = await tasks.submit(quick, {})
await tasks.wait(ended.taskId, { timeoutMs: 10_000 })
console.log(JSON.stringify({ now: Date.now(), running: running.taskId, ended: ended.taskId }))
