import {
  isFinalStatus, isVisibleChange, type Expected, type NewTask, type StoredTask, type TaskChange,
  type TaskDetails, type TaskStatus,
} from '../../src/engine/task.js'
import { newId } from '../../src/runtime/random-id.js'
import type { SqliteValue } from './client.js'

/**
 * Statuses in the order of their numbers. From 2 they are final. The last one is a number of `listed`
 * only: a task that waits for an answer is queued in every other respect.
 */
export const STATUSES: readonly TaskStatus[] = [
  'queued', 'processing', 'completed', 'failed', 'cancelled', 'input_required',
]
const ASKS = STATUSES.indexOf('input_required')

/** A row of `longhaul_tasks`. `rowid` is 0 until it is inserted. */
export interface TaskRow {
  rowid: number
  id: string
  birth: string
  key: string | null
  owner: string
  caller: string
  name: string
  pool: string
  priority: number
  status: number
  listed: number
  version: number
  run: number
  attempt: number
  crashes: number
  createdAt: number
  startAt: number | null
  startedAt: number | null
  runStartedAt: number | null
  finishedAt: number | null
  expiresAt: number
  callbackRun: number
  callbackAt: number | null
  limitGroup: string | null
  uniqueKey: string | null
  hasFiles: number
  dueAt: number | null
  turn: number | null
  held: string | null
  lease: string | null
  leaseUntil: number | null
  bytes: number
  fileBytes: number
  details: string
  result: string | null
  input: string | null
}

/** Columns of a new row. The others have their default. */
const INSERTED = [
  'id', 'birth', 'key', 'owner', 'caller', 'name', 'pool', 'priority', 'status', 'version', 'run', 'attempt',
  'createdAt', 'startAt', 'startedAt', 'runStartedAt', 'expiresAt', 'limitGroup', 'uniqueKey', 'hasFiles',
  'dueAt', 'turn', 'lease', 'leaseUntil', 'details', 'input',
] as const satisfies readonly (keyof TaskRow)[]

/** Changes nothing if a task has the id, the key or the business key. */
export const INSERT = `INSERT INTO longhaul_tasks (${INSERTED.join(', ')})
VALUES (${INSERTED.map(() => '?').join(', ')}) ON CONFLICT DO NOTHING`

/** Returns the values of `INSERTED`. A loop over the names of columns is slow. */
export function insertedValues(row: TaskRow): SqliteValue[] {
  return [
    row.id, row.birth, row.key, row.owner, row.caller, row.name, row.pool, row.priority, row.status,
    row.version, row.run, row.attempt, row.createdAt, row.startAt, row.startedAt, row.runStartedAt,
    row.expiresAt, row.limitGroup, row.uniqueKey, row.hasFiles, row.dueAt, row.turn, row.lease,
    row.leaseUntil, row.details, row.input,
  ]
}

/** Columns that a change may set. */
const CHANGED = [
  'pool', 'priority', 'status', 'listed', 'version', 'run', 'attempt', 'crashes', 'startAt', 'startedAt', 'runStartedAt',
  'finishedAt', 'expiresAt', 'callbackRun', 'callbackAt', 'limitGroup', 'uniqueKey', 'hasFiles', 'dueAt',
  'turn', 'held', 'lease', 'leaseUntil', 'bytes', 'fileBytes', 'details', 'result', 'input',
] as const satisfies readonly (keyof TaskRow)[]

/** Statements that set some of the columns. The key has a bit for each column. */
const updates = new Map<number, string>()

/** A statement, and its values. */
export interface Update {
  readonly sql: string
  readonly values: SqliteValue[]
}

/**
 * Returns the update that writes what has changed; `undefined`: nothing. SQLite writes each index that
 * has a column of the statement, even if its value stays.
 */
export function updateOf(before: TaskRow, row: TaskRow): Update | undefined {
  let [bit, bits] = [1, 0]
  const values: SqliteValue[] = []
  const compare = (old: SqliteValue, value: SqliteValue): void => {
    if (value !== old) {
      bits |= bit
      values.push(value)
    }
    bit <<= 1
  }
  // In the order of `CHANGED`. A loop over the names of columns is slow.
  compare(before.pool, row.pool)
  compare(before.priority, row.priority)
  compare(before.status, row.status)
  compare(before.listed, row.listed)
  compare(before.version, row.version)
  compare(before.run, row.run)
  compare(before.attempt, row.attempt)
  compare(before.crashes, row.crashes)
  compare(before.startAt, row.startAt)
  compare(before.startedAt, row.startedAt)
  compare(before.runStartedAt, row.runStartedAt)
  compare(before.finishedAt, row.finishedAt)
  compare(before.expiresAt, row.expiresAt)
  compare(before.callbackRun, row.callbackRun)
  compare(before.callbackAt, row.callbackAt)
  compare(before.limitGroup, row.limitGroup)
  compare(before.uniqueKey, row.uniqueKey)
  compare(before.hasFiles, row.hasFiles)
  compare(before.dueAt, row.dueAt)
  compare(before.turn, row.turn)
  compare(before.held, row.held)
  compare(before.lease, row.lease)
  compare(before.leaseUntil, row.leaseUntil)
  compare(before.bytes, row.bytes)
  compare(before.fileBytes, row.fileBytes)
  compare(before.details, row.details)
  compare(before.result, row.result)
  compare(before.input, row.input)
  if (bits === 0) return undefined
  values.push(row.rowid)
  return { sql: sqlOf(bits), values }
}

function sqlOf(bits: number): string {
  let sql = updates.get(bits)
  if (sql === undefined) {
    const set = CHANGED.filter((_, n) => (bits & 1 << n) !== 0).map((name) => `${name} = ?`)
    sql = `UPDATE longhaul_tasks SET ${set.join(', ')} WHERE rowid = ?`
    updates.set(bits, sql)
  }
  return sql
}

export function toTask(row: TaskRow): StoredTask {
  return {
    id: row.id, birth: row.birth, key: row.key ?? undefined, owner: row.owner || undefined,
    caller: row.caller || undefined, name: row.name, pool: row.pool, priority: Number(row.priority),
    status: STATUSES[Number(row.listed) || Number(row.status)] as TaskStatus, version: Number(row.version),
    run: Number(row.run), attempt: Number(row.attempt), crashes: Number(row.crashes),
    createdAt: row.createdAt, startAt: row.startAt ?? undefined,
    startedAt: row.startedAt ?? undefined, runStartedAt: row.runStartedAt ?? undefined,
    finishedAt: row.finishedAt ?? undefined, expiresAt: row.expiresAt,
    callbackRun: Number(row.callbackRun), callbackAt: row.callbackAt ?? undefined,
    details: JSON.parse(row.details) as TaskDetails, result: row.result ?? undefined,
  }
}

/** @param startAt - start of the first run, if it is later */
export function newRow(task: NewTask, now: number, startAt: number | undefined): TaskRow {
  const { id, birth, key, owner, caller, name, pool, priority, limit, keepMs, hasFiles, unique } = task
  const dueAt = startAt ?? now
  return {
    rowid: 0, id, birth, key: key ?? null, owner: owner ?? '', caller: caller ?? '', name, pool, priority,
    status: 0, listed: 0, version: 1, run: 0, attempt: 0, crashes: 0, createdAt: now,
    startAt: startAt ?? null, startedAt: null, runStartedAt: null, finishedAt: null,
    expiresAt: dueAt + keepMs, callbackRun: 0, callbackAt: null,
    limitGroup: caller === undefined ? null : limit?.group ?? null, uniqueKey: unique?.key ?? null,
    hasFiles: hasFiles ? 1 : 0, dueAt, turn: null, held: null, lease: null, leaseUntil: null, bytes: 0, fileBytes: 0,
    details: JSON.stringify(task.details), result: null, input: null,
  }
}

export function isFinal(row: Pick<TaskRow, 'status'>): boolean {
  return isFinalStatus(STATUSES[Number(row.status)] as TaskStatus)
}

export function isQueued(row: TaskRow): boolean {
  return Number(row.status) === 0
}

export function isRunning(row: TaskRow): boolean {
  return Number(row.status) === 1
}

/** Returns whether a task runs with a lease that was not found over. */
export function isActive(row: TaskRow): boolean {
  return isRunning(row) && !isWaiting(row)
}

/** Returns whether a task waits for a run, ready or held. */
export function isWaiting({ turn, held }: TaskRow): boolean {
  return turn !== null || held !== null
}

/** Returns whether the expectation of a change holds, and whether the change is possible. */
export function holds(row: TaskRow, expected: Expected, { status }: TaskChange): boolean {
  if (status === 'queued' && STATUSES[Number(row.status)] === 'completed') return false
  if ('lease' in expected) return row.lease === expected.lease
  if ('version' in expected) return Number(row.version) === expected.version
  return Number(row.callbackRun) === expected.callbackRun && isFinal(row)
}

/** Returns whether a task waits for an answer. */
export function asks(row: TaskRow): boolean {
  return Number(row.listed) === ASKS
}

/** Begins a run in a row, with a new lease. */
export function beginRun(row: TaskRow, now: number, leaseMs: number): string {
  const lease = newId()
  row.crashes = Number(row.crashes) + (isRunning(row) ? 1 : 0)
  if (asks(row)) [row.listed, row.callbackAt] = [0, null]
  row.status = 1
  row.turn = null
  row.version = Number(row.version) + 1
  row.run = Number(row.run) + 1
  row.attempt = Number(row.attempt) + 1
  row.startedAt ??= now
  row.runStartedAt = now
  row.lease = lease
  row.leaseUntil = now + leaseMs
  return lease
}

/** Makes a change in a row. The caller gives a queued row its turn, and measures it. */
export function applyChange(row: TaskRow, expected: Expected, change: TaskChange, now: number): void {
  const { status, keepMs, checkpoint } = change
  const wasFinal = isFinal(row)
  const isRetry = wasFinal && status === 'queued'
  const isAsked = status === 'input_required'
  if (isVisibleChange(change)) row.version = Number(row.version) + 1
  if (change.isGivenBack === true || isAsked) row.attempt = Number(row.attempt) - 1
  if (isAsked || status === 'queued' && change.isGivenBack !== true) row.crashes = 0
  if (typeof checkpoint === 'string') row.crashes = 0
  if (isRetry) {
    row.startAt = null
    row.finishedAt = null
    row.result = null
    row.limitGroup = row.caller === '' ? null : change.limit?.group ?? null
  } else {
    row.result = change.result ?? row.result
  }
  row.pool = change.pool ?? row.pool
  if (change.details !== undefined) row.details = JSON.stringify(change.details)
  if (change.hasFiles !== undefined) row.hasFiles = change.hasFiles ? 1 : 0
  row.fileBytes = change.files?.bytes ?? row.fileBytes
  if (keepMs !== undefined) row.expiresAt = now + keepMs
  if (status !== undefined) {
    row.listed = STATUSES.indexOf(status)
    row.status = isAsked ? 0 : row.listed
    row.lease = null
    row.leaseUntil = null
    row.turn = null
    row.held = null
    if (isFinalStatus(status)) row.uniqueKey = null
    if (isFinalStatus(status) && !wasFinal) row.finishedAt = now
    if (!isFinalStatus(status)) row.dueAt = now + (change.delayMs ?? 0)
  }
  changeCallback(row, expected, change.callbackMs, now)
}

function changeCallback(
  row: TaskRow, expected: Expected, callbackMs: number | null | undefined, now: number,
): void {
  if (callbackMs === undefined) return
  if (!('callbackRun' in expected)) row.callbackRun = Number(row.callbackRun) + 1
  row.callbackAt = callbackMs === null ? null : now + callbackMs
}
