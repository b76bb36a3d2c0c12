// What a task costs Redis: commands and scripts, with those within scripts.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { Redis } from 'ioredis'
import { redis } from 'longhaul/redis'
import { commandsOf, SCENES } from '../kit/redis-commands.js'
import { Places, type RunLimits } from '../../../src/engine/engine.js'
import type { NewTask } from '../../../src/engine/task.js'
import { Json } from '../../../src/runtime/json.js'
import { redisForFile } from '../../servers/redis-server.js'
import { deferred, eventually, keepAlive, pause } from '../../kit/wait.js'

const server = await redisForFile()
keepAlive({ after })

function task(id: string, others: Partial<NewTask> = {}): NewTask {
  return {
    id,
    birth: id,
    name: 'report',
    pool: 'default',
    priority: 0,
    input: Json.of(id),
    details: {},
    keepMs: 3_600_000,
    ...others,
  }
}

describe('a task with owner, limit and key', () => {
  for (const scene of SCENES) {
    test(`takes at most 40 commands of Redis: ${scene.name}`, async (t) => {
      const { commands, scripts } = await commandsOf(server.url, scene)
      t.diagnostic(`${commands.toFixed(1)} commands, ${scripts.toFixed(2)} scripts`)
      assert.ok(commands <= 40, `${String(commands)} commands`)
      // The looks of each second are scripts too.
      assert.ok(scripts <= (scene.isBusy ? 2.1 : 3.1), `${String(scripts)} scripts`)
    })
  }
})

const FULL: Readonly<Record<string, { readonly places: number, readonly limits?: RunLimits }>> = {
  'all places are taken': { places: 2 },
  'maxRunning is reached': { places: 20, limits: { maxRunning: 2 } },
  'the only caller has its share running': { places: 20, limits: { maxPerCaller: 2 } },
}

for (const [what, { places, limits }] of Object.entries(FULL)) {
  test(`10,000 waiting tasks cost only the scripts of regular looks while ${what}, and the next task begins when another task ends`, async (t) => {
    const client = new Redis(server.url)
    const { engine, store } = redis({ client, namespace: `waiting-${String(Object.keys(FULL).indexOf(what))}` })
    const admin = new Redis(server.url)
    t.after(async () => {
      await engine.close({ drainMs: 0 })
      await store.close()
      client.disconnect()
      admin.disconnect()
    })
    for (let n = 0; n < 10_000; n += 500) {
      await Promise.all(
        Array.from({ length: 500 }, (_, each) =>
          engine.create(
            task(`task-${String(n + each)}`, { caller: limits?.maxPerCaller ? 'ann' : `caller-${String(each)}` }),
          ),
        ),
      )
    }
    const latches: (() => void)[] = []
    engine.work(
      {
        places: new Places(new Map([['default', places]])),
        callbacks: 1,
        ...(limits && { limits: new Map([['default', limits]]) }),
      },
      {
        run: async (run) => {
          const { promise, resolve } = deferred()
          latches.push(resolve)
          await promise
          await engine.change(run.task, { lease: run.lease }, { status: 'completed' })
        },
        callback: async () => undefined,
        remove: async () => true,
        abandon: () => undefined,
      },
    )
    await eventually(() => latches.length === 2, 10_000, 'two tasks run')
    // The first takes hold 500 tasks each.
    if (limits?.maxPerCaller)
      await eventually(
        async () => (await admin.zcard('{waiting-2}:engine:ready:default')) === 0,
        60_000,
        'all are held',
      )
    await admin.config('RESETSTAT')
    await pause(3000)
    const stats = await admin.info('commandstats')
    const scripts = Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
    assert.ok(scripts <= 5, `${String(scripts)} scripts in three seconds`)
    latches.shift()?.()
    await eventually(() => latches.length === 2, 1000, 'the next one begins')
  })
}

test('a due task begins in an idle worker beside 10,000 tasks that wait in another pool', async (t) => {
  const clients = [new Redis(server.url), new Redis(server.url)] as const
  const [web, worker] = clients.map((client) => redis({ client, namespace: 'waiting-0' }).engine) as [
    ReturnType<typeof redis>['engine'],
    ReturnType<typeof redis>['engine'],
  ]
  t.after(async () => {
    await Promise.all([web.close({ drainMs: 0 }), worker.close({ drainMs: 0 })])
    for (const client of clients) client.disconnect()
  })
  const begun: string[] = []
  worker.work({ places: new Places(new Map([['idle', 2]])), callbacks: 1 }, {
    run: async (run) => {
      begun.push(run.task.id)
      await worker.change(run.task, { lease: run.lease }, { status: 'completed' })
    },
    callback: async () => undefined, remove: async () => true, abandon: () => undefined,
  })
  await web.create(task('now', { pool: 'idle' }))
  await eventually(() => begun.includes('now'), 1500, 'it begins')
  await web.create(task('soon', { pool: 'idle', start: { delayMs: 300 } }))
  await eventually(() => begun.includes('soon'), 300 + 1500, 'it begins')
})
