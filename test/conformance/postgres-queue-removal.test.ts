// A removal while workers take jobs: a job that was removed does not run.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { PostgresQueue } from 'longhaul/postgres'
import pg from 'pg'
import { postgresUrl } from '../servers/postgres-url.js'

const pool = new pg.Pool({ connectionString: await postgresUrl(), max: 20 })
after(() => pool.end())

test('of many jobs each runs or was removed, never both', async () => {
  const options = { pool, name: 'removal', timeoutMs: 10_000 }
  const producer = new PostgresQueue(options)
  const workers = [new PostgresQueue(options), new PostgresQueue(options)]
  const ran = new Set<string>()
  for (const worker of workers) {
    worker.process(async ({ id }) => { ran.add(id) }, { concurrency: 5, onDead: () => undefined })
  }
  const removed = new Set<string>()
  await Promise.all(Array.from({ length: 10 }, async (_, lane) => {
    for (let at = 0; at < 40; at++) {
      const id = `job-${String(lane)}-${String(at)}`
      await producer.enqueue({ id, taskId: id, name: 'work', input: 1 })
      if (await producer.remove(id)) removed.add(id)
    }
  }))
  while (ran.size + removed.size < 400) await new Promise((resolve) => { setTimeout(resolve, 20) })
  assert.deepEqual([...ran].filter((id) => removed.has(id)), [])
  assert.ok(removed.size > 0, 'no job was removed in time')
  await Promise.all([producer, ...workers].map((queue) => queue.close()))
})
