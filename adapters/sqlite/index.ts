import { duration, oneOf, readOptions, text, whole, type OptionTable } from '../../src/runtime/options.js'
import type { Blobs } from '../../src/stores/blobs.js'
import { SHARES } from '../../src/stores/share-limits.js'
import { FolderBlobs } from '../files/folder-blobs.js'
import { DATABASE, type SqliteDatabase } from './client.js'
import { Database } from './database.js'
import { SqliteTaskEngine } from './engine.js'
import { SqliteStore } from './store.js'

export type { SqliteStore, SqliteTaskEngine }
export type { SqliteChanges, SqliteDatabase, SqliteStatement, SqliteValue } from './client.js'

/** Options of `sqlite`. */
export interface SqliteOptions {
  /**
   * Your database of node:sqlite, better-sqlite3, libsql or bun:sqlite, on a local disk. You close
   * it yourself, after the tasks.
   *
   * `sqlite` sets its `journal_mode` to `wal`, and its `synchronous`.
   */
  readonly database: SqliteDatabase
  /**
   * Durability of commits. With `normal`, a power failure may lose the last tasks. Default `full`.
   *
   * Acknowledged data survive the end of the process in either case. With `normal`, several times
   * as many writes are possible.
   */
  readonly synchronous?: 'full' | 'normal'
  /** Folder of the blobs. Default: the name of the file, with `-blobs` at its end. */
  readonly folder?: string
  /** Maximum size of all blobs in bytes. Default: no limit. */
  readonly maxBlobBytes?: number
  /** Maximum time of one call, while other processes have the lock, in milliseconds. Default 3000. */
  readonly timeoutMs?: number
  /**
   * Time without a renewal after which another process takes a run, in milliseconds: from 100 to
   * 86,400,000. Default 15,000.
   *
   * A process renews its runs at a third of it.
   */
  readonly leaseMs?: number
  /**
   * Maximum number of finished tasks of one owner, and of its stored responses and finished
   * uploads. Default 100,000.
   *
   * Beyond it, the owner's oldest are deleted.
   */
  readonly maxEntriesPerOwner?: number
  /** Maximum size of these tasks in bytes, and of these entries. Default 64 MiB. */
  readonly maxBytesPerOwner?: number
}

const OPTIONS = {
  database: DATABASE,
  synchronous: oneOf(['full', 'normal'], { default: 'full' }),
  folder: text(),
  maxBlobBytes: whole({ min: 1, infinity: true, default: Infinity }),
  timeoutMs: duration({ min: 10, max: 4000, default: 3000 }),
  leaseMs: duration({ min: 100, max: 86_400_000, default: 15_000 }),
  ...SHARES,
} satisfies OptionTable<SqliteOptions>

/** Result of `sqlite`. */
export interface Sqlite {
  readonly engine: SqliteTaskEngine
  readonly store: SqliteStore
  /** A folder that all processes share. */
  readonly blobs: Blobs
}

/**
 * Creates a task engine, a store and blobs in a file of SQLite and a folder beside it, which several
 * processes of one machine may share. No server is needed, and no package with Node 22.13 or later.
 *
 * @example
 * import { DatabaseSync } from 'node:sqlite'
 *
 * const tasks = createTasks({ ...sqlite({ database: new DatabaseSync('data.db') }), definitions: [report] })
 *
 * @throws {TypeError} An option is unknown or out of range, or the database is in memory.
 */
export function sqlite(options: SqliteOptions): Sqlite {
  const {
    database, synchronous, folder = `${fileOf(options)}-blobs`, maxBlobBytes, timeoutMs, leaseMs,
    maxEntriesPerOwner, maxBytesPerOwner,
  } = readOptions('sqlite', options, OPTIONS)
  const limits = { maxEntries: maxEntriesPerOwner, maxBytes: maxBytesPerOwner }
  const file = new Database({ database, synchronous, timeoutMs })
  return {
    engine: new SqliteTaskEngine(file, { limits, leaseMs }),
    store: new SqliteStore(file, limits),
    blobs: new FolderBlobs(folder, { shared: true, maxBytes: maxBlobBytes }),
  }
}

function fileOf(options: SqliteOptions): string {
  const { database } = readOptions('sqlite', options, OPTIONS)
  const [main] = database.prepare('PRAGMA database_list').all() as { readonly file: string | null }[]
  if (main?.file) return main.file
  throw new TypeError('sqlite: the database must be a file; for tasks in memory use memory()')
}
