// npm run bench:postgres:transactions [-- --seconds 5]: submits in transactions of the application, 1 to 32 at the same time, with and
// without a notice in each of them. PostgreSQL commits transactions with a notice one at a time. Commits wait for the disk.
import { parseArgs } from 'node:util'
import { createTasks, defineTask } from 'longhaul'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { startPostgres } from '../../test/servers/postgres-server.js'
import { spread } from '../frame/stats.js'
import { table } from '../frame/table.js'

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '5' }, rounds: { type: 'string', default: '3' } } })
const [seconds, rounds] = [Number(values.seconds), Number(values.rounds)]
const CHANNEL = 'longhaul.changes'

const server = await startPostgres({ fsync: true })
const pool = new pg.Pool({ connectionString: server.url, max: 40 })
const report = defineTask({ name: 'report', maxPerOwner: Infinity, run: () => 'done' })
const { engine, store, blobs } = postgres({ pool, timeoutMs: 10_000 })
const tasks = createTasks({ engine, store, blobs, definitions: [report], worker: false })
await tasks.submit(report, {})
await pool.query('CREATE TABLE invoices (id bigserial PRIMARY KEY, amount integer NOT NULL)')

const kinds = ['insert', 'insert and notice', 'submit', 'submit and notice'] as const

async function one(client: pg.PoolClient, kind: typeof kinds[number], number: number): Promise<void> {
  await client.query('BEGIN')
  await client.query('INSERT INTO invoices (amount) VALUES ($1)', [number])
  if (kind.startsWith('submit')) await tasks.submit(report, { number }, { transaction: client })
  if (kind.endsWith('notice')) await client.query('SELECT pg_notify($1, $2)', [CHANNEL, 'task:!default'])
  await client.query('COMMIT')
}

/** Returns the transactions in a second. */
async function measure(kind: typeof kinds[number], parallel: number): Promise<number> {
  let done = 0
  const began = performance.now()
  const end = began + seconds * 1000
  await Promise.all(Array.from({ length: parallel }, async () => {
    const client = await pool.connect()
    while (performance.now() < end) await one(client, kind, done++)
    client.release()
  }))
  return done / (performance.now() - began) * 1000
}

const found: string[][] = []
for (const parallel of [1, 8, 32]) {
  const samples = new Map(kinds.map((kind) => [kind, [] as number[]]))
  for (let round = 0; round < rounds; round++) {
    for (const kind of kinds) samples.get(kind)?.push(await measure(kind, parallel))
    process.stderr.write(`${String(parallel)} at the same time, round ${String(round + 1)}\n`)
  }
  for (const [kind, each] of samples) {
    const { median } = spread(each)
    found.push([String(parallel), kind, median.toFixed(0), `${Math.min(...each).toFixed(0)} to ${Math.max(...each).toFixed(0)}`])
  }
}
await tasks.close()
await store.close()
await blobs.close()
await pool.end()
await server.stop()
process.stdout.write(`${table(['at the same time', 'transaction', 'in a second', 'range'], found)}\n`)
