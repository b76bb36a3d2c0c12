import { httpError, type MaybePromise } from 'longhaul'
import type { PageRequest } from 'longhaul/resources'
import { asUnavailable, untilFree, type OpenSqlite } from '../sqlite-file.js'
import { MemoryUsers } from './memory-users.js'
import { ownCall, type CountedPage, type ImportCursors, type Users } from './repository.js'
import { SerialUsers } from './serial-users.js'
import { SqliteTable } from './sqlite-table.js'
import type { User } from './user.js'

const PIECE = 500
/** Time after which the cursor of an import is removed, in milliseconds. */
const KEPT_MS = 30 * 86_400_000

/**
 * Users in a file of SQLite that several processes share. Reads have a connection of their own, so they see committed users
 * only. One write at a time has the lock of the file: in this process by `SerialUsers`, between processes by BEGIN IMMEDIATE.
 */
export class SqliteUsers extends SerialUsers implements Users {
  readonly shared = true
  readonly imports: ImportCursors = {
    // In a transaction, so that it waits for one that replaces the cursor.
    read: (taskId) => this.transaction(async ({ imports }) => imports?.read(taskId), ownCall()),
    replace: () => Promise.reject(new Error('A cursor is replaced in the transaction of its users')),
  }
  readonly #reads: OpenSqlite
  readonly #writes: OpenSqlite
  readonly #read: SqliteTable
  readonly #written: SqliteTable

  constructor({ reads, writes }: { readonly reads: OpenSqlite, readonly writes: OpenSqlite }) {
    super()
    this.#reads = reads
    this.#writes = writes
    this.#read = new SqliteTable(reads)
    this.#written = new SqliteTable(writes)
  }

  list({ start, limit }: PageRequest): Promise<CountedPage> {
    return untilFree(() => this.#read.page(start, limit))
  }

  get(id: number): Promise<User | undefined> {
    return untilFree(() => this.#read.get(id))
  }

  async* all(role?: string): AsyncGenerator<User[], void, undefined> {
    for (let last = -1; ;) {
      const after = last
      const users = await untilFree(() => this.#read.following(after, PIECE, role))
      if (users.length > 0) yield users
      if (users.length < PIECE) return
      last = users.at(-1)?.id ?? last
    }
  }

  async close(): Promise<void> {
    await this.lastWrite()
    this.#reads.close()
    this.#writes.close()
  }

  protected async transact<T>(work: (users: MemoryUsers) => MaybePromise<T>, signal: AbortSignal): Promise<T> {
    await untilFree(() => this.#writes.exec('BEGIN IMMEDIATE'), signal)
    try {
      const result = await work(new InsideUsers([], this.#written))
      this.#writes.exec('COMMIT')
      return result
    } catch (error) {
      rollBack(this.#writes)
      throw asUnavailable(error)
    }
  }
}

/** Users and cursors inside a transaction. */
class InsideUsers extends MemoryUsers {
  readonly imports: ImportCursors

  constructor(users: readonly User[], table: SqliteTable) {
    super(users, table)
    this.imports = {
      read: async (taskId) => table.cursor(taskId),
      replace: async (taskId, cursor, previous) => {
        const now = Date.now()
        if (previous === undefined) table.removeCursors(now - KEPT_MS)
        // This process was suspended, and another one has continued the import.
        if (table.cursor(taskId) !== previous) throw httpError('attempt_replaced')
        table.setCursor(taskId, cursor, now)
      },
    }
  }
}

/** SQLite has rolled back by itself after some errors. */
function rollBack(database: OpenSqlite): void {
  try {
    database.exec('ROLLBACK')
  } catch {
    // There is no transaction any more.
  }
}
