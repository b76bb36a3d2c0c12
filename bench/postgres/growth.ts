// npm run bench:postgres:growth [-- --tasks 1000000 --days 3]: what tasks leave in PostgreSQL, day after day.
// A "day" accepts and runs that many tasks, then deletes their rows as the engine does when they expire, and waits for autovacuum.
import { parseArgs } from 'node:util'
import { createTasks, defineTask } from 'longhaul'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { startPostgres } from '../../test/servers/postgres-server.js'
import { table } from '../frame/table.js'

const { values } = parseArgs({ options: { tasks: { type: 'string', default: '100000' }, days: { type: 'string', default: '3' } } })
const [taskCount, days] = [Number(values.tasks), Number(values.days)]
/** Tasks that are under way at once. */
const UNDER_WAY = 200
const OWNERS = 1000

interface Table { readonly name: string, readonly bytes: number, readonly live: number, readonly dead: number }

// Autovacuum looks every 5 s in place of every minute, because a day is minutes here.
const server = await startPostgres({ settings: { autovacuum_naptime: '5s' } })
const pool = new pg.Pool({ connectionString: server.url, max: 20, connectionTimeoutMillis: 5000 })
const report = defineTask({ name: 'report', maxPerOwner: Infinity, run: () => ({ message: 'The report is ready.' }) })
const { engine, store, blobs } = postgres({ pool, timeoutMs: 10_000 })
const tasks = createTasks({ engine, store, blobs, definitions: [report], concurrency: UNDER_WAY })
const [{ position = '' } = {}] = (await pool.query<{ position: string }>('SELECT pg_current_wal_lsn()::text AS position')).rows
const rows: string[][] = []

for (let day = 1; day <= days; day++) {
  const began = performance.now()
  await runTasks(day)
  await note(`day ${String(day)}: ${String(taskCount)} tasks in ${String(Math.round((performance.now() - began) / 1000))} s`)
  await expire()
  await note(`day ${String(day)}: expired and vacuumed`)
}
const [wal] = (await pool.query<{ bytes: string }>('SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), $1::pg_lsn)::text AS bytes', [position])).rows
await tasks.close()
await store.close()
await blobs.close()
await pool.end()
await server.stop()
process.stdout.write(`${table(['after', 'table', 'MiB with indexes', 'live rows', 'dead rows'], rows)}

Write-ahead log: ${(Number(wal?.bytes) / days / taskCount / 1024).toFixed(1)} KiB a task.
`)

async function runTasks(day: number): Promise<void> {
  let next = 0
  const one = async (): Promise<void> => {
    while (next < taskCount) {
      const number = next++
      const task = await tasks.submit(report, { day, number }, { owner: `user-${String(number % OWNERS)}` })
      await task.wait({ timeoutMs: 60_000 })
    }
  }
  await Promise.all(Array.from({ length: UNDER_WAY }, one))
}

/** Deletes what expires at the end of a day, a thousand rows at a time, and waits until autovacuum has seen to the tables. */
async function expire(): Promise<void> {
  for (let deleted = 1; deleted > 0;) {
    const { rowCount } = await pool.query(
      'DELETE FROM longhaul.task_rows WHERE ctid = ANY (ARRAY(SELECT ctid FROM longhaul.task_rows LIMIT 1000))',
    )
    deleted = rowCount ?? 0
  }
  for (const end = performance.now() + 180_000; performance.now() < end;) {
    await new Promise((resolve) => { setTimeout(resolve, 2000) })
    if ((await tables()).every(({ dead, live }) => dead < 1000 + live)) return
  }
}

async function note(after: string): Promise<void> {
  for (const { name, bytes, live, dead } of await tables()) {
    rows.push([after, name, (bytes / 1024 ** 2).toFixed(1), String(live), String(dead)])
  }
  process.stderr.write(`${after}\n`)
}

/** The tables of 1 MiB or more. */
async function tables(): Promise<readonly Table[]> {
  const { rows: found } = await pool.query<{ name: string, bytes: string, live: string, dead: string }>(`
    SELECT schemaname || '.' || relname AS name, pg_total_relation_size(relid)::text AS bytes,
      n_live_tup::text AS live, n_dead_tup::text AS dead
    FROM pg_stat_user_tables WHERE pg_total_relation_size(relid) > 1048576 ORDER BY 1`)
  return found.map(({ name, bytes, live, dead }) => ({ name, bytes: Number(bytes), live: Number(live), dead: Number(dead) }))
}
