// Ids of the application that are used again, on a real Redis.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { Redis } from 'ioredis'
import { createTasks, defineTask } from 'longhaul'
import { redis } from 'longhaul/redis'
import { redisForFile } from '../../servers/redis-server.js'
import { eventually } from '../../kit/wait.js'

const { url } = await redisForFile()

function setUp(t: TestContext) {
  const client = new Redis(url, { maxRetriesPerRequest: null })
  const engine = redis({ client })
  const began: string[] = []
  let release = () => undefined as void
  const gate = new Promise<void>((resolve) => { release = resolve })
  const work = defineTask({ name: 'work', run: async (input) => {
    began.push(String(input))
    // Deaf to its signal, so that its run stays active.
    if (input === 'old') await gate
    return { message: String(input) }
  } })
  const tasks = createTasks({ ...engine, definitions: [work], onError: () => undefined })
  t.after(async () => {
    release()
    await tasks.close()
    await engine.store.close()
    client.disconnect()
  })
  return { tasks, work, began, release }
}

test('a new task with the id of a cancelled and deleted task completes, while the old run is still active', async (t) => {
  const { tasks, work, began, release } = setUp(t)
  await tasks.submit(work, 'old', { id: 'order-7' })
  await eventually(() => began.length === 1, 10_000, 'the old task runs')
  await tasks.cancel('order-7')
  assert.equal(await tasks.delete('order-7'), true)
  assert.equal((await tasks.submit(work, 'new', { id: 'order-7' })).created, true)
  assert.equal((await tasks.wait('order-7', { timeoutMs: 10_000 }))?.status, 'completed')
  release()
  assert.deepEqual([began, (await tasks.get('order-7'))?.result], [['old', 'new'], { message: 'new' }])
})

test('an id can be used again and again after its end, and 5, id-5, NaN and -5 are four tasks', async (t) => {
  const { tasks, work, began } = setUp(t)
  const ids = ['5', 'id-5', 'NaN', '-5']
  for (const round of ['a', 'b', 'c']) {
    for (const id of ids) assert.equal((await tasks.submit(work, round + id, { id })).created, true)
    for (const id of ids) {
      assert.equal((await tasks.wait(id, { timeoutMs: 10_000 }))?.status, 'completed')
      assert.deepEqual((await tasks.get(id))?.result, { message: round + id })
      assert.equal(await tasks.delete(id), true)
    }
  }
  assert.equal(began.length, 12)
})
