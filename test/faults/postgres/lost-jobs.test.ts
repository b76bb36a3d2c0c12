// Records without a job, by real processes on a real PostgreSQL.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client } from '../../http/kit/reference.js'
import { crashCluster } from '../crash/cluster.js'
import { crashPostgres } from '../crash/postgres.js'

const database = await crashPostgres()
const { pool, runs, taskIds } = database
const { client, submit, start, died, end, idle } = await crashCluster(database)

test('a web process that dies between record and job leaves a task that a worker finds and runs', async () => {
  const crashing = await start('web', 'created task')
  // With a key its client knows of the task before the answer: a retry would be told of it.
  await assert.rejects(submit(new Client(await crashing.url()), {}, 'before-the-job'))
  await died(crashing)
  const [id = ''] = await taskIds()
  assert.equal((await client.ask('GET', `/tasks/${id}`)).json.status, 'processing')
  const worker = await start('worker')
  assert.equal((await client.ended(`/tasks/${id}`)).json.status, 'completed')
  await idle()
  assert.equal(await runs(id), 1)
  await end(worker)
})

test('accepted tasks whose jobs are lost run all the same', async () => {
  const ids = await Promise.all(Array.from({ length: 10 }, async () => String((await submit(client, {})).json.taskId)))
  const { rowCount } = await pool.query('delete from longhaul_bullmq.job')
  assert.equal(rowCount, 10)
  const [one, two] = await Promise.all([start('worker'), start('worker')])
  for (const id of ids) assert.equal((await client.ended(`/tasks/${id}`)).json.status, 'completed')
  await idle()
  for (const id of ids) assert.equal(await runs(id), 1)
  await Promise.all([end(one), end(two)])
})
