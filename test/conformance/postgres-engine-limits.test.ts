// Limits of running work on a server: what takes read, and when processes notify each other.
import assert from 'node:assert/strict'
import { channel } from 'node:diagnostics_channel'
import { after, describe, test, type TestContext } from 'node:test'
import pg from 'pg'
import { Database } from '../../adapters/postgres/database.js'
import { PostgresTaskEngine } from '../../adapters/postgres/task-engine/engine.js'
import { Places, type RunLimits, type TaskRun } from '../../src/engine/engine.js'
import type { NewTask } from '../../src/engine/task.js'
import type { StoreEvent } from '../../src/stores/calls.js'
import { Json } from '../../src/runtime/json.js'
import { postgresForFile } from '../servers/postgres-server.js'
import { eventually, pause } from '../kit/wait.js'

const server = await postgresForFile({ settings: { autovacuum: 'off', max_connections: 200 } })
const own = new pg.Pool({ connectionString: server.url, max: 4 })
// The server stops before the pool ends.
own.on('error', () => undefined)
after(() => own.end())
let schemas = 0

interface Sent {
  readonly text: string
  readonly values: unknown[]
}

/** A process: an engine with a pool of its own, and the runs that it has begun. */
class Process {
  readonly pool = new pg.Pool({ connectionString: server.url, max: 4 })
  readonly engine: PostgresTaskEngine
  readonly runs: TaskRun[] = []
  readonly sent: Sent[] = []
  places = new Places(new Map())

  constructor(t: TestContext, schema: string) {
    this.pool.on('connect', (client) => {
      const query = client.query.bind(client) as (...values: unknown[]) => unknown
      client.query = ((text: string, values: unknown[], ...more: unknown[]) => {
        this.sent.push({ text, values })
        return query(text, values, ...more)
      }) as typeof client.query
    })
    const database = new Database({ pool: this.pool, schema, timeoutMs: 20_000 })
    this.engine = new PostgresTaskEngine(database, {
      leaseMs: 15_000,
      limits: { maxEntries: 100_000, maxBytes: 2 ** 26 },
    })
    t.after(async () => {
      await this.engine.close({ drainMs: 0 })
      await this.pool.end()
    })
  }

  /** Begins to work in the pool `default`. A run lasts until its task is changed, or `perform` ends it. */
  work(count: number, limits?: RunLimits, perform?: (run: TaskRun) => Promise<void>): this {
    this.places = new Places(new Map([['default', count]]))
    this.engine.work({ places: this.places, callbacks: 1, limits: limits && new Map([['default', limits]]) }, {
      run: async (run) => {
        this.runs.push(run)
        if (perform) await perform(run)
        else await new Promise<void>((resolve) => { this.ends.set(run.task.id, resolve) })
      },
      callback: async () => undefined, remove: async () => true, abandon: () => undefined,
    })
    return this
  }

  private readonly ends = new Map<string, () => void>()

  get ids(): string[] {
    return this.runs.map(({ task }) => task.id)
  }

  /** Completes the newest run of a task. */
  async end(id: string): Promise<void> {
    const run = this.runs.findLast(({ task }) => task.id === id)
    assert.ok(run, `${id} has not begun`)
    assert.equal((await this.engine.change(run.task, { lease: run.lease }, { status: 'completed' })).outcome, 'changed')
    this.ends.get(id)?.()
  }

  /** Returns the newest statement of a kind. */
  last(kind: RegExp): Sent {
    const found = this.sent.findLast(({ text }) => kind.test(text))
    assert.ok(found, `no statement is ${String(kind)}`)
    return found
  }

  count(kind: RegExp): number {
    return this.sent.filter(({ text }) => kind.test(text)).length
  }
}

const TAKE = /newest AS/
const LOOK = /has_removals/
const CHECK = /pairs AS/

function newSchema(): string {
  return `limits_${String(++schemas)}`
}

function task(id: string, caller: string, more: Partial<NewTask> = {}): NewTask {
  return {
    id, birth: id, caller, name: 'report', pool: 'default', priority: 0, input: Json.of(1), details: {},
    keepMs: 3_600_000, ...more,
  }
}

/** Resolves after the next look of any process in this file. */
function looked(count = 1): Promise<void> {
  const store = channel('longhaul:store')
  return new Promise((resolve) => {
    const listener = (event: unknown): void => {
      if ((event as StoreEvent).verb !== 'look' || --count > 0) return
      store.unsubscribe(listener)
      resolve()
    }
    store.subscribe(listener)
  })
}

/** Returns the number of pages that a statement reads, and its plan. */
async function pagesOf({ text, values }: Sent): Promise<{ pages: number, plan: string }> {
  const client = await own.connect()
  await client.query('BEGIN')
  const { rows } = await client.query<{ 'QUERY PLAN': string }>(`EXPLAIN (ANALYZE, BUFFERS) ${text}`, values)
  await client.query('ROLLBACK')
  client.release()
  const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
  return { pages: Number(/Buffers: shared hit=(\d+)/.exec(plan)?.[1] ?? 0), plan }
}

describe('limits of running work on PostgreSQL', () => {
  test('six processes that take tasks at once never exceed the limits', async (t) => {
    const schema = newSchema()
    const running = new Map<string, number>()
    const most = new Map<string, number>()
    const add = (key: string, n: number): void => {
      running.set(key, (running.get(key) ?? 0) + n)
      most.set(key, Math.max(most.get(key) ?? 0, running.get(key) as number))
    }
    const processes = Array.from({ length: 6 }, () => new Process(t, schema))
    const [first] = processes as [Process]
    await first.engine.now()
    await Promise.all(Array.from({ length: 120 }, (_, n) => (
      first.engine.create(task(`task-${String(n)}`, `caller-${String(n % 5)}`))
    )))
    for (const process of processes) {
      process.work(4, { maxRunning: 4, maxPerCaller: 1 }, async ({ task: of, lease }) => {
        for (const key of ['all', of.caller as string]) add(key, 1)
        await pause(Math.random() * 5)
        for (const key of ['all', of.caller as string]) add(key, -1)
        await process.engine.change(of, { lease }, { status: 'completed' })
      })
    }
    await eventually(async () => (await first.engine.list({
      of: 'all', order: 'newest', limit: 1000, statuses: ['completed'],
    })).length === 120, 60_000, 'all tasks end')
    assert.ok((most.get('all') ?? 0) <= 4, `${String(most.get('all'))} ran together`)
    for (const [key, count] of most)
      if (key !== 'all') assert.equal(count, 1, `${String(count)} of ${key} ran together`)
  })

  test('a take that waited for another take begins no run beyond the limit', async (t) => {
    const schema = newSchema()
    const process = new Process(t, schema).work(2, { maxRunning: 1 })
    await process.engine.create(task('first', 'ann'))
    await eventually(() => process.ids.length === 1, 20_000, 'the first task runs')
    await process.end('first')
    await looked(2)
    const other = await own.connect()
    await other.query('BEGIN')
    await other.query(`SELECT FROM ${schema}.task_pools FOR UPDATE`)
    await process.engine.create(task('waits', 'ann'))
    await eventually(async () => (await own.query(
      'SELECT FROM pg_stat_activity WHERE wait_event_type = \'Lock\' AND query ~ \'newest AS\'',
    )).rows.length > 0, 20_000, 'the take waits')
    // As the take of another process, which has read the tasks later.
    await other.query(`INSERT INTO ${schema}.task_rows (id, birth, owner, caller, name, pool, priority, status, run,
  created_at, expires_at, sweep_at, due_at, lease_until, taken_by, has_files, details, input)
VALUES ('other', 'b', '', 'ann', 'report', 'default', 0, 1, 1, 1, 1e14, 1e14, 1, 1e14, 'take', false, '{}', '1')`)
    await other.query(`UPDATE ${schema}.task_pools SET begun = begun + 1`)
    await other.query('COMMIT')
    other.release()
    await looked(3)
    assert.deepEqual(process.ids, ['first'])
    await process.engine.change({ id: 'other', birth: 'b' }, { lease: 'take' }, { status: 'completed' })
    await eventually(() => process.ids.includes('waits'), 20_000, 'the next one begins')
  })

  test('a take reads few rows, with 10,000 held tasks of one caller or 10 tasks of each of 1,000 callers', async (t) => {
    const schema = newSchema()
    const process = new Process(t, schema)
    await process.engine.now()
    await own.query(`INSERT INTO ${schema}.task_rows (id, birth, owner, caller, name, pool, priority, status,
  created_at, expires_at, sweep_at, due_at, turn, has_files, details, input)
SELECT 'big' || n, 'b', 'big', 'big', 'n' || n % 3, 'default', 0, 0, n, 1e14, 1e14, n, n, false, '{}', '1'
FROM generate_series(1, 10000) AS n
UNION ALL SELECT 'c' || c || '-' || n, 'b', '', 'c' || c, 'n' || n % 3, 'default', 0, 0, n, 1e14, 1e14, n, n, false, '{}', '1'
FROM generate_series(1, 10) AS n, generate_series(1, 1000) AS c`)
    await own.query(`ANALYZE ${schema}.task_rows`)
    process.work(1200, { maxPerCaller: 1, maxPerCallerOf: new Map([['n0', 1]]), maxRunning: 1500 })
    await eventually(
      async () => {
        const held = await own.query(`SELECT FROM ${schema}.task_rows WHERE due_at = 'Infinity'`)
        return held.rows.length === 20_000 - 1001
      },
      120_000,
      'all are held but one of each caller',
    )
    assert.equal(process.runs.length, 1001)
    // The statistics are those of a time at which nothing was held.
    await process.end('big1')
    await eventually(() => process.runs.length === 1002, 20_000, 'the next task of the caller begins')
    await eventually(() => process.count(CHECK) > 0, 20_000, 'held tasks are checked')
    const released = process.sent.findLast(({ text, values }) => TAKE.test(text) && (values[11] as string[]).length > 0)
    assert.ok(released)
    for (const sent of [process.last(TAKE), released, process.last(LOOK)]) {
      const { pages, plan } = await pagesOf(sent)
      assert.ok(pages < 2500, `it reads ${String(pages)} pages:\n${plan}`)
      assert.doesNotMatch(plan, /JIT/, 'the plan is compiled')
    }
    const { pages, plan } = await pagesOf(process.last(CHECK))
    assert.ok(pages < 4000, `the check reads ${String(pages)} pages:\n${plan}`)
  })

  test('a worker whose pool is full makes no take for a new task, and one or two takes for each look', async (t) => {
    const process = new Process(t, newSchema()).work(8, { maxRunning: 1 })
    await process.engine.create(task('runs', 'ann'))
    await eventually(() => process.ids.length === 1, 20_000, 'a task runs')
    await process.engine.create(task('waits', 'bob'))
    await looked(2)
    process.sent.length = 0
    for (let n = 0; n < 200; n++) await process.engine.create(task(`task-${String(n)}`, 'ann'))
    await looked(2)
    const [takes, looks] = [process.count(TAKE), process.count(LOOK)]
    assert.ok(takes <= 2 * looks + 2, `${String(takes)} takes in ${String(looks)} looks`)
    await process.end('runs')
    await eventually(() => process.ids.length === 2, 20_000, 'the next task begins')
  })

  test('a pool without limits uses its usual statements, even beside a pool with limits', async (t) => {
    const process = new Process(t, newSchema())
    const places = new Places(new Map([['default', 2], ['limited', 2]]))
    process.engine.work({ places, callbacks: 1, limits: new Map([['limited', { maxRunning: 1 }]]) }, {
      run: async (run) => {
        process.runs.push(run)
        await process.engine.change(run.task, { lease: run.lease }, { status: 'completed' })
      },
      callback: async () => undefined, remove: async () => true, abandon: () => undefined,
    })
    for (let n = 0; n < 5; n++) {
      await process.engine.create(task(`task-${String(n)}`, 'ann'))
      await eventually(() => process.runs.length === n + 1, 20_000, 'it begins')
    }
    const limited = process.sent.filter(({ text, values }) => TAKE.test(text) && values[0] === 'default')
    assert.deepEqual(limited, [])
  })

  test('a process that closes notifies other processes when its last runs free their places', async (t) => {
    const schema = newSchema()
    const limits = { maxRunning: 2, maxPerCaller: 1 }
    const first = new Process(t, schema).work(2, limits)
    for (const [id, caller] of [['one', 'ann'], ['two', 'bob'], ['three', 'ann']] as const) {
      await first.engine.create(task(id, caller))
    }
    await eventually(() => first.ids.length === 2, 20_000, 'two tasks run')
    const second = new Process(t, schema).work(2, limits)
    await looked(2)
    const listener = new pg.Client(server.url)
    await listener.connect()
    const notices: (string | undefined)[] = []
    listener.on('notification', ({ payload }) => { notices.push(payload) })
    await listener.query(`LISTEN "${schema}.changes"`)
    const closing = first.engine.close({ drainMs: 20_000 })
    await first.end('one')
    await eventually(() => notices.includes('task:+default'), 20_000, 'the notice comes')
    await eventually(() => second.ids.includes('three'), 20_000, 'the held task begins elsewhere')
    await first.end('two')
    await closing
    await listener.end()
  })

  test('a run whose lease was found expired cannot renew it, because its place may be taken', async (t) => {
    const schema = newSchema()
    const process = new Process(t, schema).work(2, { maxPerCaller: 1 })
    await process.engine.create(task('one', 'ann'))
    await eventually(() => process.ids.length === 1, 20_000, 'it begins')
    await process.engine.setPaused('default', true)
    await own.query(`UPDATE ${schema}.task_rows SET lease_until = 1`)
    await eventually(async () => {
      const { rows } = await own.query<{ turn: string | null }>(`SELECT turn FROM ${schema}.task_rows`)
      return rows[0]?.turn !== null
    }, 20_000, 'the task is ready again')
    // Every process then renews its leases.
    await own.query(`SELECT pg_notify('${schema}.changes', 'task:?')`)
    await eventually(() => process.runs[0]?.signal.aborted === true, 20_000, 'the run is aborted')
  })

  test('held tasks begin when no limit applies to them any longer', async (t) => {
    const schema = newSchema()
    const first = new Process(t, schema).work(8, { maxPerCaller: 1 })
    await Promise.all(Array.from({ length: 20 }, (_, n) => first.engine.create(task(`task-${String(n)}`, 'ann'))))
    await eventually(async () => (await own.query(
      `SELECT FROM ${schema}.task_rows WHERE due_at = 'Infinity'`,
    )).rows.length === 19, 20_000, 'they are held')
    await first.engine.close({ drainMs: 0 })
    const second = new Process(t, schema).work(30)
    await eventually(() => second.ids.length === 19, 20_000, 'they begin in a process without limits')
  })

  test('a pool with startsPer stays open after the clock is set back', async (t) => {
    const schema = newSchema()
    const limits = { startsPer: { count: 1, ms: 86_400_000 } }
    const process = new Process(t, schema).work(2, limits)
    await process.engine.create(task('one', 'ann'))
    await eventually(() => process.ids.length === 1, 20_000, 'it begins')
    await process.engine.create(task('two', 'ann'))
    await looked(2)
    assert.deepEqual(process.ids, ['one'])
    await own.query(`UPDATE ${schema}.task_begins SET began_at = began_at + 3600000`)
    await eventually(() => process.ids.length === 2, 20_000, 'the next one begins')
    const { rows } = await own.query(`SELECT FROM ${schema}.task_begins`)
    assert.equal(rows.length, 1)
  })
})

describe('business keys on PostgreSQL', () => {
  test('a transaction waits for another transaction with its business key, and then gets the committed task', async (t) => {
    const schema = newSchema()
    const { engine } = new Process(t, schema)
    await engine.now()
    const clients = [await own.connect(), await own.connect()] as const
    for (const client of clients) await client.query('BEGIN')
    const unique = { key: 'invoice-42', ifExists: 'return' } as const
    const [first, second] = clients
    assert.equal((await engine.create(task('one', 'ann', { unique }), { transaction: first })).outcome, 'created')
    const creating = engine.create(task('two', 'bob', { unique }), { transaction: second })
    await pause(100)
    await first.query('COMMIT')
    const created = await creating
    await second.query('COMMIT')
    for (const client of clients) client.release()
    assert.equal(created.outcome, 'exists')
    assert.equal('task' in created && created.task.id, 'one')
    assert.equal(await engine.read('two'), undefined)
  })

  test('a replacement in a transaction that is rolled back leaves the task as it was', async (t) => {
    const schema = newSchema()
    const { engine } = new Process(t, schema)
    const unique = { key: 'invoice-42', ifExists: 'replace' } as const
    await engine.create(task('one', 'ann', { unique, details: { n: 1 } }))
    const before = await engine.read('one')
    const client = await own.connect()
    await client.query('BEGIN')
    const replaced = await engine.create(task('two', 'ann', { unique, details: { n: 2 } }), { transaction: client })
    assert.equal(replaced.outcome, 'replaced')
    await client.query('ROLLBACK')
    client.release()
    assert.deepEqual(await engine.read('one'), before)
  })

  test('an open transaction with a business key delays only calls with this key', async (t) => {
    const schema = newSchema()
    const { engine } = new Process(t, schema)
    await engine.now()
    const unique = { key: 'invoice-42', ifExists: 'return' } as const
    const client = await own.connect()
    await client.query('BEGIN')
    await engine.create(task('open', 'ann', { unique }), { transaction: client })
    const waiting = engine.create(task('waits', 'bob', { unique }))
    const others = await Promise.all(Array.from({ length: 20 }, (_, n) => (
      engine.create(task(`task-${String(n)}`, `caller-${String(n)}`, n % 2 === 0 ? {} : {
        unique: { ...unique, key: `invoice-${String(n)}` },
      }))
    )))
    assert.ok(others.every(({ outcome }) => outcome === 'created'))
    await client.query('ROLLBACK')
    client.release()
    assert.equal((await waiting).outcome, 'created')
  })
})
