import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { Redis } from 'ioredis'
import { createTasks } from 'longhaul'
import { BullMQQueue } from 'longhaul/bullmq'
import { RedisStore } from 'longhaul/redis'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { redisForFile } from '../../servers/redis-server.js'
import { innocent, poison } from './poison.js'

stopAfterwards()
const { url } = await redisForFile()

test('a task that kills its process ends failed after bounded attempts, and other tasks run', async (t) => {
  const connection = new Redis(url, { maxRetriesPerRequest: null })
  const client = new Redis(url)
  const store = new RedisStore({ client })
  const tasks = createTasks({ store, queue: new BullMQQueue({ connection }), definitions: [poison, innocent], worker: false })
  let deaths = 0
  let over = false
  t.after(async () => {
    over = true
    await tasks.close({ drainMs: 0 })
    await store.close()
    for (const each of [connection, client]) each.disconnect()
  })
  const supervise = (): void => {
    const worker = new ServerProcess(process.execPath, ['--import', 'tsx', join(import.meta.dirname, 'poison-worker.ts'), url], {})
    void worker.exited.then(() => {
      deaths++
      if (!over) supervise()
    })
  }
  const bad = await tasks.submit(poison, {})
  const good = await Promise.all(Array.from({ length: 5 }, () => tasks.submit(innocent, {})))
  supervise()
  assert.equal((await tasks.wait(bad.taskId, { timeoutMs: 40_000 }))?.status, 'failed')
  assert.equal((await tasks.get(bad.taskId))?.error?.code, 'task_interrupted')
  assert.equal(deaths, 2, 'one run, and one more after the first was lost')
  for (const { taskId: id } of good) assert.equal((await tasks.wait(id, { timeoutMs: 20_000 }))?.status, 'completed')
})
