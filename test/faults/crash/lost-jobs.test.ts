// Records without a job, by real processes on a real Redis and BullMQ.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../../../src/conformance/waiting.js'
import { Client } from '../../http/kit/reference.js'
import { crashCluster } from './cluster.js'
import { crashRedis } from './redis.js'

const database = await crashRedis()
const { redis, runs, taskIds } = database
const { client, submit, start, died, end, idle } = await crashCluster(database)

/** What the shard of the queue loses when it fails over. */
async function loseJobs(): Promise<void> {
  const keys = await redis.keys('{longhaul}:tasks:*')
  assert.ok(keys.length > 0)
  await redis.del(...keys)
}

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
  await loseJobs()
  const [one, two] = await Promise.all([start('worker'), start('worker')])
  for (const id of ids) assert.equal((await client.ended(`/tasks/${id}`)).json.status, 'completed')
  await idle()
  for (const id of ids) assert.equal(await runs(id), 1)
  await eventually(async () => await redis.zcard('longhaul:unfinished') === 0, 10_000, 'the index holds unfinished tasks only')
  await Promise.all([end(one), end(two)])
})

test('a task whose input is too large for its record is enqueued again when its job is lost', async () => {
  const { json: { taskId } } = await submit(client, { filling: 'x'.repeat(20_000) })
  await loseJobs()
  const worker = await start('worker')
  assert.equal((await client.ended(`/tasks/${String(taskId)}`)).json.status, 'completed')
  assert.equal(await runs(taskId), 1)
  await end(worker)
})

test('a task whose worker died and whose job is lost fails, task_lost, once a run may not take longer', async () => {
  const { json: { taskId } } = await submit(client, { endless: true })
  const killed = await start('worker')
  await eventually(async () => await runs(taskId) === 1, 30_000, 'the work runs')
  await end(killed)
  await loseJobs()
  const worker = await start('worker')
  const { json } = await client.ended(`/tasks/${String(taskId)}`)
  assert.deepEqual([json.status, json.error.code], ['failed', 'task_lost'])
  await end(worker)
})

test('a run that continues although its job is lost may finish', async () => {
  const worker = await start('worker')
  const { json: { taskId } } = await submit(client, { ms: 4000 })
  await eventually(async () => await runs(taskId) === 1, 30_000, 'the work runs')
  await loseJobs()
  const other = await start('worker')
  assert.equal((await client.ended(`/tasks/${String(taskId)}`)).json.status, 'completed')
  assert.equal(await runs(taskId), 1)
  await Promise.all([end(worker), end(other)])
})
