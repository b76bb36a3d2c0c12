import { after } from 'node:test'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { postgresForFile } from '../../servers/postgres-server.js'
import type { CrashDatabase, CrashEngine } from '../kit/database.js'
import { LEASE_MS } from './work.js'

export function openPostgres(url: string): CrashEngine {
  const pool = new pg.Pool({ connectionString: url })
  return {
    ...postgres({ pool, leaseMs: LEASE_MS }),
    count: (taskId) => pool.query('insert into runs (task_id) values ($1)', [taskId]),
  }
}

/** A PostgreSQL of the file. Commits wait for the disk. */
export async function crashPostgres(): Promise<CrashDatabase & { readonly pool: pg.Pool }> {
  const { url } = await postgresForFile({ fsync: true })
  const pool = new pg.Pool({ connectionString: url })
  await pool.query('create table runs (task_id text)')
  const { engine, store } = postgres({ pool })
  after(async () => {
    await engine.close({ drainMs: 0 })
    await store.close()
    await pool.end()
  })
  return {
    url, pool, engine,
    runs: async (taskId) => (await pool.query('select from runs where task_id = $1', [taskId])).rowCount ?? 0,
  }
}
