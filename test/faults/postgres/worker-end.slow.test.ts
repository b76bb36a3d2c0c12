// A worker process on PostgreSQL ends by itself, in time, whatever the server does.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { createTasks } from 'longhaul'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { type ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { startPostgres, type PostgresServer } from '../../servers/postgres-server.js'
import { work } from './work.js'
import { startWorker } from './worker-processes.js'

stopAfterwards()

/** Maximum time of a worker to end. Its drain time is a second, and its run would take ten minutes. */
const LIMIT_MS = 30_000

const FAULTS = {
  'is well': () => undefined,
  'has ended': (server: PostgresServer) => server.kill(),
  'has stopped answering': (server: PostgresServer) => { server.freeze() },
}

/** Sends SIGTERM. The tasks must be closed long before the run would end. */
async function closesInTime(worker: ServerProcess): Promise<void> {
  worker.child.kill('SIGTERM')
  await worker.said(/closed/)
  assert.doesNotMatch(worker.err, /unhandled/i)
}

/** The process must end by itself. */
async function endsInTime(worker: ServerProcess): Promise<void> {
  const began = performance.now()
  const kill = setTimeout(() => { worker.child.kill('SIGKILL') }, LIMIT_MS)
  const exit = await worker.exited
  clearTimeout(kill)
  const took = `after ${String(Math.round(performance.now() - began))} ms: ${worker.out}${worker.err}`
  assert.deepEqual(exit, { code: 0, signal: null }, took)
  assert.doesNotMatch(worker.err, /unhandled/i, took)
}

async function serverOf(t: TestContext): Promise<PostgresServer> {
  const server = await startPostgres()
  t.after(() => server.stop())
  return server
}

function poolOf(t: TestContext, { url }: PostgresServer): pg.Pool {
  const pool = new pg.Pool({ connectionString: url })
  pool.on('error', () => undefined)
  t.after(() => pool.end())
  return pool
}

for (const [fault, strike] of Object.entries(FAULTS)) {
  describe(`while PostgreSQL ${fault}`, () => {
    test('an idle worker closes in time, and then ends by itself with its pool open', async (t) => {
      const server = await serverOf(t)
      const worker = await startWorker(server.url)
      await strike(server)
      await closesInTime(worker)
      // Connections to a server that does not answer are for the owner of the pool to end.
      if (fault === 'has stopped answering') worker.child.kill('SIGKILL')
      else await endsInTime(worker)
    })

    test('a worker with a run closes within its drain time', async (t) => {
      const server = await serverOf(t)
      const { engine, store } = postgres({ pool: poolOf(t, server) })
      const definition = work(() => undefined)
      const submitter = createTasks({ engine, store, definitions: [definition], worker: false })
      t.after(() => submitter.close())
      const worker = await startWorker(server.url)
      await submitter.submit(definition, { ms: 600_000 }, { id: 'long' })
      await worker.said(/began long/)
      await strike(server)
      await closesInTime(worker)
      worker.child.kill('SIGKILL')
    })
  })
}

test('a worker whose pool is closed ends by itself', async (t) => {
  const server = await serverOf(t)
  const worker = await startWorker(server.url, 'closed')
  await closesInTime(worker)
  await endsInTime(worker)
  assert.deepEqual(
    await server.query("select 1 from pg_stat_activity where application_name <> '' and pid <> pg_backend_pid()"),
    [],
  )
})

test('tasks that are closed right after their creation leave no connection behind', async (t) => {
  const server = await serverOf(t)
  const pool = new pg.Pool({ connectionString: server.url })
  for (let at = 0; at < 5; at++) {
    const { engine, store } = postgres({ pool, schema: `brief_${String(at)}`, timeoutMs: 10_000 })
    const tasks = createTasks({ engine, store, definitions: [work(() => undefined)] })
    await new Promise((resolve) => { setTimeout(resolve, at * 15) })
    await tasks.close({ drainMs: 0 })
    await store.close()
  }
  await pool.end()
  const left = 'select 1 from pg_stat_activity where backend_type = \'client backend\' and pid <> pg_backend_pid()'
  for (let tries = 0; (await server.query(left)).length > 0; tries++) {
    assert.ok(tries < 100, 'a connection was left open')
    await new Promise((resolve) => { setTimeout(resolve, 20) })
  }
})
