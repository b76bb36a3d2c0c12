// A process that imports, on a PGlite in a folder: node pglite-process.ts <folder> [task]. Waits for the end of the task.
import { PGlite } from '@electric-sql/pglite'
import { createTasks } from 'longhaul'
import { ndjsonUpload } from 'longhaul/ndjson'
import { postgres } from 'longhaul/postgres'
import { BATCH, type Row } from './work.js'

const LINES = 20_000
const [, , folder = '', interrupted] = process.argv
const pool = await PGlite.create(folder)
await pool.exec('create table if not exists rows (n int, at serial); create table if not exists cursors (id text primary key, cursor text)')
const engine = postgres({ pool })
const { blobs } = engine
const upload = ndjsonUpload<Row>({
  batchSize: BATCH,
  async write(records, { cursor, taskId }) {
    await pool.transaction(async (transaction) => {
      await transaction.query('insert into rows (n) select unnest($1::int[])', [records.map(({ n }) => n)])
      await transaction.query('insert into cursors values ($1, $2) on conflict (id) do update set cursor = excluded.cursor', [taskId, cursor()])
    })
    console.log('wrote')
  },
  async resume({ taskId }) {
    const { rows: [row] } = await pool.query<{ cursor: string }>('select cursor from cursors where id = $1', [taskId])
    console.log(`resumed ${row === undefined ? '' : (JSON.parse(row.cursor) as { done: number }).done}`)
    return row?.cursor
  },
  background: { name: 'import', blobs },
})
const tasks = createTasks({ ...engine, definitions: [upload.task] })

if (interrupted === undefined) {
  const body = Buffer.from(Array.from({ length: LINES }, (_, n) => `{"n":${n}}\n`).join(''))
  const blob = `ndjson-upload/${'a'.repeat(22)}`
  await blobs.put(blob, (async function* () { yield body })(), { ttlMs: 3_600_000 })
  const { taskId } = await tasks.submit(upload.task, { blob, coding: 'identity', size: body.length })
  console.log(`task ${taskId}\n`)
} else {
  const end = await tasks.wait(interrupted, { timeoutMs: 60_000 })
  const { rows: [row] } = await pool.query('select count(*)::int as count, count(distinct n)::int as numbers from rows')
  console.log(`end ${JSON.stringify({ status: end?.status, ...end?.status === 'completed' && { summary: end.result.summary }, ...row as object })}\n`)
}
