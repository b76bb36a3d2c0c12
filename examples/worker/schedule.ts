// REDIS_URL=redis://127.0.0.1:6379 npx tsx examples/worker/schedule.ts
// Submits a report every night, which a worker runs. Start as many of these processes as you like.
import { Redis } from 'ioredis'
import { openEngine } from './engine.js'
import { startSchedule } from './recurring.js'

const url = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'
const connection = new Redis(url, { maxRetriesPerRequest: null })
connection.on('error', ({ message }) => { console.error(`Redis: ${message}`) })
const engine = openEngine({ worker: false })
const schedule = await startSchedule(engine.tasks, connection, process.env['SCHEDULE'])

async function stop(): Promise<void> {
  await schedule.stop()
  await engine.stop()
  connection.disconnect()
}
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => { void stop() })
console.log('The schedule is ready')
