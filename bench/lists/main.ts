// npm run bench:lists [-- --quick]: the cost of a page of tasks, with few and with many tasks of 1,000 owners.
import { Redis } from 'ioredis'
import { memory } from 'longhaul/memory'
import { postgres } from 'longhaul/postgres'
import { RedisTaskIndex } from 'longhaul/redis'
import type { ListedStatus, ListedTask, ListQuery, TaskIndex } from 'longhaul/stores'
import pg from 'pg'
import { parseArgs } from 'node:util'
import { RedisServer } from '../../test/servers/redis-server.js'
import { startPostgres } from '../../test/servers/postgres-server.js'

const { values: { quick } } = parseArgs({ options: { quick: { type: 'boolean', default: false } } })
const FEW = 1000
const MANY = quick ? 100_000 : 1_000_000
const OWNERS = 1000
const NAMES = ['report', 'import', 'export']
const STATUSES: readonly ListedStatus[] = ['completed', 'completed', 'completed', 'completed', 'completed', 'completed', 'failed', 'cancelled', 'processing', 'queued']
const HOUR = 3_600_000
const START = Date.UTC(2026, 0)
const ROUNDS = quick ? 10 : 25
const PAGES = 20

function taskOf(n: number, owner: string): ListedTask {
  const status = STATUSES[n % STATUSES.length] as ListedStatus
  const name = NAMES[n % NAMES.length] as string
  return { id: `task-${n.toString(36).padStart(16, '0')}`, owner, name, status, createdAt: START + n, version: 1, ttlMs: 24 * HOUR }
}

/** Puts tasks in batches. The observed owner has 200 of the first thousand, so its pages are the same. */
async function fill(index: TaskIndex, from: number, to: number): Promise<void> {
  for (let at = from; at < to; at += 1000) {
    const tasks: ListedTask[] = []
    for (let n = at; n < Math.min(at + 1000, to); n++) {
      tasks.push(taskOf(n, at < FEW && n % 5 === 0 ? 'observed' : `owner-${String(n % OWNERS)}`))
    }
    await Promise.all(tasks.map(async (task) => index.put(task)))
  }
}

const QUERIES: Readonly<Record<string, (n: number) => ListQuery>> = {
  'own tasks, first page': () => ({ of: { owner: 'observed' }, order: 'newest', limit: 50 }),
  'own tasks, third page': () => ({ of: { owner: 'observed' }, order: 'newest', limit: 50, after: { createdAt: START + 500, id: taskOf(500, '').id } }),
  'own tasks of one status and name': () => ({ of: { owner: 'observed' }, order: 'newest', limit: 50, statuses: ['completed'], names: ['report'] }),
  'all owners, first page': () => ({ of: 'all', order: 'newest', limit: 50 }),
  'all owners, in the middle': (count) => ({ of: 'all', order: 'newest', limit: 50, after: { createdAt: START + count / 2, id: '' } }),
}

/** Time of a page in milliseconds: the least of some rounds, which other programs disturb least. */
async function measure(index: TaskIndex, query: ListQuery): Promise<number> {
  const times: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const began = performance.now()
    for (let page = 0; page < PAGES; page++) await index.list(query)
    times.push((performance.now() - began) / PAGES)
  }
  return Math.min(...times)
}

interface Engine {
  readonly index: TaskIndex
  /** Called after the tasks were put. */
  readonly settle?: () => Promise<unknown>
  /** Bytes that the engine uses. */
  readonly bytes: () => Promise<number>
}

async function run(title: string, open: () => Engine | Promise<Engine>): Promise<void> {
  const { index, settle, bytes } = await open()
  const empty = await bytes()
  await fill(index, 0, FEW)
  await settle?.()
  const few = new Map<string, number>()
  for (const [name, query] of Object.entries(QUERIES)) {
    await measure(index, query(FEW))
    few.set(name, await measure(index, query(FEW)))
  }
  await fill(index, FEW, MANY)
  await settle?.()
  for (const [name, query] of Object.entries(QUERIES)) {
    await measure(index, query(MANY))
    const many = await measure(index, query(MANY))
    const one = few.get(name) ?? Number.NaN
    console.log(`| ${title} | ${name} | ${one.toFixed(3)} ms | ${many.toFixed(3)} ms | ${(many / one).toFixed(2)} |`)
  }
  console.log(`| ${title} | bytes of one task | | ${String(Math.round((await bytes() - empty) / MANY))} | |`)
}

console.log(`| engine | page of 50 | ${String(FEW)} tasks | ${String(MANY)} tasks | ratio |\n|---|---|---|---|---|`)

await run('memory', () => ({
  index: memory({ maxEntries: 2_000_000 }).index,
  bytes: async () => {
    globalThis.gc?.()
    return process.memoryUsage().heapUsed
  },
}))

const redisServer = await RedisServer.start()
const client = new Redis(redisServer.url)
await run('Redis', () => ({
  index: new RedisTaskIndex({ client, timeoutMs: 30_000 }),
  bytes: async () => Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1]),
}))
client.disconnect()
await redisServer.stop()

const server = await startPostgres({ fsync: false })
const pool = new pg.Pool({ connectionString: server.url })
const { store, index } = postgres({ pool, timeoutMs: 30_000 })
await store.get('the tables exist')
await run('PostgreSQL', () => ({
  index,
  settle: () => pool.query('VACUUM ANALYZE longhaul.tasks'),
  bytes: async () => Number((await pool.query<{ n: string }>("SELECT pg_total_relation_size('longhaul.tasks') AS n")).rows[0]?.n),
}))
await store.close()
await pool.end()
await server.stop()
