// Statements that begin runs, and whose replies are lost.
import assert from 'node:assert/strict'
import { after, test, type TestContext } from 'node:test'
import { PGlite } from '@electric-sql/pglite'
import type { PgliteClient } from '../../adapters/postgres/connections.js'
import { Database } from '../../adapters/postgres/database.js'
import { PostgresTaskEngine } from '../../adapters/postgres/task-engine/engine.js'
import { Places, type TaskRun } from '../../src/engine/engine.js'
import { Json } from '../../src/runtime/json.js'
import { eventually } from '../kit/wait.js'

const pglite = new PGlite()
await pglite.waitReady
after(() => pglite.close())

/** Tries to take tasks, and returns the runs once the task is completed. */
async function runsOf(t: TestContext, id: string, leaseMs: number, query: PgliteClient['query']): Promise<TaskRun[]> {
  const lossy: PgliteClient = {
    query,
    transaction: (work) => pglite.transaction(work),
    listen: (channel, listener) => pglite.listen(channel, listener),
  }
  const engine = new PostgresTaskEngine(
    new Database({ pool: lossy }), { leaseMs, limits: { maxEntries: 1000, maxBytes: 2 ** 26 } },
  )
  t.after(() => engine.close({ drainMs: 0 }))
  const runs: TaskRun[] = []
  engine.work({ places: new Places(new Map([['default', 2]])), callbacks: 1 }, {
    run: async (run) => {
      runs.push(run)
      await engine.change(run.task, { lease: run.lease }, { status: 'completed' })
    },
    callback: async () => undefined, remove: async () => true, abandon: () => undefined,
  })
  await engine.create({
    id, birth: 'b', name: 'report', pool: 'default', priority: 0, input: Json.of(1), details: {}, keepMs: 60_000,
  })
  await eventually(async () => (
    (await engine.read(id).catch(() => undefined))?.status === 'completed'
  ), 8000, 'it is completed')
  return runs
}

const LOST = 'Connection terminated unexpectedly'

test('a run that began although the reply was lost is given back, and is no crash', async (t) => {
  let lost = 0
  const runs = await runsOf(t, 'one', 15_000, async (text, values) => {
    const reply = await pglite.query(text, values)
    if (!text.includes('started_at = coalesce') || ++lost > 2) return reply
    throw new Error(LOST)
  })
  assert.deepEqual(runs.map(({ task, crashed }) => [task.attempt, task.crashes, crashed]), [[1, 0, undefined]])
  assert.equal(runs[0]?.task.run, 3)
})

test('the same holds if the server is away for longer than the lease', async (t) => {
  let backAt = 0
  const runs = await runsOf(t, 'two', 400, async (text, values) => {
    if (performance.now() < backAt) throw new Error(LOST)
    const reply = await pglite.query(text, values)
    if (!text.includes('started_at = coalesce') || backAt > 0) return reply
    backAt = performance.now() + 1500
    throw new Error(LOST)
  })
  assert.deepEqual(runs.map(({ task, crashed }) => [task.attempt, task.crashes, crashed]), [[1, 0, undefined]])
})
