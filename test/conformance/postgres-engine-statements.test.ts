// What the engine sends to the server: few statements for each task, and none that reads the whole table.
import assert from 'node:assert/strict'
import { channel } from 'node:diagnostics_channel'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { Database } from '../../adapters/postgres/database.js'
import { PostgresTaskEngine } from '../../adapters/postgres/task-engine/engine.js'
import { Places } from '../../src/engine/engine.js'
import type { NewTask } from '../../src/engine/task.js'
import type { StoreEvent } from '../../src/stores/calls.js'
import { Json } from '../../src/runtime/json.js'
import { postgresForFile } from '../servers/postgres-server.js'

const server = await postgresForFile({ settings: { autovacuum: 'off' } })
const pool = new pg.Pool({ connectionString: server.url })
const engine = new PostgresTaskEngine(
  new Database({ pool, timeoutMs: 10_000 }),
  { leaseMs: 15_000, limits: { maxEntries: 100_000, maxBytes: 2 ** 26 } },
)
after(() => engine.close({ drainMs: 0 }))

/** Statements that were sent, without notices and looks for what is due. */
let sent: string[] = []
pool.on('connect', (client) => {
  const query = client.query.bind(client) as (...values: unknown[]) => unknown
  client.query = ((text: string, ...values: unknown[]) => {
    if (!/pg_notify|has_removals|^LISTEN/.test(text)) sent.push(text)
    return query(text, ...values)
  }) as typeof client.query
})

let births = 0
const task = (id: string): NewTask => ({
  id, birth: String(births++), key: `key of ${id}`, owner: 'ann', caller: 'ann',
  limit: { group: '', max: 1000 }, name: 'report', pool: 'default', priority: 0,
  input: Json.of({ id }), details: {}, keepMs: 3_600_000,
})
const places = new Places(new Map([['default', 200]]))
let onEnd = (): void => undefined

/** Resolves when some more runs have ended. */
function ended(count: number): Promise<void> {
  return new Promise((resolve) => { onEnd = () => { if (--count === 0) resolve() } })
}

describe('statements of PostgresTaskEngine', () => {
  before(async () => {
    await engine.now()
    await pool.query(`INSERT INTO longhaul.task_rows (id, birth, key, owner, caller, name, pool,
  priority, status, created_at, finished_at, expires_at, sweep_at, due_at, turn, has_files,
  file_bytes, details, input)
SELECT 'x' || n, 'b', 'key' || n, 'owner' || n % 50, 'caller' || n % 50, 'n' || n % 3, 'other', 0,
  CASE WHEN n <= 10000 THEN 0 ELSE 2 END, n, n, 1e14, 1e14, n, CASE WHEN n <= 10000 THEN n END,
  false, 0, '{}', '1'
FROM generate_series(1, 30000) AS n`)
    await pool.query('ANALYZE longhaul.task_rows')
    const looked = new Promise<void>((resolve) => {
      channel('longhaul:store').subscribe((event) => { if ((event as StoreEvent).verb === 'look') resolve() })
    })
    engine.work({ places, callbacks: 1 }, {
      run: async ({ task, lease }) => {
        await engine.change(task, { lease }, { status: 'completed', result: '1' })
        onEnd()
      },
      callback: async () => undefined, remove: async () => true, abandon: () => undefined,
    })
    // A look at the same time as a create finds the task too.
    await looked
  })

  test('one task takes three statements', async () => {
    sent = []
    const end = ended(1)
    await engine.create(task('alone'))
    await end
    assert.equal(sent.length, 3, sent.join('\n---\n'))
  })

  test('a hundred tasks that arrive together take three statements, as one task does', async () => {
    sent = []
    const end = ended(100)
    await Promise.all(Array.from({ length: 100 }, (_, n) => (
      engine.create(task(`together-${String(n)}`))
    )))
    await end
    // Their runs may begin by several statements, of 50 each.
    assert.ok(sent.length <= 6, `it were ${String(sent.length)}`)
  })

  // PostgreSQL commits transactions with a notice one at a time, each with its own write to the disk.
  test('a transaction of the application takes three statements, and its notice follows after the commit', async () => {
    const client = await pool.connect()
    const texts: string[] = []
    const transaction = {
      query: (text: string, values: readonly unknown[]) => {
        texts.push(text)
        return client.query(text, [...values])
      },
    }
    const listener = new pg.Client(server.url)
    await listener.connect()
    const noticed = new Promise<void>((resolve) => {
      listener.on('notification', ({ payload }) => { if (payload === 'task:!elsewhere') resolve() })
    })
    await listener.query('LISTEN "longhaul.changes"')
    await client.query('BEGIN')
    await engine.create({ ...task('within'), pool: 'elsewhere' }, { transaction })
    await client.query('COMMIT')
    client.release()
    await noticed
    await listener.end()
    assert.equal(texts.length, 3, texts.join('\n---\n'))
    assert.deepEqual(texts.filter((text) => /notify/i.test(text)), [])
  })

  test('no statement reads the whole table', async () => {
    await pool.query('SELECT pg_stat_reset()')
    const end = ended(20)
    for (let n = 0; n < 20; n++) {
      await engine.create(task(`one-${String(n)}`))
      await engine.read(`x${String(n)}`)
      await engine.readByKey(`key${String(n)}`)
    }
    await end
    for (const of of ['all', { owner: 'owner7' }] as const) {
      for (const order of ['newest', 'oldest'] as const) {
        assert.equal((await engine.list({ of, order, limit: 20 })).length, 20)
        assert.equal((await engine.list({ of, order, limit: 20, names: ['n1'], statuses: ['completed'] })).length, 20)
      }
    }
    assert.equal((await engine.counts('default')).running, 0)
    // A connection reports what it has read when it is idle.
    await pool.end()
    const client = new pg.Client(server.url)
    await client.connect()
    const { rows: [row] } = await client.query<{ n: string }>(
      'SELECT seq_tup_read AS n FROM pg_stat_user_tables WHERE relname = \'task_rows\'',
    )
    await client.end()
    assert.equal(Number(row?.n), 0)
  })
})
