// A server that loses its last commits in a crash hands the number of a run out again.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { postgres, type PostgresTaskEngine } from 'longhaul/postgres'
import pg from 'pg'
import { Places, type TaskRun } from '../../../src/engine/engine.js'
import { Json } from '../../../src/runtime/json.js'
import { postgresForFile } from '../../servers/postgres-server.js'
import { deferred, eventually, within } from '../../kit/wait.js'

const server = await postgresForFile({
  fsync: true, settings: { synchronous_commit: 'off', wal_writer_delay: '10s' },
})

function engineOf(t: TestContext): PostgresTaskEngine {
  const pool = new pg.Pool({ connectionString: server.url, max: 3 })
  const { engine } = postgres({ pool, timeoutMs: 10_000 })
  t.after(async () => {
    await engine.close({ drainMs: 0 })
    await pool.end()
  })
  return engine
}

/** Begins to work. Resolves to the first run, which ends when `end` is called. */
function firstRun(engine: PostgresTaskEngine): Promise<{ run: TaskRun, end: () => void }> {
  return new Promise((resolve) => {
    engine.work({ places: new Places(new Map([['default', 1]])), callbacks: 1 }, {
      run: async (run) => {
        const { promise, resolve: end } = deferred()
        resolve({ run, end })
        await promise
      },
      callback: async () => undefined, remove: async () => true, abandon: () => undefined,
    })
  })
}

test('after a crash without synchronous_commit, a worker whose begin was lost can change nothing', async (t) => {
  const [first, second] = [engineOf(t), engineOf(t)]
  const created = await first.create({
    id: 'one',
    birth: 'b',
    name: 'report',
    pool: 'default',
    priority: 0,
    input: Json.of(1),
    details: {},
    keepMs: 3_600_000,
  })
  assert.equal(created.outcome, 'created')
  // Writes all that was committed so far to the disk.
  await server.query('CHECKPOINT')
  const lost = await within(firstRun(first), 10_000)
  await server.kill()
  await server.run()
  const next = await within(firstRun(second), 20_000)
  assert.deepEqual([lost.run.task.run, next.run.task.run], [1, 1])
  for (const change of [{ checkpoint: 'A3' }, { status: 'completed', result: '"A"' }] as const) {
    assert.equal((await first.change(lost.run.task, { lease: lost.run.lease }, change)).outcome, 'conflict')
  }
  await eventually(() => lost.run.signal.aborted, 10_000, 'the lost run is aborted')
  const { task, lease } = next.run
  assert.equal((await second.change(task, { lease }, { checkpoint: 'B5' })).outcome, 'changed')
  assert.equal((await second.change(task, { lease }, { status: 'completed', result: '"B"' })).outcome, 'changed')
  lost.end()
  next.end()
  assert.equal((await first.read('one'))?.result, '"B"')
})
