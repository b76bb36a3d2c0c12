// Recurring work of examples/worker: what BullMQ's job schedulers fire becomes one task each time.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { beforeEach, test, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createPostgresBackend, Queue, withBackend } from 'bullmq'
import { Redis } from 'ioredis'
import { createTasks, type Tasks } from 'longhaul'
import { postgres } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'
import pg from 'pg'
import { report } from '../../../examples/report.js'
import { startSchedule } from '../../../examples/worker/recurring.js'
import { eventually } from '../../../src/conformance/waiting.js'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisForFile } from '../../servers/redis-server.js'
import { program } from '../../servers/program.js'

stopAfterwards()
const { url } = await redisForFile()
const connectionString = await postgresUrl()
const EVERY_SECOND = '* * * * * *'
/** What stops the schedules of a test. */
const schedules = new WeakMap<TestContext, (() => Promise<void>)[]>()

beforeEach(async () => {
  const client = new Redis(url)
  await client.flushall()
  client.disconnect()
})

/** Tasks over the Redis of this file. `submitted` has the id of each call of `submit`. */
function open(t: TestContext, { worker = false } = {}) {
  const connection = new Redis(url, { maxRetriesPerRequest: null })
  const { engine, store } = redis({ client: connection })
  const tasks = createTasks({ engine, store, definitions: [report], worker })
  const stops: (() => Promise<void>)[] = []
  schedules.set(t, stops)
  t.after(async () => {
    await Promise.all(stops.map((stop) => stop()))
    await tasks.close({ drainMs: 0 })
    await store.close()
    connection.disconnect()
  })
  const submitted: string[] = []
  const submit: Tasks['submit'] = async (definition, input, ...options) => {
    const task = await (tasks as Tasks).submit(definition, input, ...options)
    submitted.push(task.taskId)
    return task
  }
  return { tasks, connection, submitted, submit }
}

/** Starts the schedule of the example, and stops it after the test if the test did not. */
async function start(t: TestContext, tasks: Pick<Tasks, 'submit'>, connection: Redis, pattern = EVERY_SECOND) {
  const schedule = await startSchedule(tasks, connection, pattern)
  schedules.get(t)?.push(schedule.stop)
  return schedule
}

/** Number of times that each value is in the list. */
function counted(ids: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1)
  return counts
}

async function idsOf(tasks: Pick<Tasks, 'list'>): Promise<string[]> {
  return (await tasks.list({ limit: 100 })).items.map(({ taskId }) => taskId).sort()
}

test('a firing whose process was killed after it had submitted runs again, and makes one task', async (t) => {
  const { tasks, connection, submitted, submit } = open(t, { worker: true })
  const killed = new ServerProcess(
    process.execPath, program('test/faults/workers/recurring-process.ts'), { REDIS_URL: url },
  )
  while (!killed.out.includes('\n')) {
    await Promise.race([
      once(killed.child.stdout ?? killed.child, 'data'),
      killed.exited.then(() => { throw new Error(killed.err) }),
    ])
  }
  const [, first = ''] = /^submitted (report-\d+)\n/.exec(killed.out) ?? []
  assert.deepEqual(await idsOf(tasks), [first])
  killed.child.kill('SIGKILL')
  await killed.exited

  const schedule = await start(t, { submit }, connection)
  await eventually(() => submitted.includes(first), 30_000, 'the firing runs again')
  await schedule.stop()
  assert.deepEqual(await idsOf(tasks), [...new Set(submitted)].sort())
  const done = await tasks.wait(first, { timeoutMs: 20_000 })
  assert.deepEqual([done?.status, done?.attempt], ['completed', 1])
})

test('a firing that failed after it had submitted is retried, and makes one task', async (t) => {
  const { tasks, connection, submitted, submit } = open(t)
  let failures = 0
  const fails: Tasks['submit'] = async (...args) => {
    const task = await submit(...args)
    if (failures++ > 0) return task
    throw new Error('the reply was lost')
  }
  const schedule = await start(t, { submit: fails }, connection)
  await eventually(() => submitted.slice(1).includes(submitted[0] ?? ''), 20_000, 'the firing runs again')
  await schedule.stop()
  assert.deepEqual(await idsOf(tasks), [...new Set(submitted)].sort())
})

test('a scheduler that a deploy changes fires at its new times only, and once at each', async (t) => {
  const { tasks, connection, submitted, submit } = open(t)
  const before = await start(t, { submit }, connection, '1-59/2 * * * * *')
  await eventually(() => submitted.length > 0, 20_000, 'the old pattern fires')
  const old = submitted.length
  // The processes of the new version start at once, and the old one still works the queue.
  const after = await Promise.all([1, 2, 3].map(() => start(t, { submit }, connection, '*/2 * * * * *')))
  const schedulers = await before.queue.getJobSchedulers()
  assert.deepEqual(schedulers.map(({ key, pattern }) => [key, pattern]), [['report', '*/2 * * * * *']])
  await eventually(() => submitted.length >= old + 3, 30_000, 'the new pattern fires')
  assert.equal(await before.queue.getDelayedCount(), 1)
  for (const schedule of [before, ...after]) await schedule.stop()

  assert.deepEqual([...counted(submitted).values()].filter((times) => times !== 1), [])
  const seconds = submitted.map((id) => Number(id.replace('report-', '')) / 1000 % 2)
  assert.deepEqual(seconds.filter((second) => second === 1).length, old)
  assert.deepEqual(await idsOf(tasks), [...submitted].sort())
})

test('a deploy without a change does not fire again', async (t) => {
  const { connection, submitted, submit } = open(t)
  const first = await start(t, { submit }, connection)
  const deploys = []
  for (let n = 0; n < 10 || submitted.length < 3; n++) {
    deploys.push(await start(t, { submit }, connection))
    await sleep(130)
  }
  for (const schedule of [first, ...deploys]) await schedule.stop()
  assert.deepEqual([...counted(submitted).values()].filter((times) => times !== 1), [])
})

test('a firing that no process worked comes late, also after a deploy', async (t) => {
  const { connection, submitted, submit } = open(t)
  const first = await start(t, { submit }, connection, '*/2 * * * * *')
  await first.stop()
  const [waiting] = await new Queue('schedules', { connection }).getDelayed()
  const time = Number(waiting?.id?.split(':').at(-1))
  await sleep(Math.max(time + 2500 - Date.now(), 0))
  await start(t, { submit }, connection, '*/2 * * * * *')
  await eventually(() => submitted.length >= 2, 20_000, 'the late firing and the next one')
  assert.equal(submitted[0], `report-${String(time)}`)
  const next = Number(submitted[1]?.replace('report-', ''))
  assert.ok(next > time + 2000, 'the firing between is left out')
})

test('the example runs as it stands', async (t) => {
  const { tasks } = open(t)
  const schedule = new ServerProcess(
    process.execPath, program('examples/worker/schedule.ts'), { REDIS_URL: url, SCHEDULE: EVERY_SECOND },
  )
  await eventually(async () => (await idsOf(tasks)).length > 0, 30_000, 'a task is submitted')
  const [task] = (await tasks.list()).items
  assert.equal(task?.task, 'report')
  schedule.child.kill('SIGTERM')
  assert.deepEqual(await schedule.exited, { code: 0, signal: null }, schedule.err)
  assert.equal(schedule.err, '')
})

test('job schedulers run on the PostgreSQL backend of BullMQ too', async (t) => {
  const pool = new pg.Pool({ connectionString })
  pool.on('error', () => undefined)
  const engine = postgres({ pool })
  const tasks = createTasks({ ...engine, definitions: [report], worker: false })
  const onPostgres = withBackend(createPostgresBackend)
  const connection = { connectionString, migrate: true }
  const queue = new onPostgres.Queue('schedules', { connection })
  const patterns = ['0 3 * * *', EVERY_SECOND]
  for (const pattern of patterns) {
    await queue.upsertJobScheduler('report', { pattern, tz: 'UTC' }, { opts: { attempts: 10, removeOnComplete: true } })
  }
  assert.equal(await queue.getDelayedCount(), 1)
  const submitted: string[] = []
  const worker = new onPostgres.Worker('schedules', async ({ id = '' }) => {
    const time = new Date(Number(id.split(':').at(-1)))
    const { taskId } = await tasks.submit(report, { year: time.getUTCFullYear() }, { id: `report-${String(time.getTime())}` })
    submitted.push(taskId)
    if (submitted.length === 1) throw new Error('the reply was lost')
  }, { connection })
  t.after(async () => {
    await worker.close()
    await queue.close()
    await tasks.close({ drainMs: 0 })
    await engine.store.close()
    await engine.blobs.close()
    await pool.end()
  })
  await eventually(() => counted(submitted).get(submitted[0] ?? '') === 2, 20_000, 'the firing runs again')
  await worker.close()
  assert.deepEqual(await idsOf(tasks), [...new Set(submitted)].sort())
})
