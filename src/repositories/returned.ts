import { types } from 'node:util'

/** The failure of one record, which a repository returned in place of the record. */
export class FailedRecord {
  constructor(readonly error: unknown) {}
}

/**
 * Reads what a repository or a write returned for one record: the record, its failure, or
 * `undefined` if there is no such record.
 *
 * - `undefined` and `null`: there is no such record.
 * - An `Error`, also of another realm, or a `WriteError` of MongoDB: the record failed.
 * - A result of `Promise.allSettled`: its reason is a failure, its value is read by these rules.
 * - Any other object that may be a record: the record.
 *
 * @param source - method that returned the value, for the message
 * @throws {TypeError} The value is none of these, such as a number of rows, an array, a promise or
 * the result object of a database driver. So nothing unknown counts as success.
 */
export function readReturned(value: unknown, source: string): object | FailedRecord | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'object') throw unknownValue(source, nameOf(value))
  if (!isPlain(value)) {
    if (isError(value)) return new FailedRecord(value)
    checkInstance(value, source)
  }
  const { status, then, errmsg } = value as {
    readonly status?: unknown, readonly then?: unknown, readonly errmsg?: unknown,
  }
  if (typeof then === 'function') throw unknownValue(source, 'a promise; await it')
  if (typeof errmsg === 'string' && isWriteError(value)) {
    return new FailedRecord(new Error(errmsg, { cause: value }))
  }
  if ((status === 'fulfilled' || status === 'rejected') && isSettled(value, status)) {
    const settled = value as PromiseSettledResult<unknown>
    if (settled.status === 'rejected') return new FailedRecord(settled.reason)
    return settled.value === value ? undefined : readReturned(settled.value, source)
  }
  if (isDriverResult(value)) {
    const names = Object.keys(value).join(', ')
    throw unknownValue(source, `the result of a statement (${names})`)
  }
  return value
}

/** Reads a record that must be there. Throws its failure. */
export function readRecord(value: unknown, source: string): object {
  const returned = readReturned(value, source)
  if (returned instanceof FailedRecord) throw returned.error
  if (returned === undefined) throw unknownValue(source, 'no record')
  return returned
}

/**
 * Reads the elements of a list that a repository or a write returned, and the holes of the array.
 * If one is not valid, promises in the list no longer end the process when they reject.
 */
export function readEach<R>(values: readonly unknown[], read: (value: unknown, at: number) => R): R[] {
  try {
    return Array.from(values, read)
  } catch (error) {
    for (const value of values) if (value instanceof Promise) value.catch(() => undefined)
    throw error
  }
}

/** Returns true for an error of any realm. */
export function isError(value: unknown): boolean {
  return value instanceof Error || types.isNativeError(value)
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** Throws if an object is a collection of values, or a value such as a date, and no record. */
function checkInstance(value: object, source: string): void {
  const isMany = Symbol.iterator in value || Symbol.asyncIterator in value
  if (isMany) throw unknownValue(source, 'an array or another collection')
  const { valueOf } = value as { readonly valueOf?: unknown }
  const isScalar = typeof valueOf === 'function' && typeof valueOf.call(value) !== 'object'
  if (isScalar) throw unknownValue(source, 'a date or another single value')
}

/** `WriteError` of the MongoDB driver, which Mongoose returns among the documents, is no `Error`. */
function isWriteError(value: object): boolean {
  return 'code' in value && !('_id' in value) && !('id' in value)
}

/** A record may have a property `status`, so a settled result has nothing else. */
function isSettled(value: object, status: 'fulfilled' | 'rejected'): boolean {
  const other = status === 'fulfilled' ? 'value' : 'reason'
  return Object.keys(value).length === 2 && Object.hasOwn(value, other)
}

/** Properties that say how a statement ended. */
const OUTCOMES = new Set([
  // pg, PGlite, mysql2
  'rowCount', 'affectedRows', 'changedRows',
  // MongoDB
  'acknowledged', 'matchedCount', 'modifiedCount', 'nModified', 'lastErrorObject', 'ok',
  // SQLite, libsql, D1
  'changes', 'rowsAffected', 'success',
  // TypeORM, Kysely, Prisma, Supabase
  'affected', 'generatedMaps', 'numUpdatedRows', 'numInsertedOrUpdatedRows', 'count', 'error',
])
/** Other properties of the results of these drivers. */
const BESIDE_OUTCOMES = new Set([
  'command', 'oid', 'rows', 'fields', '_types', '_parsers', 'RowCtor', 'rowAsArray', 'blob',
  '_prebuiltEmptyResultObject', 'fieldCount', 'insertId', 'info', 'serverStatus', 'warningStatus',
  'stateChanges', 'upsertedCount', 'upsertedId', 'insertedCount', 'insertedId', 'insertedIds',
  'mongoose', 'n', 'value', 'lastInsertRowid', 'columns', 'columnTypes', 'results', 'meta', 'raw',
  'identifiers', 'numChangedRows', 'data', 'status', 'statusText', 'message',
])

/** Returns true for the result object of a database driver: it has no property of a record. */
function isDriverResult(value: object): boolean {
  let hasOutcome = false
  for (const name in value) {
    if (OUTCOMES.has(name)) hasOutcome = true
    else if (!BESIDE_OUTCOMES.has(name)) return false
  }
  return hasOutcome
}

function unknownValue(source: string, what: string): TypeError {
  return new TypeError(`${source} returned ${what}; return the record, an Error, or undefined`
    + ' if there is no such record')
}

function nameOf(value: unknown): string {
  return typeof value === 'string' ? 'a string' : `the ${typeof value} ${String(value)}`
}
