import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { after, describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { createTasks } from 'longhaul'
import { BullMQQueue } from 'longhaul/bullmq'
import { MemoryQueue } from 'longhaul/memory'
import { postgres } from 'longhaul/postgres'
import type { Queue } from 'longhaul/queues'
import pg from 'pg'
import { startPostgres } from '../../servers/postgres-server.js'
import { redisUrl } from '../../servers/redis-server.js'
import { invoice } from './invoice.js'

/** Kills for each kind of queue: 12 or, in the long form, 102 in all. */
const KILLS = process.env['LONGHAUL_LARGE'] === undefined ? 4 : 34
/** Statements of one transaction, about. */
const STATEMENTS = 10
/** Time from the death of a process to the end of its tasks, in milliseconds. */
const RECOVERY_MS = 8000

const server = await startPostgres({ fsync: false })
const pool = new pg.Pool({ connectionString: server.url })
pool.on('error', () => undefined)
pool.on('connect', (client) => { client.on('error', () => undefined) })
const redis = await redisUrl()
const connection = new Redis(redis, { maxRetriesPerRequest: null })
await pool.query('CREATE TABLE invoices (id text PRIMARY KEY, name text, task text, done boolean NOT NULL DEFAULT false)')
const { store: prepared } = postgres({ pool })
await prepared.get('the tables exist')
const closings: (() => Promise<unknown>)[] = []
after(async () => {
  await Promise.all(closings.map((close) => close()))
  connection.disconnect()
  await pool.end()
  await server.stop()
})

const queues: Readonly<Record<string, readonly [argument: string, queue: () => Queue]>> = {
  "BullMQ's PostgreSQL backend": ['postgres', () => postgres({ pool }).queue],
  'BullMQ on Redis': [redis, () => new BullMQQueue({ connection })],
  'the in-process queue': ['memory', () => new MemoryQueue()],
}

function worker(queue: Queue) {
  const { store, index } = postgres({ pool })
  const tasks = createTasks({ store, index, queue, definitions: [invoice(pool)], onError: () => undefined })
  let isClosed: Promise<void> | undefined
  const close = () => isClosed ??= tasks.close({ drainMs: 1000 }).then(() => store.close())
  closings.push(close)
  return { tasks, close }
}

/** Rows that committed, and records of tasks, by the id of the task. */
async function committed(): Promise<{ rows: Map<string, boolean>, records: Set<string> }> {
  const [rows, records] = await Promise.all([
    pool.query<{ task: string, done: boolean }>('SELECT task, done FROM invoices'),
    pool.query<{ id: string }>("SELECT substr(key, 6) AS id FROM longhaul.entries WHERE key LIKE 'task:%'"),
  ])
  return { rows: new Map(rows.rows.map(({ task, done }) => [task, done])), records: new Set(records.rows.map(({ id }) => id)) }
}

for (const [title, [argument, makeQueue]] of Object.entries(queues)) {
  describe(`a process is killed between the statements of a transaction, with ${title}`, () => {
    it(`${String(KILLS)} random kills: never a record without its row, never a row without its task`, async () => {
      const { tasks, close } = worker(makeQueue())
      for (let kill = 0; kill < KILLS; kill++) {
        // The first kill is between the commit and the enqueue.
        const statement = kill === 0 ? 'commit' : String(1 + Math.floor(Math.random() * 3 * STATEMENTS))
        const before = await committed()
        await killBefore(statement, argument)
        const { rows, records } = await committed()
        assert.deepEqual(new Set(rows.keys()), records, `killed before statement ${statement}`)
        for (const task of rows.keys()) {
          if (before.rows.get(task)) continue
          const end = await tasks.wait(task, { timeoutMs: RECOVERY_MS })
          assert.equal(end?.status, 'completed', `killed before statement ${statement}: ${JSON.stringify(end)}`)
        }
        if (kill === 0) assert.ok(rows.size > before.rows.size, 'nothing has committed')
      }
      assert.deepEqual(new Set((await committed()).rows.values()), new Set([true]))
      await close()
    })
  })
}

describe('PostgreSQL is killed while transactions submit', () => {
  it('never a record without its row, never a row without its task', async () => {
    const { tasks } = worker(new BullMQQueue({ connection, name: 'server-kills' }))
    const [definition] = [tasks.definition('invoice') ?? assert.fail()]
    let made = 0
    let isOver = false
    const submitForever = async () => {
      while (!isOver) {
        const id = `server-${String(made++)}`
        const client = await pool.connect().catch(() => undefined)
        if (!client) {
          await new Promise((resolve) => { setTimeout(resolve, 20) })
          continue
        }
        try {
          await client.query('BEGIN')
          await client.query('INSERT INTO invoices VALUES ($1, $1)', [id])
          const { taskId } = await tasks.submit(definition, { id }, { transaction: client })
          await client.query('UPDATE invoices SET task = $2 WHERE id = $1', [id, taskId])
          await client.query('COMMIT')
          client.release()
        } catch {
          client.release(true)
        }
      }
    }
    const submitters = Promise.all([submitForever(), submitForever(), submitForever()])
    for (let kill = 0; kill < 3; kill++) {
      const seen = made
      while (made < seen + 20) await new Promise((resolve) => { setTimeout(resolve, 10) })
      await server.kill()
      await server.run()
    }
    isOver = true
    await submitters
    const { rows, records } = await committed()
    assert.deepEqual(new Set(rows.keys()), records)
    for (const task of rows.keys()) {
      const end = await tasks.wait(task, { timeoutMs: 30_000 })
      assert.equal(end?.status, 'completed', JSON.stringify(end))
    }
  })
})

/** Runs a process that submits, until it kills itself before its n-th statement. */
async function killBefore(statement: string, queue: string): Promise<void> {
  const script = new URL('./transaction-process.ts', import.meta.url).pathname
  const child = spawn(process.execPath, ['--import', 'tsx', script, server.url, queue, statement], { stdio: ['ignore', 'ignore', 'pipe'] })
  let errors = ''
  child.stderr.on('data', (text) => { errors += String(text) })
  const [, signal] = await once(child, 'exit') as [number | null, string | null]
  assert.equal(signal, 'SIGKILL', errors)
}
