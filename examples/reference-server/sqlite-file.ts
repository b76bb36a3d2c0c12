import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import type { SqliteDatabase } from 'longhaul/sqlite'
import { StoreUnavailableError } from 'longhaul/stores'

/** A database that this server closes. */
export type OpenSqlite = SqliteDatabase & { close(): void }

type Driver = new (path: string) => OpenSqlite

/** Maximum time that work waits for the lock of another process, and between two tries, in milliseconds. */
const PATIENCE_MS = 3000
const AGAIN_MS = 5

/** Result codes of SQLite: busy, locked. */
const BUSY = new Set([5, 6])
/** Result codes of SQLite: read-only, I/O error, corrupt, full, cannot open, no database. */
const FAULTS = new Set([8, 10, 11, 13, 14, 26])

const load = createRequire(import.meta.url)

/** True for a file of SQLite: `sqlite:` and its path. */
export function isSqlite(database: string): boolean {
  return database.startsWith('sqlite:') && !['', ':memory:'].includes(pathOf(database))
}

/** Returns the path of the file. `sqlite:./data.db` and `sqlite://./data.db` are the same. */
export function pathOf(database: string): string {
  return database.replace(/^sqlite:(?:\/\/)?/, '')
}

/**
 * Opens a file with the SQLite of Node, or with the package `libsql` on Node 20, which has none. Several connections of
 * several processes may be open at once. Statements never wait for a lock: see `untilFree`.
 */
export function openFile(path: string): OpenSqlite {
  const database = new (driver())(path)
  database.exec('PRAGMA busy_timeout = 0')
  return database
}

function driver(): Driver {
  // The name of the module is no import, because Node 20 does not have it.
  if (process.getBuiltinModule?.('node:sqlite')) return (load('node:sqlite') as { DatabaseSync: Driver }).DatabaseSync
  try {
    return load('libsql') as Driver
  } catch (cause) {
    throw new Error(`Node ${process.versions.node} has no SQLite; use Node 22.13 or later, or run: npm install libsql`, { cause })
  }
}

/** Runs work that another process may lock out, until it has the lock. The event loop continues meanwhile. */
export async function untilFree<T>(work: () => T, signal?: AbortSignal): Promise<T> {
  for (const began = performance.now(); ;) {
    signal?.throwIfAborted()
    try {
      return work()
    } catch (error) {
      if (!isBusy(error)) throw asUnavailable(error)
      if (performance.now() - began > PATIENCE_MS) throw new StoreUnavailableError('The file is locked', { cause: error })
      await sleep(AGAIN_MS, undefined, { signal })
    }
  }
}

/** Returns an error that gets a 503 for a fault of the file or its disk, and other errors as they are. */
export function asUnavailable(error: unknown): unknown {
  return FAULTS.has(codeOf(error)) ? new StoreUnavailableError('The file of the users failed', { cause: error }) : error
}

function isBusy(error: unknown): boolean {
  return BUSY.has(codeOf(error))
}

/** Returns the primary result code of SQLite: node:sqlite and libsql have different properties for it. */
function codeOf(error: unknown): number {
  const { errcode, rawCode = errcode } = Object(error) as { errcode?: number, rawCode?: number }
  return (rawCode ?? 0) & 0xff
}
