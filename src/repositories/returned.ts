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
 * - An `Error`, even of another realm, or a `WriteError` of MongoDB: the record failed.
 * - A result of `Promise.allSettled`: its reason is a failure, and these rules apply to its value.
 * - Any other object that may be a record: the record.
 *
 * @param source - method that returned the value, for the message
 * @throws {TypeError} The value is none of these, such as a number of rows, an array, a promise or
 * the result object of a database driver. So no unknown value counts as success.
 */
export function readReturned(value: unknown, source: string): object | FailedRecord | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'object') throw unknownValue(source, nameOf(value))
  if (!isPlain(value)) {
    if (isError(value)) return new FailedRecord(value)
    checkInstance(value, source)
  }
  const { status, then } = value as { readonly status?: unknown, readonly then?: unknown }
  if (typeof then === 'function') throw unknownValue(source, 'a promise; await it')
  const failure = writeErrorOf(value)
  if (failure !== undefined) return new FailedRecord(new Error(failure, { cause: value }))
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

/** Reads a record that must exist. Throws the failure that stands in its place. */
export function readRecord(value: unknown, source: string): object {
  const returned = readReturned(value, source)
  if (returned instanceof FailedRecord) throw returned.error
  if (returned === undefined) throw unknownValue(source, 'no record')
  return returned
}

/**
 * Reads the elements of a list that a repository or a write returned, and the holes of the array.
 * If an element is not valid, promises in the list no longer end the process when they reject.
 */
export function readEach<R>(values: readonly unknown[], read: (value: unknown, at: number) => R): R[] {
  try {
    // `Array.from` takes fourteen times as long, and `map` leaves holes out.
    const results: R[] = []
    for (let at = 0; at < values.length; at++) results.push(read(values[at], at))
    return results
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

/** Throws if an object is no record, but a collection of values or a value such as a date. */
function checkInstance(value: object, source: string): void {
  const isMany = Symbol.iterator in value || Symbol.asyncIterator in value
  if (isMany) throw unknownValue(source, 'an array or another collection')
  const { valueOf } = value as { readonly valueOf?: unknown }
  const isScalar = typeof valueOf === 'function' && typeof valueOf.call(value) !== 'object'
  if (isScalar) throw unknownValue(source, 'a date or another single value')
}

/** Properties of a `WriteError` of the MongoDB driver. */
const WRITE_ERROR = new Set(['err', 'errmsg', 'code', 'index', 'errInfo', 'op', 'keyPattern', 'keyValue'])

/**
 * Returns the message of a `WriteError`, which Mongoose returns among the documents and which is no
 * `Error`. Before version 9, Mongoose returns a copy of its property `err` and of its index.
 */
function writeErrorOf(value: object): string | undefined {
  type WriteError = { readonly errmsg?: unknown, readonly code?: unknown }
  const { errmsg, code, err } = value as WriteError & { readonly err?: WriteError | null }
  const message = errmsg ?? err?.errmsg
  if (typeof message !== 'string' || (code ?? err?.code) === undefined) return undefined
  for (const name in value) if (!WRITE_ERROR.has(name)) return undefined
  return message
}

/** `p-settle` adds the flags. */
const SETTLED = new Set(['status', 'value', 'reason', 'isFulfilled', 'isRejected'])

/** A settled result has no further properties, because a record may have a property `status`. */
function isSettled(value: object, status: 'fulfilled' | 'rejected'): boolean {
  const names = Object.keys(value)
  return Object.hasOwn(value, status === 'fulfilled' ? 'value' : 'reason')
    && names.every((name) => SETTLED.has(name))
}

/** Properties of the result of a statement: those that it always has, and others. */
interface Shape {
  readonly required: readonly string[]
  readonly names: ReadonlySet<string>
}

/**
 * Results of statements. An object that has another property is a record, because a record may have
 * any name: `{ value, count }` of a `GROUP BY`.
 */
const RESULTS: readonly Shape[] = [
  // pg, pg-promise, Slonik, Neon
  shapeOf('rowCount', 'command oid rows fields _types _parsers RowCtor rowAsArray'
    + ' _prebuiltEmptyResultObject duration notices type text'),
  // PGlite, mysql, mysql2, MariaDB, MikroORM
  shapeOf('affectedRows', 'rows fields blob fieldCount insertId info serverStatus warningStatus'
    + ' warningCount changedRows stateChanges message protocol41 row insertedIds'),
  // MongoDB, Mongoose
  shapeOf('acknowledged', 'matchedCount modifiedCount upsertedCount upsertedId insertedCount insertedId'
    + ' insertedIds deletedCount mongoose'),
  shapeOf('matchedCount', 'result modifiedCount upsertedCount upsertedIds insertedCount insertedIds'
    + ' deletedCount mongoose'),
  shapeOf('lastErrorObject', 'value ok $clusterTime operationTime'),
  shapeOf('ok', 'n nModified deletedCount upserted opTime electionId $clusterTime operationTime'),
  // better-sqlite3, node:sqlite, sqlite
  shapeOf('changes', 'lastInsertRowid lastInsertRowId lastID stmt'),
  // libsql, PlanetScale, TiDB, mssql, oracledb
  shapeOf('rowsAffected', 'rows columns columnTypes lastInsertRowid lastInsertId insertId headers types'
    + ' fields size statement time rowCount recordset recordsets output returnValue lastRowid outBinds'
    + ' metaData resultSet implicitResults warning'),
  // D1, results of validation
  shapeOf('success', 'meta results error data message status output issues typed'),
  // TypeORM
  shapeOf('affected', 'raw generatedMaps'),
  shapeOf('generatedMaps', 'raw identifiers'),
  // Kysely
  shapeOf('numUpdatedRows', 'numChangedRows'),
  shapeOf('numDeletedRows'),
  shapeOf('numInsertedOrUpdatedRows', 'insertId'),
  shapeOf('numChangedRows'),
  // Prisma, Sequelize
  shapeOf('count', 'rows'),
  // Supabase, results of other libraries
  shapeOf('error', 'data count status statusText success message value ok'),
  shapeOf('ok', 'value data message status statusText'),
  // GraphQL, fp-ts
  shapeOf('errors', 'data error extensions loading networkStatus'),
  shapeOf('_tag', 'left right value'),
  // An item of a bulk request of Elasticsearch or OpenSearch
  ...['index', 'create', 'update', 'delete'].map((action) => shapeOf(action)),
  // Azure Cosmos DB
  shapeOf('statusCode requestCharge', 'eTag resourceBody retryAfterMilliseconds'),
  shapeOf('statusCode resource', 'headers substatus diagnostics item'),
]

const RESULT_NAMES = new Set(RESULTS.flatMap(({ names }) => [...names]))

function shapeOf(required: string, others = ''): Shape {
  const names = required.split(' ')
  return { required: names, names: new Set([...names, ...others.split(' ').filter(Boolean)]) }
}

/** Returns true for the result of a statement. */
function isDriverResult(value: object): boolean {
  // All outputs of the AWS SDK have it, whatever else they have.
  if ('$metadata' in value) return true
  const found: string[] = []
  for (const name in value) {
    // Nearly all records end here.
    if (!RESULT_NAMES.has(name)) return false
    found.push(name)
  }
  return RESULTS.some(({ required, names }) => (
    required.every((name) => found.includes(name)) && found.every((name) => names.has(name))
  ))
}

function unknownValue(source: string, what: string): TypeError {
  return new TypeError(`${source} returned ${what}; return the record, an Error, or undefined`
    + ' if there is no such record')
}

function nameOf(value: unknown): string {
  return typeof value === 'string' ? 'a string' : `the ${typeof value} ${String(value)}`
}
