// npm run bench:growth [-- --quick]: accepts, polls, pages and space with 10^3 to 10^6 tasks of 1,000 owners, on three engines.
// An engine that has not all of its tasks after four minutes gets no more.
import { Redis } from 'ioredis'
import { Json, type NewTask, type StoredTask, type TaskEngine, type TaskQuery } from 'longhaul/engine'
import { memory } from 'longhaul/memory'
import { postgres } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'
import pg from 'pg'
import { writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { RedisServer } from '../../test/servers/redis-server.js'
import { startPostgres } from '../../test/servers/postgres-server.js'
import { lines, type Chart } from '../frame/picture.js'
import { table } from '../frame/table.js'
import { versionsOf } from '../frame/versions.js'

const { values: { quick } } = parseArgs({ options: { quick: { type: 'boolean', default: false } } })
setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
const SIZES = quick ? [1000, 10_000] : [1000, 10_000, 100_000, 1_000_000]
/** Maximum time for the tasks of one engine, in milliseconds. */
const MAX_FILL_MS = 240_000
/** Number of tasks of which the observed owner has 200, so its pages are the same. */
const FEW = 1000
/** Tasks that are created at once. */
const BATCH = 500
const OWNERS = 1000
const NAMES = ['report', 'import', 'export']
const STATUSES = ['completed', 'completed', 'completed', 'completed', 'completed', 'completed', 'completed', 'failed', 'cancelled', 'queued'] as const
const HOUR = 3_600_000
const ROUNDS = 12

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

/** Creates tasks up to a number, and ends most of them. Returns the number that was reached in time. */
async function fill(engine: TaskEngine, from: number, to: number, { observed, all }: Places, until: number): Promise<number> {
  for (let at = from; at < to; at += BATCH) {
    if (performance.now() > until) return at
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
  return to
}

const own = { of: { owner: 'observed' }, order: 'newest', limit: 50 } as const
const PAGES: Readonly<Record<string, (places: Places) => TaskQuery>> = {
  'page of own tasks': () => own,
  'third page of own tasks': ({ observed }) => ({ ...own, after: observed[100] }),
  'page of own tasks, one status and name': () => ({ ...own, statuses: ['completed'], names: ['report'] }),
  'page of all owners, in the middle': ({ all }) => ({ ...own, of: 'all', after: all[all.length >> 1] }),
}

/** Time of one call in microseconds: the least of some rounds of 100 calls, which other programs disturb least. */
async function micros(call: (n: number) => unknown): Promise<number> {
  const times: number[] = []
  const end = performance.now() + 3000
  for (let round = 0; round < ROUNDS; round++) {
    const began = performance.now()
    for (let n = 0; n < 100; n++) await call(100 * round + n)
    times.push((performance.now() - began) * 10)
    if (performance.now() > end) break
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

/** What is measured at a size: microseconds of a call, and bytes of a task. */
type Figures = Map<string, number>

let accepted = 0

async function run(title: string, { engine, settle, bytes }: Measured): Promise<Map<number, Figures>> {
  const places: Places = { observed: [], all: [] }
  const empty = await bytes()
  const until = performance.now() + MAX_FILL_MS
  const found = new Map<number, Figures>()
  let reached = 0
  for (const size of SIZES) {
    process.stderr.write(`${title}: ${String(size)} tasks\n`)
    reached = await fill(engine, reached, size, places, until)
    await settle?.()
    const figures: Figures = new Map()
    figures.set('accept and delete', await micros(async () => {
      const made = await engine.create(taskOf(10 ** 9 + accepted, `owner-${String(accepted++ % OWNERS)}`))
      if (made.outcome !== 'created') throw new Error(made.outcome)
      const { task } = await engine.change(made.task, { version: 1 }, { status: 'cancelled', keepMs: HOUR }) as { task: StoredTask }
      await engine.delete(task, task.version)
    }))
    figures.set('poll', await micros((n) => engine.read((places.all[(n * 7919) % places.all.length] as StoredTask).id)))
    for (const [name, query] of Object.entries(PAGES)) figures.set(name, await micros(() => engine.list(query(places))))
    figures.set('bytes of a task', (await bytes() - empty) / reached)
    found.set(reached, figures)
    if (reached < size) break
  }
  await engine.close({ drainMs: 0 })
  return found
}

const results = new Map<string, Map<number, Figures>>()
results.set('memory', await run('memory', {
  engine: memory({ maxTasks: 2_000_000, maxUnfinished: 1_000_000, maxBytes: 4 * 2 ** 30 }).engine,
  bytes: async () => {
    collect()
    return process.memoryUsage().heapUsed
  },
}))

const redisServer = await RedisServer.start()
const client = new Redis(redisServer.url, { maxRetriesPerRequest: null })
results.set('Redis', await run('Redis', {
  engine: redis({ client, timeoutMs: 4000 }).engine,
  bytes: async () => Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1]),
}))
client.disconnect()
await redisServer.stop()

const server = await startPostgres({ fsync: false })
const pool = new pg.Pool({ connectionString: server.url })
const { store, engine } = postgres({ pool, timeoutMs: 30_000 })
await store.get('the tables exist')
results.set('PostgreSQL', await run('PostgreSQL', {
  engine,
  settle: () => pool.query('VACUUM ANALYZE longhaul.task_rows'),
  bytes: async () => Number((await pool.query<{ n: string }>("SELECT pg_total_relation_size('longhaul.task_rows') AS n")).rows[0]?.n),
}))
await store.close()
await pool.end()
await server.stop()

const sizes = [...new Set([...results.values()].flatMap((found) => [...found.keys()]))].sort((a, b) => a - b)
const kinds = [...results.get('memory')?.get(FEW)?.keys() ?? []]
const shown = (value: number | undefined): string => (value === undefined ? '' : value < 100 ? value.toFixed(1) : value.toFixed(0))
console.log(`${versionsOf('ioredis', 'bullmq', 'pg')}, Redis, PostgreSQL ${server.version} without waits for the disk. Microseconds of one call of
the engine after the other, and bytes: of the heap, of Redis, of the table with its indexes.

${table(['tasks', '', ...sizes.map((size) => size.toLocaleString('en'))], [...results].flatMap(([name, found]) => (
    kinds.map((kind) => [name, kind, ...sizes.map((size) => shown(found.get(size)?.get(kind)))])
  )))}`)
const charts: Chart[] = ['accept and delete', 'poll', 'page of own tasks', 'bytes of a task'].map((kind) => ({
  title: kind === 'bytes of a task' ? kind : `${kind}, µs`,
  lines: [...results].map(([name, found]) => ({ name, points: [...found].map(([size, figures]) => [size, figures.get(kind) ?? NaN] as const) })),
}))
const target = quick ? '../../node_modules/.cache/longhaul-bench/growth.svg' : '../../docs/growth.svg'
await writeFile(resolve(import.meta.dirname, target), lines('Calls and space with 1,000 to 1,000,000 tasks', charts))
