// npm run test:soak:postgres, with MINUTES (default 10) and SEED in the environment
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { Site } from '../faults/postgres/site.js'
import { postgresForFile, type PostgresServer } from '../servers/postgres-server.js'
import { Random } from './random.js'

const minutes = Number(process.env['MINUTES'] ?? 10)
const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000)
const random = new Random(seed)
const MIB = 1 << 20
/** Space of the server whose disk is filled. */
const DISK = 128 * MIB

type Fault = 'stop' | 'kill' | 'freeze' | 'swallow' | 'slow' | 'drop' | 'fill'
/** Faults of the way to the server, and of its connections. */
const WAY = { swallow: 3, slow: 2, drop: 3 } as const
const SERVER = { stop: 2, kill: 3, freeze: 3, ...WAY } as const

/** Each fault lasts for some milliseconds. */
function faultsOf(site: Site, database: PostgresServer): Readonly<Record<Fault, (ms: number) => Promise<void>>> {
  return {
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
      const sql =
        'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = $1'
      await database.query(sql, ['client backend'])
    },
    fill: async (ms) => {
      const filler = join(database.tablespaceFolder, 'filler')
      try {
        writeFileSync(filler, Buffer.alloc(DISK))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      }
      await pause(ms)
      rmSync(filler)
    },
  }
}

/** Causes faults at random. After each one the site works again, and the task that it interrupted completes. */
async function disturb(
  site: Site, database: PostgresServer, weights: Readonly<Partial<Record<Fault, number>>>, forMinutes: number,
): Promise<void> {
  const faults = faultsOf(site, database)
  await site.works()
  const end = performance.now() + forMinutes * 60_000
  do {
    const fault = random.pick(weights as Readonly<Record<Fault, number>>)
    const path = await site.begun(Math.round(random.between(0, 3000)))
    await Promise.all([faults[fault](random.between(200, 6000)), site.everyRequest()])
    await site.survives(path)
    await site.works()
    console.log(`${fault}: ${site.acknowledged.length} tasks so far`)
  } while (performance.now() < end)
}

describe(`tasks on PostgreSQL for ${minutes} minutes, seed ${seed}`, () => {
  test('survive random faults', { timeout: Infinity }, async () => {
    const database = await postgresForFile({ fsync: true })
    const site = await Site.start(database)
    await disturb(site, database, SERVER, 0.6 * minutes)
    await site.lostNothing()
  })

  test('survive random faults before and after a fail-over', { timeout: Infinity }, async () => {
    const primary = await postgresForFile({ fsync: true })
    const replica = await postgresForFile({ replicaOf: primary, fsync: true })
    await primary.waitForReplica()
    const site = await Site.start(primary)
    await disturb(site, primary, WAY, 0.1 * minutes)
    const path = await site.begun(1500)
    await primary.kill()
    await site.refused()
    await replica.promote()
    site.proxy.moveTo(replica.port)
    await site.survives(path)
    await disturb(site, replica, SERVER, 0.1 * minutes)
    await site.lostNothing()
  })

  test('survive a disk that is randomly full', { timeout: Infinity }, async () => {
    const database = await postgresForFile({
      fsync: true,
      tablespaceBytes: DISK,
      settings: { autovacuum_naptime: '5s' },
    })
    const site = await Site.start(database)
    // The disk is gone when the server ends.
    await disturb(site, database, { fill: 4, freeze: 2, ...WAY }, 0.2 * minutes)
    await site.lostNothing()
  })
})
