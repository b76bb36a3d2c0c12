import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTasks } from 'longhaul'
import type { Job } from 'longhaul/queues'
import { BullMQQueue } from 'longhaul/bullmq'
import { RedisStore } from 'longhaul/redis'
import { crashCluster } from './cluster.js'
import { crashRedis } from './redis.js'
import { webSuite } from './web-suite.js'
import { workOn } from './work.js'

const database = await crashRedis()
const { redis, jobs, board, runs } = database
const cluster = await crashCluster(database)
const { start, end, idle } = cluster

webSuite(database, cluster)

test('an enqueue that timed out and lands after all: a job without a record does nothing', async (t) => {
  let landed: Promise<unknown> | undefined
  class LateQueue extends BullMQQueue {
    override async enqueue(job: Job): Promise<'accepted' | 'full'> {
      landed = new Promise((resolve) => { setTimeout(() => { resolve(super.enqueue(job)) }, 200) })
      throw new Error('Nobody answered in time')
    }
  }
  const store = new RedisStore({ client: redis })
  const queue = new LateQueue({ connection: jobs })
  const work = workOn((taskId) => redis.incr(`runs:${taskId}`))
  const tasks = createTasks({ store, queue, definitions: [work], worker: false })
  t.after(async () => {
    await tasks.close()
    await store.close()
  })
  await assert.rejects(tasks.submit(work, {}, { id: 'late' }), { code: 'service_unavailable' })
  await landed
  assert.equal(await tasks.get('late'), undefined)
  assert.deepEqual((await board.bull.getJobs()).map(({ name, data }) => [name, (data as Job).taskId]), [['work', 'late']])
  const worker = await start('worker')
  await idle()
  assert.equal(await runs('late'), 0)
  assert.equal(await tasks.get('late'), undefined)
  await end(worker)
})
