import { after } from 'node:test'
import { sqlite } from 'longhaul/sqlite'
import { openSqlite, sqliteUrl } from '../../servers/sqlite.js'
import type { CrashDatabase, CrashEngine } from '../kit/database.js'
import { LEASE_MS } from './work.js'

function pathOf(url: string): string {
  return url.slice('sqlite:'.length)
}

export function openSqliteFile(url: string): CrashEngine {
  const { engine, store } = sqlite({ database: openSqlite(pathOf(url)), leaseMs: LEASE_MS })
  const runs = openSqlite(`${pathOf(url)}-runs`)
  runs.exec('PRAGMA busy_timeout = 10000')
  return { engine, store, count: async (taskId) => runs.prepare('INSERT INTO runs VALUES (?)').run(taskId) }
}

/** A file of SQLite. */
export async function crashSqlite(): Promise<CrashDatabase> {
  const url = await sqliteUrl()
  const database = openSqlite(pathOf(url))
  const runs = openSqlite(`${pathOf(url)}-runs`)
  runs.exec('PRAGMA journal_mode = WAL; PRAGMA busy_timeout = 10000; CREATE TABLE runs (task TEXT)')
  const { engine, store, blobs } = sqlite({ database })
  after(async () => {
    await engine.close({ drainMs: 0 })
    await store.close()
    await blobs.close()
    database.close()
    runs.close()
  })
  return {
    url, engine,
    runs: async (taskId) => runs.prepare('SELECT 1 FROM runs WHERE task = ?').all(taskId).length,
  }
}
