import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { after, describe, it } from 'node:test'
import { createTasks } from 'longhaul'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { startPostgres } from '../../servers/postgres-server.js'
import { invoice } from './invoice.js'
import { program } from '../../servers/program.js'

/** Kills: 12 or, in the long form, 102. */
const KILLS = process.env['LONGHAUL_LARGE'] === undefined ? 12 : 102
/** Statements of one transaction, about. */
const STATEMENTS = 10
/** Time from the death of a process to the end of its tasks, in milliseconds. */
const RECOVERY_MS = 8000

const server = await startPostgres({ fsync: false })
const pool = new pg.Pool({ connectionString: server.url })
pool.on('error', () => undefined)
pool.on('connect', (client) => { client.on('error', () => undefined) })
await pool.query(
  'CREATE TABLE invoices (id text PRIMARY KEY, name text, task text, done boolean NOT NULL DEFAULT false)',
)
await postgres({ pool }).engine.now()
const closings: (() => Promise<unknown>)[] = []
after(async () => {
  await Promise.all(closings.map((close) => close()))
  await pool.end()
  await server.stop()
})

function worker() {
  const { engine, store } = postgres({ pool })
  const tasks = createTasks({ engine, store, definitions: [invoice(pool)], onError: () => undefined })
  let isClosed: Promise<void> | undefined
  const close = () => isClosed ??= tasks.close({ drainMs: 1000 }).then(() => store.close())
  closings.push(close)
  return { tasks, close }
}

/** Rows that committed, by the id of the task, and the ids of tasks. */
async function committed(): Promise<{ rows: Map<string, boolean>, ids: Set<string> }> {
  const [rows, ids] = await Promise.all([
    pool.query<{ task: string, done: boolean }>('SELECT task, done FROM invoices'),
    pool.query<{ id: string }>('SELECT id FROM longhaul.task_rows'),
  ])
  return { rows: new Map(rows.rows.map(({ task, done }) => [task, done])), ids: new Set(ids.rows.map(({ id }) => id)) }
}

describe('a process is killed between the statements of a transaction', () => {
  it(`${String(KILLS)} random kills leave no task without its row, and no row without its task`, async () => {
    const { tasks, close } = worker()
    for (let kill = 0; kill < KILLS; kill++) {
      // The first kill is right after the commit.
      const statement = kill === 0 ? 'commit' : String(1 + Math.floor(Math.random() * 3 * STATEMENTS))
      const before = await committed()
      await killBefore(statement)
      const { rows, ids } = await committed()
      assert.deepEqual(new Set(rows.keys()), ids, `killed before statement ${statement}`)
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

describe('PostgreSQL is killed while transactions submit', () => {
  it('no task exists without its row, and no row without its task', async () => {
    const { tasks } = worker()
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
    const { rows, ids } = await committed()
    assert.deepEqual(new Set(rows.keys()), ids)
    for (const task of rows.keys()) {
      const end = await tasks.wait(task, { timeoutMs: 30_000 })
      assert.equal(end?.status, 'completed', JSON.stringify(end))
    }
  })
})

/** Runs a process that submits, until it kills itself before its n-th statement. */
async function killBefore(statement: string): Promise<void> {
  const script = new URL('./transaction-process.ts', import.meta.url).pathname
  const child = spawn(process.execPath, [...program(script), server.url, statement], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let errors = ''
  child.stderr.on('data', (text) => { errors += String(text) })
  const [, signal] = await once(child, 'exit') as [number | null, string | null]
  assert.equal(signal, 'SIGKILL', errors)
}
