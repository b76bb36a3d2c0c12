// A worker on PostgreSQL: node queue-process.ts <postgres url> <name of the queue> <open | closed>. On SIGTERM it
// closes its queue and, with `closed`, the pool. Nothing else keeps it alive, and nothing ends it.
import pg from 'pg'
import { PostgresQueue } from 'longhaul/postgres'

const [, , connectionString = '', name = '', pools = 'open'] = process.argv
const pool = new pg.Pool({ connectionString, idleTimeoutMillis: 500 })
const queue = new PostgresQueue({ pool, name, lockDurationMs: 1000, stalledIntervalMs: 500 })
queue.process(async ({ taskId, input }) => {
  console.log(`began ${taskId}`)
  if (typeof input === 'number') await new Promise((resolve) => { setTimeout(resolve, input) })
  console.log(`ended ${taskId}`)
}, { concurrency: 2, onDead: ({ taskId }, reason) => { console.log(`dead ${taskId} ${reason}`) } })
process.once('SIGTERM', () => {
  void queue.close({ drainMs: 1000 }).then(() => {
    console.log('closed')
    return pools === 'closed' ? pool.end() : undefined
  })
})
await queue.enqueue({ id: `ready-${String(process.pid)}`, taskId: 'ready', name: 'work', input: 1 })
