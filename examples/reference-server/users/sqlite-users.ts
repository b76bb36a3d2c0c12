import { httpError, type MaybePromise } from 'longhaul'
import type { Call, PageRequest, Update } from 'longhaul/resources'
import { asUnavailable, untilFree, type OpenSqlite } from '../sqlite-file.js'
import { MemoryUsers } from './memory-users.js'
import { ownCall, type CountedPage, type ImportCursors, type Outcome, type Users } from './repository.js'
import { SqliteTable } from './sqlite-table.js'
import type { User, UserChange, UserDraft } from './user.js'

const PIECE = 500
/** Time after which the cursor of an import is removed, in milliseconds. */
const KEPT_MS = 30 * 86_400_000

/**
 * Users in a file of SQLite that several processes share. Reads have a connection of their own, so they see committed users
 * only. One write at a time has the lock of the file: in this process by `#turn`, between processes by BEGIN IMMEDIATE.
 */
export class SqliteUsers implements Users {
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
  /** End of the last write of this process. */
  #turn: Promise<unknown> = Promise.resolve()

  constructor({ reads, writes }: { readonly reads: OpenSqlite, readonly writes: OpenSqlite }) {
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

  create(draft: UserDraft, call: Call): Promise<User> {
    return this.#write((users) => users.create(draft), call)
  }

  replace(id: number, draft: UserDraft, call: Call): Promise<{ readonly item: User, readonly created: boolean }> {
    return this.#write((users) => users.replace(id, draft), call)
  }

  update(id: number, change: UserChange, call: Call): Promise<User | undefined> {
    return this.#write((users) => users.update(id, change), call)
  }

  delete(id: number, call: Call): Promise<boolean> {
    return this.#write((users) => users.delete(id), call)
  }

  createMany(drafts: readonly UserDraft[], call: Call): Promise<readonly Outcome<User>[]> {
    return this.#write((users) => users.createMany(drafts), call)
  }

  updateMany(updates: readonly Update<number, UserChange>[], call: Call): Promise<readonly (Outcome<User> | undefined)[]> {
    return this.#write((users) => users.updateMany(updates), call)
  }

  transaction<Result>(work: (inside: Users) => Promise<Result>, call: Call): Promise<Result> {
    return this.#write(work, call)
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
    await this.#turn
    this.#reads.close()
    this.#writes.close()
  }

  #write<T>(work: (users: MemoryUsers) => MaybePromise<T>, { signal }: Call): Promise<T> {
    const done = this.#turn.then(() => this.#transact(work, signal))
    this.#turn = done.catch(() => undefined)
    return done
  }

  async #transact<T>(work: (users: MemoryUsers) => MaybePromise<T>, signal: AbortSignal): Promise<T> {
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
