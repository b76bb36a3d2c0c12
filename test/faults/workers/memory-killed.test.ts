// What docs/guarantees.md says no to.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'node:test'
import { Redis } from 'ioredis'
import { createTasks, type AnyTaskDefinition } from 'longhaul'
import { callbacks, httpSender } from 'longhaul/callbacks'
import { MemoryQueue } from 'longhaul/memory'
import { RedisStore } from 'longhaul/redis'
import { eventually, pause } from '../../../src/conformance/waiting.js'
import { receiver, SECRET } from '../../http/callbacks/kit.js'
import { ServerProcess, startProcess, stopAfterwards } from '../../http/kit/process.js'
import { Client } from '../../http/kit/reference.js'
import { redisForFile } from '../../servers/redis-server.js'

stopAfterwards()
const redis = await redisForFile()

test('in memory nothing outlives a killed process: no status, no work, no callback', async (t) => {
  const { url: callbackUrl, seen } = await receiver(t)
  const env = { AUTH_TOKENS: 'writer-1=will:writer', CALLBACK_ALLOW: '127.0.0.1' }
  const killed = startProcess(env)
  const accepted = await new Client(await killed.url()).ask('POST', '/start-task', { body: { taskData: 'x', callbackUrl } })
  assert.equal(accepted.status, 202)
  killed.child.kill('SIGKILL')
  await killed.exited
  const before = seen.length
  const next = new Client(await startProcess(env).url())
  assert.equal((await next.ask('GET', accepted.headers.get('location') ?? '')).status, 404)
  // The work takes less than a second.
  await pause(1500)
  assert.equal(seen.length, before)
})

test('with records in Redis and the queue in memory, a callback that waits for its next attempt ends with its process', async (t) => {
  const { url: callbackUrl, seen } = await receiver(t, (res) => { res.writeHead(500).end() })
  const file = join(import.meta.dirname, 'lease-holder.ts')
  const holder = new ServerProcess(process.execPath, ['--import', 'tsx', file, redis.url, callbackUrl], {})
  while (!holder.out.includes('\n')) await Promise.race([once(holder.child.stdout ?? holder.child, 'data'), holder.exited.then(() => { throw new Error(holder.err) })])
  const client = new Redis(redis.url)
  const store = new RedisStore({ client })
  const tasks = createTasks({
    store, queue: new MemoryQueue(), definitions: [] as AnyTaskDefinition[], leaseMs: 1000,
    callbacks: callbacks({ sender: httpSender({ allow: ['127.0.0.1'] }), secrets: () => [SECRET], queue: new MemoryQueue() }),
  })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await store.close()
    client.disconnect()
  })
  const id = holder.out.trim()
  await eventually(async () => (await tasks.get(id))?.callback?.attempts === 1, 10_000, 'the first attempt is noted')
  holder.child.kill('SIGKILL')
  await holder.exited
  // Two leases, and more than the back-off.
  await pause(3000)
  const task = await tasks.get(id)
  assert.deepEqual([task?.status, task?.callback?.state, task?.callback?.attempts, seen.length], ['completed', 'pending', 1, 1])
})
