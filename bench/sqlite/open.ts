import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SqliteDatabase } from 'longhaul/sqlite'

/** Opens a new file, which is removed with the process. Needs Node 22.13 or later. */
export function openNewFile(): SqliteDatabase {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-bench-'))
  process.on('exit', () => { rmSync(folder, { recursive: true, force: true }) })
  const { DatabaseSync } = createRequire(import.meta.url)('node:sqlite') as { DatabaseSync: new (path: string) => SqliteDatabase }
  return new DatabaseSync(join(folder, 'data.db'))
}
