// One side of a queue: node queue.ts <redis or postgres url> <enqueue | work> <name of the queue>. Says when it is ready, and what it runs.
import { Redis } from 'ioredis'
import pg from 'pg'
import { BullMQQueue } from 'longhaul/bullmq'
import { PostgresQueue } from 'longhaul/postgres'

const [, , url = '', role = '', name = ''] = process.argv
// The machine may be busy.
const TIMES = { lockDurationMs: 2000, stalledIntervalMs: 500, timeoutMs: 10_000 }
const queue = url.startsWith('postgres')
  ? new PostgresQueue({ pool: new pg.Pool({ connectionString: url }), name, ...TIMES })
  : new BullMQQueue({ connection: new Redis(url, { maxRetriesPerRequest: null }), name, ...TIMES })
if (role === 'work') {
  queue.process(async ({ taskId, input }) => {
    console.log(`ran ${taskId}`)
    await new Promise((resolve) => { setTimeout(resolve, Number(input)) })
    console.log(`ended ${taskId}`)
  }, { concurrency: 1, onDead: () => undefined })
} else {
  const delayMs = role === 'enqueue' ? 4000 : 0
  await queue.enqueue({ id: 'job', taskId: 'job', name: 'work', input: delayMs === 0 ? 6000 : 1 }, { delayMs })
}
console.log('ready')
