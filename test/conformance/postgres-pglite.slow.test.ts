// A whole set-up on PGlite: tasks, store and blobs in one database, work in this process.
import assert from 'node:assert/strict'
import { PGlite } from '@electric-sql/pglite'
import { after, test } from 'node:test'
import { createTasks, defineTask } from 'longhaul'
import { postgres } from 'longhaul/postgres'

const pool = await PGlite.create()
const { engine, store, blobs } = postgres({ pool })
const double = defineTask({ name: 'double', run: () => ({ done: true }) })
const tasks = createTasks({ engine, store, blobs, definitions: [double] })
after(async () => {
  await tasks.close()
  await store.close()
  await blobs.close()
  await pool.close()
})

test('a task on PGlite runs, and is a row', async () => {
  const task = await tasks.submit(double, {})
  assert.equal((await task.wait({ timeoutMs: 20_000 }))?.status, 'completed')
  assert.equal((await tasks.get(task.taskId))?.status, 'completed')
  const { rows } = await pool.query('SELECT 1 FROM longhaul.task_rows WHERE id = $1', [task.taskId])
  assert.equal(rows.length, 1)
})
