// A worker whose connection BullMQ makes of options: node queue-closer.ts <port of Redis>. Runs a job, says so, and ends on SIGTERM.
import { BullMQQueue } from 'longhaul/bullmq'

const queue = new BullMQQueue({ connection: { host: '127.0.0.1', port: Number(process.argv[2]) } })
process.once('SIGTERM', () => { void queue.close({ drainMs: 1000 }) })
queue.process(async () => { console.log('The worker is ready') }, { concurrency: 1, onDead: () => undefined })
await queue.enqueue({ id: 'first', taskId: 'first', name: 'work', input: 1 })
