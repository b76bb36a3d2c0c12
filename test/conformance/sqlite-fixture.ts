import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { EngineFixture, EngineProcess, EngineSettings } from 'longhaul/conformance'
import type { SqliteDatabase, SqliteValue } from '../../adapters/sqlite/client.js'
import { Database } from '../../adapters/sqlite/database.js'
import { SqliteTaskEngine } from '../../adapters/sqlite/engine.js'
import { openSqlite, type OpenSqlite } from '../servers/sqlite.js'

/** Engines on one file, each with a connection of its own, as in processes of their own. */
export function sqliteFixture(folder: string, settings: EngineSettings): EngineFixture {
  const path = join(folder, `${randomBytes(6).toString('hex')}.db`)
  const ends: (() => Promise<void>)[] = []
  return {
    open: async () => {
      const connection = openSqlite(path)
      const link = new Link(connection)
      const { tasks: maxEntries = 100_000, bytes: maxBytes = 64 * 2 ** 20 } = settings.share ?? {}
      const database = new Database({ database: link.database, synchronous: 'normal', timeoutMs: 3000 })
      const engine = new SqliteTaskEngine(database, {
        leaseMs: settings.leaseMs, limits: { maxEntries, maxBytes },
      })
      ends.push(async () => {
        await engine.close({ drainMs: 0 })
        connection.close()
      })
      await engine.now()
      return {
        engine, freeze: () => { link.isFrozen = true }, thaw: () => { link.isFrozen = false },
        kill: () => { link.isCut = true },
      } satisfies EngineProcess
    },
    snapshot: async () => snapshot(path),
    close: async () => {
      await Promise.all(ends.map((end) => end()))
      for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true })
    },
  }
}

/** Copies all tables. The result puts the copies back. It calls `locked` while nobody else writes. */
export function snapshot(path: string): (locked?: () => void) => Promise<void> {
  const copying = openSqlite(path)
  const tables = copying.prepare('SELECT name FROM sqlite_master WHERE type = \'table\' AND name NOT LIKE \'sqlite%\'')
    .all() as { readonly name: string }[]
  const copies = tables.map(({ name }) => ({
    name, rows: copying.prepare(`SELECT * FROM ${name}`).all() as Record<string, SqliteValue>[],
  }))
  copying.close()
  return async (locked) => {
    const database = openSqlite(path)
    database.exec('PRAGMA busy_timeout = 5000')
    database.exec('BEGIN IMMEDIATE')
    locked?.()
    for (const { name, rows } of copies) {
      database.exec(`DELETE FROM ${name}`)
      for (const row of rows) {
        const columns = Object.keys(row)
        database.prepare(`INSERT INTO ${name} (${columns.join()}) VALUES (${columns.map(() => '?').join()})`)
          .run(...Object.values(row))
      }
    }
    database.exec('COMMIT')
    database.close()
  }
}

/** The way of one process to the file. While it is frozen, another process has locked the file. */
export class Link {
  isFrozen = false
  isCut = false

  constructor(private readonly connection: OpenSqlite) {}

  get database(): SqliteDatabase {
    const pass = <T>(work: () => T): T => {
      if (this.isCut) throw new Error('The process was killed')
      if (this.isFrozen) throw Object.assign(new Error('database is locked'), { errcode: 5 })
      return work()
    }
    return {
      exec: (sql) => pass(() => this.connection.exec(sql)),
      prepare: (sql) => {
        const statement = this.connection.prepare(sql)
        return {
          all: (...values) => pass(() => statement.all(...values)),
          run: (...values) => pass(() => statement.run(...values)),
        }
      },
    }
  }
}
