import { clearInterval, setImmediate, setInterval, setTimeout } from '../../src/runtime/timers.js'
import { observed, reasonOf, type StoreEvent } from '../../src/stores/calls.js'
import { isStoreUnavailable, StoreUnavailableError } from '../../src/stores/store.js'
import {
  faultOf, isBusy, isOfOneCall, withPlainRows, type SqliteChanges, type SqliteDatabase,
  type SqliteStatement, type SqliteValue,
} from './client.js'
import { ADDED_INDEXES, SCHEMA, SCHEMA_VERSION } from './schema.js'

/** Time between two attempts to get the lock that another process has, in milliseconds. */
const AGAIN_MS = 5
/** Interval of the checks whether another process has written, in milliseconds. */
const FOREIGN_MS = 50
/**
 * Minimum time between two removals of expired rows, in milliseconds. `MAX_EXPIRED` is the maximum
 * number of rows of one removal.
 */
const EXPIRE_MS = 1000
const MAX_EXPIRED = 200
const MAX_WAITING = 100_000

/** A call that waits for the next transaction. */
interface WaitingCall {
  /** Runs in the transaction, and again if the transaction was rolled back. */
  readonly work: () => unknown
  readonly resolve: (outcome: never) => void
  readonly reject: (error: Error) => void
  /** Time at which it fails, by the monotonic clock. */
  readonly until: number
}

/** Step at the end of a transaction, inside of it. `failed` gets an error that no call has caused. */
interface LastStep {
  readonly isWanted: () => boolean
  readonly run: () => void
  readonly failed: (error: Error) => void
}

/** Removes some expired rows. Returns `true` if more may be left. */
export type Expirer = (limit: number) => boolean

export interface DatabaseOptions {
  readonly database: SqliteDatabase
  readonly synchronous: 'full' | 'normal'
  /** Maximum time of a call, in milliseconds. */
  readonly timeoutMs: number
}

/**
 * One file. All writes of one turn of the event loop are one transaction, and so one sync to the disk.
 * A transaction begins and ends within one turn. SQLite works synchronously, so this process never waits
 * for a lock in it: if another process writes, the calls wait here and are tried again.
 */
export class Database {
  private calls: WaitingCall[] = []
  private readonly statements = new Map<string, SqliteStatement>()
  private lastStep: LastStep | undefined
  /** Effects of the transaction, once it is committed or rolled back. */
  private effects: { readonly done: () => void, readonly undone?: () => void }[] = []
  /** Last writes of the transaction. */
  private lastWrites: (() => void)[] = []
  private readonly forgetters: (() => void)[] = []
  private readonly expirers: Expirer[] = []
  private expiredAt = -Infinity
  private readonly foreign = new Set<() => void>()
  private timer: ReturnType<typeof setInterval> | undefined
  private readonly connection: Connection
  /** Number of transactions of this object. */
  private transactions = 0
  private version = ''
  /** Version of the last transaction. */
  private written = ''
  private isOpen = false
  private isScheduled = false

  constructor(private readonly options: DatabaseOptions) {
    const { database } = options
    this.connection = CONNECTIONS.get(database) ?? { transactions: 0 }
    CONNECTIONS.set(database, this.connection)
  }

  /** Time of the clock of this machine, in milliseconds since 1970. */
  get now(): number {
    return Date.now()
  }

  /**
   * Runs work in the next transaction. Rejects with a `StoreUnavailableError`, or with the error of the
   * work, which affects no other call.
   */
  write<T>(verb: StoreEvent['verb'], work: () => T): Promise<T> {
    return observed(verb, () => new Promise<T>((resolve, reject) => {
      if (this.calls.length >= MAX_WAITING) {
        reject(new StoreUnavailableError('Too many calls wait for the lock of the database'))
        return
      }
      const until = performance.now() + this.options.timeoutMs
      this.calls.push({ work, resolve, reject, until })
      this.schedule()
    }))
  }

  /** Runs work that only reads, at once. */
  read<T>(verb: StoreEvent['verb'], work: () => T): Promise<T> {
    return observed(verb, async () => {
      for (const began = performance.now(); ;) {
        try {
          this.open()
          return work()
        } catch (error) {
          const isLate = performance.now() - began > this.options.timeoutMs
          if (isLate || !isBusy(error)) throw toStoreError(error)
          await new Promise((resolve) => { setTimeout(resolve, AGAIN_MS) })
        }
      }
    })
  }

  /** Runs work whose statements must see one state of the file. For `read`. */
  inSnapshot<T>(work: () => T): T {
    const { database } = this.options
    try {
      database.exec('BEGIN')
    } catch (error) {
      // An open transaction of the application is a snapshot.
      if (isBusy(error)) return work()
      throw error
    }
    try {
      return work()
    } finally {
      rollBack(database)
    }
  }

  all<Row>(sql: string, ...values: SqliteValue[]): Row[] {
    return this.prepared(sql).all(...values) as Row[]
  }

  first<Row>(sql: string, ...values: SqliteValue[]): Row | undefined {
    return this.prepared(sql).all(...values)[0] as Row | undefined
  }

  run(sql: string, ...values: SqliteValue[]): SqliteChanges {
    return this.prepared(sql).run(...values)
  }

  /** Calls `done` once the current transaction is committed, or `undone` if it is rolled back. */
  after(done: () => void, undone?: () => void): void {
    this.effects.push(undone === undefined ? { done } : { done, undone })
  }

  /** Sets the function that runs at the end of each transaction. */
  setLastStep(step: LastStep): void {
    this.lastStep = step
  }

  /** Calls `write` before the commit of the current transaction. */
  beforeCommit(write: () => void): void {
    this.lastWrites.push(write)
  }

  /**
   * Adds a function that runs when rows that were read before may have changed: after a rollback or
   * a foreign change.
   */
  onForget(forget: () => void): void {
    this.forgetters.push(forget)
  }

  /** Adds a function that removes expired rows. Some of the transactions call it. */
  addExpirer(expire: Expirer): void {
    this.expirers.push(expire)
  }

  /** Begins a transaction in this turn, or after a time in milliseconds, even without a call. */
  schedule(delayMs = 0): void {
    if (this.isScheduled) return
    this.isScheduled = true
    if (delayMs === 0) setImmediate(() => { this.flush() })
    else setTimeout(() => { this.flush() }, delayMs)
  }

  /**
   * Calls `listener` soon after another process has written. Returns a function that removes the
   * listener.
   */
  onForeignChange(listener: () => void): () => void {
    this.foreign.add(listener)
    this.timer ??= setInterval(() => { this.lookForForeign() }, FOREIGN_MS).unref()
    return () => {
      this.foreign.delete(listener)
      if (this.foreign.size > 0) return
      clearInterval(this.timer)
      this.timer = undefined
    }
  }

  private prepared(sql: string): SqliteStatement {
    let statement = this.statements.get(sql)
    if (statement === undefined) {
      // SQLite 3.49 and later may plan a statement again for each value of a bare parameter.
      const planned = this.options.database.prepare(sql.replaceAll('?', '+?'))
      this.statements.set(sql, statement = withPlainRows(planned))
    }
    return statement
  }

  /** Creates the tables if necessary. Throws an error of SQLite. */
  private open(): void {
    if (this.isOpen) return
    const { database, synchronous } = this.options
    const mode = database.prepare('PRAGMA journal_mode = WAL').all()[0] as { journal_mode?: string }
    if (mode.journal_mode !== 'wal') {
      throw new StoreUnavailableError(
        'sqlite: the file must be on a local disk, because SQLite cannot use a write-ahead log for it; '
          + `its journal_mode is '${String(mode.journal_mode)}'`,
      )
    }
    database.exec(`PRAGMA synchronous = ${synchronous}`)
    this.alone(() => {
      const tables = 'SELECT name FROM sqlite_master WHERE name = \'longhaul_schema\''
      if (database.prepare(tables).all().length === 0) database.exec(SCHEMA)
      const [row] = database.prepare('SELECT version FROM longhaul_schema').all() as { version: number }[]
      if (Number(row?.version) > SCHEMA_VERSION) {
        throw new StoreUnavailableError(
          `sqlite: the file has version ${String(row?.version)} of the tables, and this version of `
            + `longhaul knows up to ${String(SCHEMA_VERSION)}; update longhaul`,
        )
      }
      database.exec(ADDED_INDEXES)
    })
    this.isOpen = true
    this.version = this.readVersion()
  }

  /** Runs work in a transaction, without waiting for the lock. */
  private alone(work: () => void): void {
    const { database } = this.options
    const [row] = this.all<{ readonly timeout: number }>('PRAGMA busy_timeout')
    // The event loop must not wait. The application's own statements wait as before.
    const wait = Number(row?.timeout ?? 0)
    if (wait > 0) database.exec('PRAGMA busy_timeout = 0')
    try {
      // A prepared statement of libsql that finds a lock is not reset, and keeps later reads at an old state.
      database.exec('BEGIN IMMEDIATE')
      try {
        work()
        database.exec('COMMIT')
      } catch (error) {
        rollBack(database)
        throw error
      }
    } finally {
      if (wait > 0) database.exec(`PRAGMA busy_timeout = ${String(wait)}`)
    }
  }

  private flush(): void {
    this.isScheduled = false
    const { calls } = this
    this.calls = []
    try {
      this.transact(calls, true)
    } catch (error) {
      if (isBusy(error)) this.waitForLock(calls, error)
      else if (isOfOneCall(error)) this.transactEach(calls)
      else this.fail(calls, error)
    }
  }

  /**
   * Makes calls in one transaction, and resolves them. Throws if nothing was done.
   *
   * @param isLast - also runs the last step
   */
  private transact(calls: readonly WaitingCall[], isLast: boolean): void {
    const outcomes: unknown[] = []
    this.effects = []
    this.lastWrites = []
    try {
      this.open()
      this.alone(() => {
        this.forgetForeign()
        for (const { work } of calls) outcomes.push(work())
        if (isLast) {
          if (this.lastStep?.isWanted()) this.lastStep.run()
          this.expire()
        }
        for (const write of this.lastWrites) write()
      })
    } catch (error) {
      this.forget()
      for (const { undone } of this.effects.splice(0)) undone?.()
      throw error
    }
    this.transactions++
    this.connection.transactions++
    for (const [n, { resolve }] of calls.entries()) resolve(outcomes[n] as never)
    for (const { done } of this.effects.splice(0)) done()
  }

  /** Makes each call in a transaction of its own, because an error belongs to one of them. */
  private transactEach(calls: readonly WaitingCall[]): void {
    for (const call of calls) {
      try {
        this.transact([call], false)
      } catch (error) {
        if (isBusy(error)) this.waitForLock([call], error)
        else call.reject(toStoreError(error))
      }
    }
    try {
      this.transact([], true)
    } catch (error) {
      if (isBusy(error)) this.waitForLock([], error)
      else this.fail([], error)
    }
  }

  /** Tries again soon. Calls whose time is over fail. */
  private waitForLock(calls: readonly WaitingCall[], error: unknown): void {
    const now = performance.now()
    for (const call of calls) {
      if (call.until < now) call.reject(toStoreError(error))
      else this.calls.push(call)
    }
    if (this.calls.length > 0 || this.lastStep?.isWanted()) this.schedule(AGAIN_MS)
  }

  private fail(calls: readonly WaitingCall[], error: unknown): void {
    const failure = toStoreError(error)
    for (const { reject } of calls) reject(failure)
    if (calls.length === 0) this.lastStep?.failed(failure)
  }

  /** Removes some expired rows: once a second, or in each transaction while more are left. */
  private expire(): void {
    const now = performance.now()
    if (now - this.expiredAt < EXPIRE_MS) return
    const more = this.expirers.filter((expire) => expire(MAX_EXPIRED))
    this.expiredAt = more.length > 0 ? -Infinity : now
  }

  /**
   * Drops cached rows if another connection has written since the last transaction. Call it in a
   * transaction.
   */
  private forgetForeign(): void {
    const version = this.readVersion()
    if (version !== this.written) this.forget()
    this.written = version
  }

  private forget(): void {
    for (const forget of this.forgetters) forget()
  }

  private lookForForeign(): void {
    try {
      this.open()
      const version = this.readVersion()
      if (version === this.version) return
      this.version = version
    } catch {
      return
    }
    for (const listener of this.foreign) listener()
  }

  /**
   * Returns a version that changes when other connections write. SQLite does not count writes of
   * this connection.
   */
  private readVersion(): string {
    const [row] = this.all<{ readonly data_version: number }>('PRAGMA data_version')
    return `${String(row?.data_version)} ${String(this.connection.transactions - this.transactions)}`
  }
}

/** State of a connection, which several objects may share. */
interface Connection {
  transactions: number
}

const CONNECTIONS = new WeakMap<SqliteDatabase, Connection>()

/** SQLite has rolled back itself after some errors. */
function rollBack(database: SqliteDatabase): void {
  try {
    database.exec('ROLLBACK')
  } catch {
    // There is no transaction any more.
  }
}

function toStoreError(error: unknown): Error {
  if (error instanceof TypeError || error instanceof Error && isStoreUnavailable(error)) return error
  return new StoreUnavailableError(
    isBusy(error) ? 'Another connection has locked the database' : `SQLite failed: ${reasonOf(error)}`,
    { reason: faultOf(error).reason, cause: error },
  )
}
