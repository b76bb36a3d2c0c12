// BullMQ's jobs are lost, by real processes on a real Redis.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { crashCluster } from '../kit/crash-cluster.js'
import { crashRedis } from './redis.js'
import { eventually } from '../../kit/wait.js'

const database = await crashRedis()
const { redis, runs } = database
const { client, submit, start, end, idle } = await crashCluster(database)

/** What the shard of the queue loses when it fails over. */
async function loseJobs(): Promise<void> {
  const keys = await redis.keys('{longhaul}:tasks:*')
  assert.ok(keys.length > 0)
  await redis.del(...keys)
}

test('accepted tasks whose jobs are lost run all the same', async () => {
  const ids = await Promise.all(Array.from({ length: 10 }, async () => String((await submit(client, {})).json.taskId)))
  await loseJobs()
  const [one, two] = await Promise.all([start('worker'), start('worker')])
  for (const id of ids) assert.equal((await client.ended(`/tasks/${id}`)).json.status, 'completed')
  await idle()
  for (const id of ids) assert.equal(await runs(id), 1)
  await Promise.all([end(one), end(two)])
})

test('a task whose jobs are lost runs, although its input is large', async () => {
  const { json: { taskId } } = await submit(client, { filling: 'x'.repeat(20_000) })
  await loseJobs()
  const worker = await start('worker')
  assert.equal((await client.ended(`/tasks/${String(taskId)}`)).json.status, 'completed')
  assert.equal(await runs(taskId), 1)
  await end(worker)
})

test('a task whose worker died and whose job is lost runs again', async () => {
  const { json: { taskId } } = await submit(client, { ms: 3000 })
  const killed = await start('worker')
  await eventually(async () => await runs(taskId) === 1, 30_000, 'the work runs')
  await end(killed)
  await loseJobs()
  const worker = await start('worker')
  const { json } = await client.ended(`/tasks/${String(taskId)}`)
  assert.deepEqual([json.status, json.attempt, await runs(taskId)], ['completed', 2, 2])
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
