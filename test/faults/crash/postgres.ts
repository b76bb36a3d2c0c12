import { after } from 'node:test'
import { postgres, PostgresQueue } from 'longhaul/postgres'
import pg from 'pg'
import { postgresForFile } from '../../servers/postgres-server.js'
import type { CrashDatabase, CrashEngine } from './database.js'
import { TIMES } from './work.js'

const TASK = 'task:'

export function openPostgres(url: string, maxStalledCount: number): CrashEngine {
  const pool = new pg.Pool({ connectionString: url })
  return {
    ...postgres({ pool }),
    queue: new PostgresQueue({ pool, ...TIMES, maxStalledCount }),
    callbackQueue: new PostgresQueue({ pool, ...TIMES, name: 'callbacks' }),
    count: (taskId) => pool.query('insert into runs (task_id) values ($1)', [taskId]),
  }
}

/** A PostgreSQL of the file. Commits wait for the disk. */
export async function crashPostgres(): Promise<CrashDatabase & { readonly pool: pg.Pool }> {
  const { url } = await postgresForFile({ fsync: true })
  const pool = new pg.Pool({ connectionString: url })
  await pool.query('create table runs (task_id text)')
  const board = new PostgresQueue({ pool })
  after(async () => {
    await board.close()
    await pool.end()
  })
  return {
    url, pool, board,
    runs: async (taskId) => (await pool.query('select from runs where task_id = $1', [taskId])).rowCount ?? 0,
    taskIds: async () => {
      const sql = 'select key from longhaul.entries where starts_with(key, $1)'
      return (await pool.query<{ key: string }>(sql, [TASK])).rows.map(({ key }) => key.slice(TASK.length))
    },
  }
}
