// A whole set-up on PGlite: records, blobs and limits in one database, work in this process.
import assert from 'node:assert/strict'
import { PGlite } from '@electric-sql/pglite'
import { after, test } from 'node:test'
import { createTasks, defineTask } from 'longhaul'
import { MemoryQueue } from 'longhaul/memory'
import { postgres } from 'longhaul/postgres'

const pool = await PGlite.create()
const engine = postgres({ pool })
const double = defineTask({ name: 'double', run: () => ({ done: true }) })
const tasks = createTasks({ ...engine, queue: new MemoryQueue(), definitions: [double] })
after(async () => {
  await tasks.close()
  await engine.store.close()
  await engine.blobs.close()
  await pool.close()
})

test('a task on PGlite runs, and its record is a row', async () => {
  const task = await tasks.submit(double, {})
  assert.equal((await task.wait({ timeoutMs: 20_000 }))?.status, 'completed')
  assert.equal((await tasks.get(task.taskId))?.status, 'completed')
  const { rows } = await pool.query('SELECT 1 FROM longhaul.entries WHERE key LIKE $1', [`%${task.taskId}%`])
  assert.ok(rows.length > 0)
})
