// One side of a queue: node clock-queue.ts <redis url> <enqueue | work> <name of the queue>. Says when it is ready, and what it runs.
import { Redis } from 'ioredis'
import { BullMQQueue } from 'longhaul/bullmq'

const [, , url = '', role = '', name = ''] = process.argv
const queue = new BullMQQueue({ connection: new Redis(url, { maxRetriesPerRequest: null }), name })
if (role === 'work') queue.process(async ({ taskId }) => { console.log(`ran ${taskId}`) }, { concurrency: 1, onDead: () => undefined })
else await queue.enqueue({ id: 'delayed', taskId: 'delayed', name: 'work', input: 1 }, { delayMs: 4000 })
console.log('ready')
