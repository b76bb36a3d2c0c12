import assert from 'node:assert/strict'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'node:test'
import { Redis } from 'ioredis'
import { createTasks, defineTask, type Tasks } from 'longhaul'
import { MemoryQueue } from 'longhaul/memory'
import { RedisStore } from 'longhaul/redis'
import { eventually, pause } from '../../../src/conformance/waiting.js'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { redisForFile } from '../../servers/redis-server.js'

stopAfterwards()
const redis = await redisForFile()

const endless = defineTask({ name: 'endless', run: (_input, { signal }) => new Promise((_, reject) => { signal.addEventListener('abort', reject) }) })

async function process1(): Promise<{ process: ServerProcess, id: string }> {
  const holder = new ServerProcess(process.execPath, ['--import', 'tsx', join(import.meta.dirname, 'lease-holder.ts'), redis.url], {})
  while (!holder.out.includes('\n')) await Promise.race([once(holder.child.stdout ?? holder.child, 'data'), holder.exited.then(() => { throw new Error(holder.err) })])
  return { process: holder, id: holder.out.trim() }
}

function tasksHere(t: { after: (end: () => Promise<void>) => void }): Tasks {
  const client = new Redis(redis.url, { retryStrategy: () => 50 })
  client.on('error', () => undefined)
  const store = new RedisStore({ client })
  const tasks = createTasks({ store, queue: new MemoryQueue(), definitions: [endless], leaseMs: 1000 })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await store.close()
    client.disconnect()
  })
  return tasks
}

test('work whose process was killed reads as failed, task_interrupted, soon after its lease; a waiter is woken by it', async (t) => {
  const tasks = tasksHere(t)
  const { process: holder, id } = await process1()
  await pause(2500)
  assert.equal((await tasks.get(id))?.status, 'processing', 'a process that lives keeps its lease')
  const waiting = tasks.wait(id, { timeoutMs: 20_000 })
  holder.child.kill('SIGKILL')
  const killed = performance.now()
  assert.equal((await waiting)?.status, 'failed')
  // A lease, half a lease to make sure, and a reader that looks every 3 s.
  assert.ok(performance.now() - killed < 6000, `${String(Math.round(performance.now() - killed))} ms after the kill`)
  assert.equal((await tasks.get(id))?.error?.code, 'task_interrupted')
})

test('a process that lives through an outage longer than its lease keeps its tasks', async (t) => {
  const one = tasksHere(t)
  const other = tasksHere(t)
  const { taskId: id } = await one.submit(endless, {})
  await eventually(async () => (await other.get(id))?.startedAt !== undefined, 5000, 'the task runs')
  redis.freeze()
  await pause(3000)
  redis.thaw()
  const until = performance.now() + 3000
  while (performance.now() < until) {
    const task = await other.get(id).catch(() => undefined)
    if (task) assert.equal(task.status, 'processing')
    await pause(50)
  }
})

test('a cancel from another process aborts the run where it is, with the in-process queue too', async (t) => {
  let stopped = false
  const here = tasksHere(t)
  const client = new Redis(redis.url)
  const watched = defineTask({ name: 'endless', run: (_input, { signal }) => new Promise((_, reject) => {
    signal.addEventListener('abort', () => { stopped = true; reject(signal.reason as Error) })
  }) })
  const store = new RedisStore({ client })
  const there = createTasks({ store, queue: new MemoryQueue(), definitions: [watched] })
  t.after(async () => {
    await there.close({ drainMs: 0 })
    await store.close()
    client.disconnect()
  })
  const { taskId: id } = await there.submit(watched, {})
  await eventually(async () => (await here.get(id))?.startedAt !== undefined, 5000, 'the task runs')
  assert.equal((await here.cancel(id))?.status, 'cancelled')
  await eventually(() => stopped, 2000, 'the run hears of it at once')
})
