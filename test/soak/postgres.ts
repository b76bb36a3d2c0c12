// npm run test:soak:postgres, with MINUTES (default 10) and SEED in the environment
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { Site } from '../faults/postgres/site.js'
import { postgresForFile } from '../servers/postgres-server.js'
import { Random } from './random.js'

const minutes = Number(process.env['MINUTES'] ?? 10)
const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000)
const WEIGHTS = { stop: 2, kill: 3, freeze: 3, swallow: 3, slow: 2, drop: 3 } as const

test(`PostgreSQL with faults at random, for ${minutes} minutes, seed ${seed}`, { timeout: Infinity }, async () => {
  const random = new Random(seed)
  const database = await postgresForFile({ fsync: true })
  const site = await Site.start(database)

  const faults: Readonly<Record<keyof typeof WEIGHTS, (ms: number) => Promise<void>>> = {
    stop: async (ms) => {
      await database.shutDown()
      await pause(ms)
      await database.run()
    },
    kill: async (ms) => {
      await database.kill()
      await pause(ms)
      await database.run()
    },
    freeze: async (ms) => {
      database.freeze()
      await pause(ms)
      database.thaw()
    },
    swallow: async (ms) => {
      site.proxy.swallow()
      await pause(ms)
      site.proxy.heal()
    },
    slow: async (ms) => {
      site.proxy.latencyMs = 300
      await pause(ms)
      site.proxy.latencyMs = 0
    },
    drop: async () => {
      const sql = 'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = $1'
      await database.query(sql, ['client backend'])
    },
  }

  await site.works()
  const end = performance.now() + minutes * 60_000
  while (performance.now() < end) {
    const fault = random.pick(WEIGHTS)
    const path = await site.begun(Math.round(random.between(0, 3000)))
    await Promise.all([faults[fault](random.between(200, 6000)), site.everyRequest()])
    await site.survives(path)
    await site.works()
    console.log(`${fault}: ${site.acknowledged.length} tasks so far`)
  }
  await site.lostNothing()
})
