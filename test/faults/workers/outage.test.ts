// A worker whose database cannot be used reports why, once for each outage.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { Redis } from 'ioredis'
import { createTasks, defineTask, reportErrorsTo, type TasksOptions } from 'longhaul'
import { migrate, postgres } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'
import pg from 'pg'
import { stopAfterwards } from '../../http/kit/process.js'
import { deferred, eventually, pause } from '../../kit/wait.js'
import { freePort, RedisServer } from '../../servers/redis-server.js'
import { postgresForFile, startPostgres } from '../../servers/postgres-server.js'

stopAfterwards()
const server = await postgresForFile()
const work = defineTask({ name: 'work', run: async () => ({ message: 'Done.' }) })
/** Longer than two looks of a worker, in milliseconds. */
const LOOKS_MS = 2500

type Report = readonly [error: Error & { cause?: { code?: string, message: string } }, taskId: string]

/** Begins a worker. Returns what it reports to `onError`. */
function begin(t: TestContext, parts: Pick<TasksOptions, 'engine' | 'store'>, end: () => Promise<unknown>) {
  const reports: Report[] = []
  const tasks = createTasks({
    ...parts, definitions: [work],
    onError: (error, { taskId }) => { reports.push([error as Report[0], taskId]) },
  })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await parts.store.close()
    await end()
  })
  return { reports, tasks }
}

function onPostgres(t: TestContext, url: string, options: { schema?: string, migrate?: boolean } = {}) {
  const pool = new pg.Pool({ connectionString: url })
  pool.on('error', () => undefined)
  return begin(t, postgres({ pool, ...options }), () => pool.end())
}

function onRedis(t: TestContext, url: string) {
  const client = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 50 })
  client.on('error', () => undefined)
  return begin(t, redis({ client }), async () => { client.disconnect() })
}

async function reportedOnce(reports: readonly Report[], message: RegExp, cause: RegExp): Promise<void> {
  await eventually(() => reports.length > 0, 10_000, 'the worker reports')
  await pause(LOOKS_MS)
  assert.equal(reports.length, 1, String(reports))
  const [[error, taskId]] = reports as [Report]
  assert.equal(error.name, 'StoreUnavailableError')
  assert.match(error.message, message)
  assert.equal(taskId, 'worker:engine')
  assert.match(`${String(error.cause?.code)} ${String(error.cause?.message)}`, cause)
}

/** Stops and starts a server twice. Each time there is one report, and tasks run again. */
async function reportedEachTime(
  { reports, tasks }: ReturnType<typeof begin>,
  server: { readonly stop: () => Promise<unknown>, readonly start: () => Promise<unknown> },
): Promise<void> {
  const { taskId } = await tasks.submit(work, {})
  await tasks.wait(taskId, { timeoutMs: 10_000 })
  for (const outages of [1, 2]) {
    await server.stop()
    await eventually(() => reports.length === outages, 10_000, 'the worker reports')
    await pause(LOOKS_MS)
    await server.start()
    await eventually(async () => {
      const task = await tasks.submit(work, {}).catch(() => undefined)
      return task !== undefined && (await tasks.wait(task.taskId, { timeoutMs: 60_000 }))?.status === 'completed'
    }, 30_000, 'tasks run again')
    await pause(LOOKS_MS)
    assert.equal(reports.length, outages, String(reports))
  }
}

describe('a worker on PostgreSQL reports once', { concurrency: true }, () => {
  test('a closed port', async (t) => {
    const { reports, tasks } = onPostgres(t, server.urlAt(await freePort()))
    await reportedOnce(reports, /^This process takes no tasks .*PostgreSQL failed: .*ECONNREFUSED/, /ECONNREFUSED/)
    const { ok, error } = await tasks.health() as { ok: boolean, error?: Error & { cause?: { code?: string } } }
    assert.deepEqual([ok, error?.name, error?.cause?.code], [false, 'StoreUnavailableError', 'ECONNREFUSED'])
  })

  test('a role that cannot log in', async (t) => {
    const { reports } = onPostgres(t, server.url.replace(/\/\/[^@]*@/, '//stranger@'))
    await reportedOnce(reports, /role "stranger" does not exist/, /^28000 /)
  })

  test('a role without rights on the tables', async (t) => {
    const pool = new pg.Pool({ connectionString: server.url })
    await migrate(pool, { schema: 'no_grants' })
    await pool.query('CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA no_grants TO reader;'
      + 'GRANT SELECT ON ALL TABLES IN SCHEMA no_grants TO reader')
    await pool.end()
    const { reports } = onPostgres(t, server.url.replace(/\/\/[^@]*@/, '//reader@'), { schema: 'no_grants' })
    await reportedOnce(reports, /permission denied/, /^42501 /)
  })

  test('a missing migration', async (t) => {
    const { reports } = onPostgres(t, server.url, { schema: 'missing', migrate: false })
    await reportedOnce(
      reports,
      /lacks the migrations 1 "tables", 2 "limits of running work", 3 "tasks that ask", 4 "lists of tenants"\./,
      /lacks the migrations/,
    )
  })

  test('each outage', async (t) => {
    const own = await startPostgres()
    t.after(() => own.stop())
    const { reports, tasks } = onPostgres(t, own.url)
    await reportedEachTime({ reports, tasks }, { stop: () => own.shutDown(), start: () => own.run() })
  })

  test('to reportErrorsTo, or else as a process warning', async (t) => {
    const warnings: Error[] = []
    const warned = (warning: Error): void => { warnings.push(warning) }
    process.on('warning', warned)
    t.after(() => { process.off('warning', warned) })
    const pool = new pg.Pool({ connectionString: server.urlAt(await freePort()) })
    const start = () => {
      const tasks = createTasks({ ...postgres({ pool }), definitions: [work] })
      return () => tasks.close({ drainMs: 0 })
    }
    t.after(() => pool.end())
    const end = start()
    await eventually(() => warnings.some(({ name, message }) => (
      name === 'LonghaulError' && /^The worker of this process: .*ECONNREFUSED/s.test(message)
    )), 10_000, 'the worker warns')
    await end()
    const places: unknown[] = []
    const stop = reportErrorsTo((_, { task }) => { if (task?.taskId === 'worker:engine') places.push(task) })
    const endAgain = start()
    await eventually(() => places.length > 0, 10_000, 'the worker reports')
    stop()
    await endAgain()
    assert.deepEqual(places[0], { taskId: 'worker:engine', name: 'worker', attempt: 0 })
  })
})

describe('a worker on Redis reports once', { concurrency: true }, () => {
  test('a closed port', async (t) => {
    const { reports } = onRedis(t, `redis://127.0.0.1:${String(await freePort())}`)
    await reportedOnce(reports, /^This process takes no tasks /, /ECONNREFUSED/)
  })

  test('a missing password', async (t) => {
    const own = await RedisServer.start()
    t.after(() => own.stop())
    const admin = new Redis(own.url)
    await admin.config('SET', 'requirepass', 'secret')
    admin.disconnect()
    const { reports } = onRedis(t, own.url)
    await reportedOnce(reports, /NOAUTH/, /NOAUTH/)
  })

  test('each outage', async (t) => {
    const own = await RedisServer.start()
    t.after(() => own.stop())
    const { reports, tasks } = onRedis(t, own.url)
    await reportedEachTime({ reports, tasks }, { stop: () => own.kill(), start: () => own.run() })
  })

  test('each outage, while the only place of the worker is taken', async (t) => {
    const own = await RedisServer.start()
    t.after(() => own.stop())
    const client = new Redis(own.url)
    client.on('error', () => undefined)
    const { promise: begun, resolve: begin } = deferred()
    const long = defineTask({
      name: 'long',
      run: (_input, { signal }) => new Promise<{ message: string }>((resolve) => {
        begin()
        signal.addEventListener('abort', () => { resolve({ message: 'Stopped.' }) })
      }),
    })
    const reports: Error[] = []
    const parts = redis({ client, leaseMs: 600_000 })
    const tasks = createTasks({
      ...parts, definitions: [long], concurrency: 1, onError: (error) => { reports.push(error as Error) },
    })
    t.after(async () => {
      await tasks.close({ drainMs: 0 })
      await parts.store.close()
      client.disconnect()
    })
    await tasks.submit(long, {})
    await begun
    for (const outages of [1, 2]) {
      own.freeze()
      await eventually(() => reports.length === outages, 10_000, 'the worker reports')
      own.thaw()
      await eventually(async () => (await tasks.health()).ok, 10_000, 'Redis responds')
      await pause(LOOKS_MS)
    }
    assert.equal(reports.length, 2, String(reports))
  })
})
