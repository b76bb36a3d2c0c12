import { hasMethod, value } from '../../src/runtime/options.js'
import type { Fault } from '../../src/stores/calls.js'

/**
 * The part of a SQLite driver that longhaul uses: `DatabaseSync` of node:sqlite (Node 22.13 or later),
 * better-sqlite3, libsql, or bun:sqlite. The application opens and closes it.
 */
export interface SqliteDatabase {
  /** Runs statements that return no rows. */
  exec(sql: string): unknown
  /** Compiles a statement. */
  prepare(sql: string): SqliteStatement
}

/** A compiled statement. Its parameters are `?`. */
export interface SqliteStatement {
  /** Runs a statement that returns rows. */
  all(...values: SqliteValue[]): unknown[]
  /** Runs a statement that returns no rows. */
  run(...values: SqliteValue[]): SqliteChanges
}

/** Outcome of a statement that writes. */
export interface SqliteChanges {
  /** Number of rows that were inserted, updated or deleted. */
  readonly changes: number | bigint
  /** `rowid` of the last row that was inserted. */
  readonly lastInsertRowid: number | bigint
}

/** A value of a parameter. */
export type SqliteValue = string | number | null

/** A statement of node:sqlite, which has both methods from Node 22.16 on. */
interface ArrayStatement extends SqliteStatement {
  all(...values: SqliteValue[]): unknown[][]
  columns?(): readonly { readonly name: string }[]
  setReturnArrays?(enabled: boolean): void
}

/**
 * Returns a statement whose rows are plain objects. Those of node:sqlite have no prototype and are
 * dictionaries, which V8 creates and copies four times as slowly.
 */
export function withPlainRows(statement: SqliteStatement): SqliteStatement {
  const source = statement as ArrayStatement
  if (!source.columns || !source.setReturnArrays) return statement
  const names = source.columns().map(({ name }) => name)
  const empty = Object.fromEntries(names.map((name): [string, unknown] => [name, null]))
  source.setReturnArrays(true)
  return {
    all: (...values) => source.all(...values).map((row) => {
      const object = { ...empty }
      for (const [n, name] of names.entries()) object[name] = row[n]
      return object
    }),
    run: (...values) => source.run(...values),
  }
}

export const DATABASE = value(
  'a database of node:sqlite, better-sqlite3, libsql or bun:sqlite: new DatabaseSync(\'data.db\')',
  (given) => hasMethod('prepare')(given) && hasMethod('exec')(given), { required: true },
)

const NAMES: Readonly<Record<string, number>> = {
  SQLITE_BUSY: 5, SQLITE_LOCKED: 6, SQLITE_READONLY: 8, SQLITE_IOERR: 10, SQLITE_CORRUPT: 11,
  SQLITE_FULL: 13, SQLITE_CANTOPEN: 14, SQLITE_NOTADB: 26,
}
const [BUSY, LOCKED, FULL] = [5, 6, 13]
/** Codes of the file, and not of a call: read-only, I/O error, corrupt, cannot open, no database. */
const FILE_FAULTS = new Set([8, 10, 11, 14, 26])

/** Returns the primary result code of SQLite: each driver has its own property for it. */
function codeOf(error: unknown): number | undefined {
  const { errcode, errno, code } = Object(error) as Readonly<Record<string, unknown>>
  for (const number of [errcode, errno]) if (typeof number === 'number') return number & 0xff
  return typeof code === 'string' ? NAMES[/^SQLITE_[A-Z]+/.exec(code)?.[0] ?? ''] : undefined
}

/** Messages while the application has an open transaction, or an open iterator of better-sqlite3. */
const IN_USE = /(within|inside) a transaction|busy executing a query/

/** Returns true if another connection has the lock, or the application uses this one. */
export function isBusy(error: unknown): boolean {
  const code = codeOf(error)
  return code === BUSY || code === LOCKED || error instanceof Error && IN_USE.test(error.message)
}

/** Returns true if the error belongs to a call, so that other calls of its transaction can succeed. */
export function isOfOneCall(error: unknown): boolean {
  const code = codeOf(error)
  return code === undefined || code !== FULL && !FILE_FAULTS.has(code)
}

export function faultOf(error: unknown): Fault {
  return { hasReplied: true, reason: codeOf(error) === FULL ? 'full' : 'unavailable' }
}
