// npm run bench:lists [-- --quick]: the cost of a page of tasks, with few and with many tasks of 1,000 owners.
import { Redis } from 'ioredis'
import { Json, type NewTask, type StoredTask, type TaskEngine, type TaskQuery } from 'longhaul/engine'
import { memory } from 'longhaul/memory'
import { postgres } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'
import pg from 'pg'
import { parseArgs } from 'node:util'
import { RedisServer } from '../../test/servers/redis-server.js'
import { startPostgres } from '../../test/servers/postgres-server.js'

const { values: { quick } } = parseArgs({ options: { quick: { type: 'boolean', default: false } } })
const FEW = 1000
const MANY = quick ? 100_000 : 1_000_000
/** Tasks that are created at once. */
const BATCH = 500
const OWNERS = 1000
const NAMES = ['report', 'import', 'export']
const STATUSES = ['completed', 'completed', 'completed', 'completed', 'completed', 'completed', 'completed', 'failed', 'cancelled', 'queued'] as const
const HOUR = 3_600_000
const ROUNDS = quick ? 10 : 25
const PAGES = 20

/** Tasks of earlier batches, at which pages begin. */
interface Places {
  readonly observed: StoredTask[]
  readonly all: StoredTask[]
}

function taskOf(n: number, owner: string): NewTask {
  return {
    id: `task-${n.toString(36).padStart(16, '0')}`, birth: `birth-${String(n)}`, owner, caller: owner,
    name: NAMES[n % NAMES.length] as string, pool: 'default', priority: 0, input: Json.of({}), details: {},
    keepMs: 24 * HOUR, start: { delayMs: HOUR },
  }
}

/** Creates tasks. The observed owner has 200 of the first thousand, so its pages are the same. */
async function fill(engine: TaskEngine, from: number, to: number, { observed, all }: Places): Promise<void> {
  for (let at = from; at < to; at += BATCH) {
    const numbers = Array.from({ length: Math.min(BATCH, to - at) }, (_, offset) => at + offset)
    const created = await Promise.all(numbers.map(async (n) => {
      const isObserved = n < FEW && n % 5 === 0
      const made = await engine.create(taskOf(n, isObserved ? 'observed' : `owner-${String(n % OWNERS)}`))
      if (made.outcome !== 'created') throw new Error(`task ${String(n)}: ${made.outcome}`)
      const status = STATUSES[Math.floor(n / 5) % STATUSES.length] as (typeof STATUSES)[number]
      if (status !== 'queued') await engine.change(made.task, { version: 1 }, { status, keepMs: 24 * HOUR })
      return made.task
    }))
    all.push(created[0] as StoredTask)
    observed.push(...created.filter(({ owner }) => owner === 'observed'))
  }
}

const own = { of: { owner: 'observed' }, order: 'newest', limit: 50 } as const
const every = { of: 'all', order: 'newest', limit: 50 } as const
const QUERIES: Readonly<Record<string, (places: Places) => TaskQuery>> = {
  'own tasks, first page': () => own,
  'own tasks, third page': ({ observed }) => ({ ...own, after: observed[100] }),
  'own tasks of one status and name': () => ({ ...own, statuses: ['completed'], names: ['report'] }),
  'all owners, first page': () => every,
  'all owners, in the middle': ({ all }) => ({ ...every, after: all[all.length >> 1] }),
}

/** Time of a page in milliseconds: the least of some rounds, which other programs disturb least. */
async function measure(engine: TaskEngine, query: TaskQuery): Promise<number> {
  const times: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const began = performance.now()
    for (let page = 0; page < PAGES; page++) await engine.list(query)
    times.push((performance.now() - began) / PAGES)
  }
  return Math.min(...times)
}

interface Measured {
  readonly engine: TaskEngine
  /** Called after the tasks were created. */
  readonly settle?: () => Promise<unknown>
  /** Bytes that the engine uses. */
  readonly bytes: () => Promise<number>
}

async function run(title: string, { engine, settle, bytes }: Measured): Promise<void> {
  const places: Places = { observed: [], all: [] }
  const empty = await bytes()
  await fill(engine, 0, FEW, places)
  await settle?.()
  const few = new Map<string, number>()
  for (const [name, query] of Object.entries(QUERIES)) {
    await measure(engine, query(places))
    few.set(name, await measure(engine, query(places)))
  }
  await fill(engine, FEW, MANY, places)
  await settle?.()
  for (const [name, query] of Object.entries(QUERIES)) {
    await measure(engine, query(places))
    const many = await measure(engine, query(places))
    const one = few.get(name) ?? Number.NaN
    console.log(`| ${title} | ${name} | ${one.toFixed(3)} ms | ${many.toFixed(3)} ms | ${(many / one).toFixed(2)} |`)
  }
  console.log(`| ${title} | bytes of one task | | ${String(Math.round((await bytes() - empty) / MANY))} | |`)
  await engine.close({ drainMs: 0 })
}

console.log(`| engine | page of 50 | ${String(FEW)} tasks | ${String(MANY)} tasks | ratio |\n|---|---|---|---|---|`)

await run('memory', {
  engine: memory({ maxTasks: 2_000_000, maxUnfinished: 1_000_000, maxBytes: 4 * 2 ** 30 }).engine,
  bytes: async () => {
    globalThis.gc?.()
    return process.memoryUsage().heapUsed
  },
})

const redisServer = await RedisServer.start()
const client = new Redis(redisServer.url, { maxRetriesPerRequest: null })
await run('Redis', {
  engine: redis({ client, timeoutMs: 4000 }).engine,
  bytes: async () => Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1]),
})
client.disconnect()
await redisServer.stop()

const server = await startPostgres({ fsync: false })
const pool = new pg.Pool({ connectionString: server.url })
const { store, engine } = postgres({ pool, timeoutMs: 30_000 })
await store.get('the tables exist')
await run('PostgreSQL', {
  engine,
  settle: () => pool.query('VACUUM ANALYZE longhaul.task_rows'),
  bytes: async () => Number((await pool.query<{ n: string }>("SELECT pg_total_relation_size('longhaul.task_rows') AS n")).rows[0]?.n),
})
await store.close()
await pool.end()
await server.stop()
