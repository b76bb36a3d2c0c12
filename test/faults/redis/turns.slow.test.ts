// Turns between owners at full size.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Redis } from 'ioredis'
import { redis } from 'longhaul/redis'
import { Places, type TaskEngine } from '../../../src/engine/engine.js'
import type { NewTask } from '../../../src/engine/task.js'
import { Json } from '../../../src/runtime/json.js'
import { redisForFile } from '../../servers/redis-server.js'
import { eventually, keepAlive, pause } from '../../kit/wait.js'

const [OWNERS, TASKS, PLACES, NEW] = [100, 100, 10, 20]
const server = await redisForFile()

test('with 100 owners of 100 tasks each, a task of a new owner begins after at most 110 other tasks', async (t) => {
  keepAlive(t)
  const begun: string[] = []
  const open = (): TaskEngine => {
    const client = new Redis(server.url)
    const { engine } = redis({ client, namespace: 'turns' })
    t.after(async () => {
      await engine.close({ drainMs: 0 })
      client.disconnect()
    })
    return engine
  }
  const task = (owner: string, n: number): NewTask => ({
    id: `${owner}-${String(n)}`,
    birth: 'b',
    owner,
    caller: owner,
    name: 'report',
    pool: 'default',
    priority: 0,
    input: Json.of(n),
    details: {},
    keepMs: 3_600_000,
  })
  const [web, ...workers] = [open(), open(), open()]
  for (let n = 0; n < TASKS; n++) {
    await Promise.all(Array.from({ length: OWNERS }, async (_, owner) => web.create(task(`owner-${String(owner)}`, n))))
  }
  for (const engine of workers) {
    engine.work({ places: new Places(new Map([['default', PLACES / workers.length]])), callbacks: 1 }, {
      run: async (run) => {
        begun.push(run.task.id)
        await pause(5)
        // The last runs end after the engine was closed.
        await Promise.resolve(engine.change(run.task, { lease: run.lease }, { status: 'completed' })).catch(
          () => undefined,
        )
      },
      callback: async () => undefined, remove: async () => true, abandon: () => undefined,
    })
  }
  const waits: number[] = []
  for (let n = 0; n < NEW; n++) {
    await eventually(() => begun.length >= n * 300 + 50, 120_000, 'tasks begin')
    await web.create(task(`new-${String(n)}`, 0))
    const before = begun.length
    await eventually(() => begun.includes(`new-${String(n)}-0`), 120_000, 'the task of the new owner begins')
    waits.push(Math.max(begun.indexOf(`new-${String(n)}-0`) - before, 0))
  }
  assert.ok(begun.length < OWNERS * TASKS, 'all owners still had waiting tasks')
  t.diagnostic(`tasks that began before it: ${waits.join(', ')}`)
  assert.ok(Math.max(...waits) <= OWNERS + PLACES, `${String(Math.max(...waits))} tasks began first`)
})
