import { after } from 'node:test'
import { createTasks, type Tasks, type TasksOptions } from 'longhaul'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { startPostgres } from '../../servers/postgres-server.js'

/** A client inside BEGIN. The transaction ends when the test says so. */
export type Client = pg.PoolClient

/** One database for all tests of a file, with a table of the application. */
export async function databaseForFile() {
  const server = await startPostgres()
  const pool = new pg.Pool({ connectionString: server.url })
  pool.on('error', () => undefined)
  const closings: (() => Promise<void>)[] = []
  after(async () => {
    await Promise.all(closings.map((close) => close()))
    await pool.end()
    await server.stop()
  })
  await pool.query('CREATE TABLE invoices (id text PRIMARY KEY, amount int, task text)')

  /** Runs `work` between BEGIN and COMMIT. Rolls back if it rejects. */
  async function transact<T>(work: (client: Client) => Promise<T>, begin = 'BEGIN'): Promise<T> {
    const client = await pool.connect()
    try {
      await client.query(begin)
      const result = await work(client)
      await client.query('COMMIT')
      return result
    } catch (error) {
      await client.query('ROLLBACK')
      throw error
    } finally {
      client.release()
    }
  }

  /** Number of rows in all tables of longhaul, by table. */
  async function traces(): Promise<Record<string, number>> {
    const tables = ['longhaul.entries', 'longhaul.counters', 'longhaul.task_rows', 'longhaul.task_callers']
    const counts = await Promise.all(tables.map(async (table) => (
      [table, Number((await pool.query<{ n: string }>(`SELECT count(*) AS n FROM ${table}`)).rows[0]?.n)] as const
    )))
    return Object.fromEntries(counts)
  }

  /** Tasks over the database. They are closed at the end of the file, before the server stops. */
  function tasksOver<const D extends TasksOptions['definitions']>(
    options: Omit<TasksOptions<D>, 'engine' | 'store'>,
  ): Tasks<D> {
    const { engine, store } = postgres({ pool })
    const tasks = createTasks({ engine, store, ...options })
    closings.push(async () => {
      await tasks.close({ drainMs: 0 })
      await store.close()
    })
    return tasks
  }

  return { server, pool, transact, traces, tasksOver }
}
