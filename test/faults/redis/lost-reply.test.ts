// Connections to Redis that stall for 150 ms and then break, with the replies on their way.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Redis, type RedisOptions } from 'ioredis'
import { redis } from 'longhaul/redis'
import { Places, type TaskRun } from '../../../src/engine/engine.js'
import { Json } from '../../../src/runtime/json.js'
import { redisForFile } from '../../servers/redis-server.js'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { eventually, keepAlive, pause } from '../../kit/wait.js'

const server = await redisForFile()

/** A lease that no test outlasts: whatever waits for its end fails. */
const leaseMs = 600_000
const CLIENTS: Readonly<Record<string, Pick<RedisOptions, 'maxRetriesPerRequest' | 'retryStrategy'>>> = {
  'that sends commands again': {},
  'that sends commands again at once': { retryStrategy: () => 0 },
  'that gives commands up': { maxRetriesPerRequest: 0, retryStrategy: () => 20 },
}

describe('runs whose begin or end lost its reply begin again within two seconds and end once', () => {
  for (const [name, options] of Object.entries(CLIENTS)) {
    test(`with a client ${name}`, async (t) => {
      keepAlive(t)
      const namespace = `lost-${String(Object.keys(CLIENTS).indexOf(name))}`
      const proxy = await TcpProxy.to(server.port)
      const client = new Redis({ port: proxy.port, ...options })
      client.on('error', () => undefined)
      const direct = new Redis(server.url)
      const worker = redis({ client, namespace, leaseMs }).engine
      const web = redis({ client: direct, namespace }).engine
      t.after(async () => {
        await Promise.all([web.close({ drainMs: 0 }), worker.close({ drainMs: 0 })])
        client.disconnect()
        direct.disconnect()
        proxy.close()
      })
      const begun = new Map<string, TaskRun[]>()
      worker.work({ places: new Places(new Map([['default', 4]])), callbacks: 1 }, {
        run: async (run) => {
          begun.set(run.task.id, [...begun.get(run.task.id) ?? [], run])
          await pause(3)
          for (;;) {
            try {
              return void await worker.change(run.task, { lease: run.lease }, { status: 'completed', result: '1' })
            } catch {
              await pause(20)
            }
          }
        },
        callback: async () => undefined, remove: async () => true, abandon: () => undefined,
      })
      let [created, slowest, lost] = [0, 0, 0]
      for (let round = 0; round < 15; round++) {
        const ids = Array.from({ length: 40 }, () => `task-${String(created++)}`)
        const at = performance.now()
        const broken = pause(10 * (round % 5)).then(async () => {
          if (round % 3 === 2) proxy.swallow()
          else proxy.swallowReplies()
          await pause(150)
          proxy.heal()
        })
        await Promise.all(
          ids.map((id) =>
            web.create({
              id,
              birth: id,
              caller: id,
              name: 'report',
              pool: 'default',
              priority: 0,
              input: Json.of(id),
              details: {},
              keepMs: 3_600_000,
            }),
          ),
        )
        await broken
        for (const id of ids) {
          await eventually(async () => (await web.read(id))?.status === 'completed', 20_000, `${id} ends`)
          // A run that was given back has a higher number, and is the same attempt.
          lost += ((await web.read(id))?.run ?? 1) - 1
        }
        slowest = Math.max(slowest, performance.now() - at)
      }
      t.diagnostic(`the slowest round took ${String(Math.round(slowest))} ms`)
      t.diagnostic(`${String(lost)} begins were lost`)
      assert.ok(lost > 0, 'no begin was lost')
      for (const [id, runs] of begun) assert.equal(runs.length, 1, `${id} ran ${String(runs.length)} times`)
      assert.equal(begun.size, created)
    })
  }
})
