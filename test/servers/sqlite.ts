import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { releaseLast } from '../../scripts/test-releases.mjs'
import type { SqliteDatabase } from '../../adapters/sqlite/client.js'

const load = createRequire(import.meta.url)

/** A database that a test closes. */
export type OpenSqlite = SqliteDatabase & { close(): void }

/** Opens a file with node:sqlite if this version of Node has it, otherwise with libsql. */
export function openSqlite(path: string): OpenSqlite {
  if (process.getBuiltinModule?.('node:sqlite')) {
    const { DatabaseSync } = load('node:sqlite') as { DatabaseSync: new (path: string) => OpenSqlite }
    return new DatabaseSync(path)
  }
  const Libsql = load('libsql') as new (path: string) => OpenSqlite
  return new Libsql(path)
}

/** Returns a folder that is removed after the tests of the file. */
export function sqliteFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-sqlite-'))
  releaseLast(() => { rmSync(folder, { recursive: true, force: true }) })
  return folder
}

/** Returns the address of a file that is removed after the tests of the file. */
export async function sqliteUrl(): Promise<string> {
  return `sqlite:${join(sqliteFolder(), 'data.db')}`
}
