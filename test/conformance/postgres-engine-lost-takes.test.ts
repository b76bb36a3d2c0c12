// Statements that begin runs, and whose replies are lost.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import pg from 'pg'
import { Database } from '../../adapters/postgres/database.js'
import { PostgresTaskEngine } from '../../adapters/postgres/task-engine/engine.js'
import { Places, type TaskRun } from '../../src/engine/engine.js'
import { Json } from '../../src/runtime/json.js'
import { eventually } from '../kit/wait.js'
import { postgresForFile } from '../servers/postgres-server.js'

const { url } = await postgresForFile()

type Reply = Promise<{ readonly rows: unknown[] }>

/**
 * Tries to take tasks, and returns the runs once the task is completed. `query` gets each
 * statement, and may lose its reply.
 */
async function runsOf(
  t: TestContext,
  id: string,
  leaseMs: number,
  query: (text: string, send: () => Reply) => Reply,
): Promise<TaskRun[]> {
  const pool = new pg.Pool({ connectionString: url })
  const lossy = {
    connect: async () => {
      const client = await pool.connect()
      const send = client.query.bind(client) as (text: string, values?: unknown[]) => Reply
      return new Proxy(client, {
        get: (target, name) => {
          if (name === 'query') return (text: string, values?: unknown[]) => query(text, () => send(text, values))
          const found: unknown = Reflect.get(target, name)
          return typeof found === 'function' ? (found.bind(target) as unknown) : found
        },
      })
    },
    on: pool.on.bind(pool) as never,
  }
  const engine = new PostgresTaskEngine(new Database({ pool: lossy }), {
    leaseMs,
    limits: { maxEntries: 1000, maxBytes: 2 ** 26 },
  })
  t.after(async () => {
    await engine.close({ drainMs: 0 })
    await pool.end()
  })
  const runs: TaskRun[] = []
  engine.work(
    { places: new Places(new Map([['default', 2]])), callbacks: 1 },
    {
      run: async (run) => {
        runs.push(run)
        await engine.change(run.task, { lease: run.lease }, { status: 'completed' })
      },
      callback: async () => undefined,
      remove: async () => true,
      abandon: () => undefined,
    },
  )
  await engine.create({
    id,
    birth: 'b',
    name: 'report',
    pool: 'default',
    priority: 0,
    input: Json.of(1),
    details: {},
    keepMs: 60_000,
  })
  await eventually(
    async () => (await engine.read(id).catch(() => undefined))?.status === 'completed',
    30_000,
    'it is completed',
  )
  return runs
}

const LOST = 'Connection terminated unexpectedly'

test('a run that began although its reply was lost is given back, and does not count as a crash', async (t) => {
  let lost = 0
  const runs = await runsOf(t, 'one', 15_000, async (text, send) => {
    const reply = await send()
    if (!text.includes('started_at = coalesce') || ++lost > 2) return reply
    throw new Error(LOST)
  })
  assert.deepEqual(runs.map(({ task, crashed }) => [task.attempt, task.crashes, crashed]), [[1, 0, undefined]])
  assert.equal(runs[0]?.task.run, 3)
})

test('a run that began although its reply was lost is no crash, even after an outage longer than the lease', async (t) => {
  let backAt = 0
  const runs = await runsOf(t, 'two', 400, async (text, send) => {
    if (performance.now() < backAt) throw new Error(LOST)
    const reply = await send()
    if (!text.includes('started_at = coalesce') || backAt > 0) return reply
    backAt = performance.now() + 1500
    throw new Error(LOST)
  })
  assert.deepEqual(
    runs.map(({ task, crashed }) => [task.attempt, task.crashes, crashed]),
    [[1, 0, undefined]],
  )
})
