// Workers on a PostgreSQL that is killed, frozen, restarted, or behind a bad network.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { createTasks } from 'longhaul'
import { migrate, postgres, type PostgresOptions } from 'longhaul/postgres'
import pg from 'pg'
import { stopAfterwards } from '../../http/kit/process.js'
import { pgBouncerForFile } from '../../servers/pgbouncer.js'
import { postgresForFile, startPostgres } from '../../servers/postgres-server.js'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { work } from './work.js'
import { startWorker } from './worker-processes.js'
import { eventually } from '../../kit/wait.js'

stopAfterwards()
const server = await postgresForFile()
const pooler = await pgBouncerForFile(server)

/** Time until everything works again, in milliseconds. */
const HEALED_MS = 30_000
let schemas = 0

/** Creates the tables of a schema that one test has for itself. */
async function newSchema(url = server.url): Promise<string> {
  const schema = `worker_faults_${String(++schemas)}`
  const pool = new pg.Pool({ connectionString: url })
  await migrate(pool, { schema })
  await pool.end()
  return schema
}

interface Opened {
  /** Ids of the tasks that have run. */
  readonly ran: string[]
  has(id: string): Promise<boolean>
  add(id: string, delayMs?: number): Promise<unknown>
}

function open(
  t: TestContext, url: string, options: Partial<PostgresOptions>, worker = false,
): Opened {
  const pool = new pg.Pool({ connectionString: url, connectionTimeoutMillis: 2000 })
  const { engine, store } = postgres({ pool, leaseMs: 2000, ...options })
  const ran: string[] = []
  const definition = work((text) => { if (text.startsWith('ended ')) ran.push(text.slice('ended '.length)) })
  const tasks = createTasks({ engine, store, definitions: [definition], worker, concurrency: 2 })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await store.close()
    await pool.end()
  })
  return {
    ran,
    has: async (id) => await tasks.get(id) !== undefined,
    add: (id, delayMs = 0) => tasks.submit(definition, {}, { id, delayMs }),
  }
}

/** Resolves when a task is accepted. */
async function accepts({ add }: Opened, id: string): Promise<void> {
  await eventually(() => add(id).then(() => true, () => false), HEALED_MS, 'it takes tasks')
}

test('a worker that is killed with kill -9 in the middle of a run leaves its task to another worker', async (t) => {
  const pool = new pg.Pool({ connectionString: server.url })
  t.after(() => pool.end())
  const { engine, store } = postgres({ pool })
  const definition = work(() => undefined)
  const tasks = createTasks({ engine, store, definitions: [definition], worker: false })
  t.after(() => tasks.close())
  const worker = await startWorker(server.url)
  const task = await tasks.submit(definition, { ms: 3000 }, { id: 'long' })
  await worker.said(/began long/)
  worker.child.kill('SIGKILL')
  await worker.exited
  assert.equal((await task.get())?.status, 'processing')
  const other = await startWorker(server.url)
  await tasks.submit(definition, {}, { id: 'next' })
  await other.said(/ended long/)
  await other.said(/ended next/)
  assert.equal((await task.wait({ timeoutMs: HEALED_MS }))?.status, 'completed')
})

describe('a worker', { concurrency: true }, () => {
  test('works again after the server was killed, and runs the accepted tasks', async (t) => {
    const own = await startPostgres({ fsync: true })
    t.after(() => own.stop())
    const schema = await newSchema(own.url)
    const submitter = open(t, own.url, { schema })
    const worker = open(t, own.url, { schema }, true)
    await accepts(submitter, 'before')
    await eventually(() => worker.ran.includes('before'), HEALED_MS, 'it works')
    await submitter.add('delayed', 3000)
    await own.kill()
    await assert.rejects(submitter.add('lost'))
    await assert.rejects(submitter.has('before'))
    await new Promise((resolve) => { setTimeout(resolve, 2000) })
    await own.run()
    await accepts(submitter, 'after')
    await eventually(() => ['delayed', 'after'].every((id) => worker.ran.includes(id)), HEALED_MS, 'the worker works')
  })

  test('works once there is a server, if it was created without one', async (t) => {
    const own = await startPostgres()
    t.after(() => own.stop())
    await own.shutDown()
    const worker = open(t, own.url, {}, true)
    await assert.rejects(worker.add('first'))
    await new Promise((resolve) => { setTimeout(resolve, 1000) })
    await own.run()
    await accepts(worker, 'second')
    await eventually(() => worker.ran.includes('second'), HEALED_MS, 'the worker works')
  })

  test('responds within its time limit while the server is frozen, and works afterwards', async (t) => {
    const own = await startPostgres()
    t.after(() => own.stop())
    const schema = await newSchema(own.url)
    const worker = open(t, own.url, { schema }, true)
    await accepts(worker, 'before')
    await eventually(() => worker.ran.includes('before'), HEALED_MS, 'it works')
    own.freeze()
    for (const call of [() => worker.add('while'), () => worker.has('none')]) {
      // The server is frozen until both calls have ended.
      await assert.rejects(call)
    }
    own.thaw()
    await accepts(worker, 'after')
    await eventually(() => worker.ran.includes('after'), HEALED_MS, 'the worker works')
  })

  for (const network of ['swallows everything for some seconds', 'has forgotten its connections']) {
    test(`works again behind a network that ${network}`, async (t) => {
      const proxy = await TcpProxy.to(server.port)
      t.after(() => { proxy.close() })
      const worker = open(t, server.urlAt(proxy.port), { schema: await newSchema() }, true)
      await accepts(worker, 'before')
      await eventually(() => worker.ran.includes('before'), HEALED_MS, 'it works')
      if (network.startsWith('swallows')) {
        proxy.swallow()
        await assert.rejects(worker.add('while'))
        await new Promise((resolve) => { setTimeout(resolve, 3000) })
        proxy.heal()
      } else proxy.forget()
      await accepts(worker, 'after')
      await eventually(() => worker.ran.includes('after'), HEALED_MS, 'the worker works')
    })
  }

  test('runs a task within some seconds although the connection for notices is half-open', async (t) => {
    const proxy = await TcpProxy.to(server.port)
    t.after(() => { proxy.close() })
    const schema = await newSchema()
    const submitter = open(t, server.url, { schema })
    const worker = open(t, server.urlAt(proxy.port), { schema }, true)
    await accepts(submitter, 'before')
    await eventually(() => worker.ran.includes('before'), HEALED_MS, 'it works')
    proxy.forget()
    await submitter.add('after')
    await eventually(() => worker.ran.includes('after'), HEALED_MS, 'it runs')
  })

  test('runs a new task within seconds behind a pooler in transaction mode, without notices', async (t) => {
    const schema = await newSchema()
    const submitter = open(t, pooler.url, { schema })
    const worker = open(t, pooler.url, { schema }, true)
    for (const id of ['a', 'b', 'c']) {
      await accepts(submitter, id)
      await eventually(() => worker.ran.includes(id), HEALED_MS, 'it runs')
    }
  })
})
