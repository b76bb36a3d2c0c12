// A worker on PostgreSQL: node worker-process.ts <postgres url> <open | closed>. On SIGTERM it closes its tasks and,
// with `closed`, the pool. Nothing else keeps it alive, and nothing ends it.
import { createTasks } from 'longhaul'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { work } from './work.js'

const [, , connectionString = '', pools = 'open'] = process.argv
const pool = new pg.Pool({ connectionString, idleTimeoutMillis: 500 })
const { engine, store } = postgres({ pool, leaseMs: 1000 })
const tasks = createTasks({ engine, store, definitions: [work((text) => { console.log(text) })], concurrency: 2 })
process.once('SIGTERM', () => {
  void tasks.close({ drainMs: 1000 }).then(() => store.close()).then(() => {
    console.log('closed')
    return pools === 'closed' ? pool.end() : undefined
  })
})
await engine.now()
console.log('ready')
