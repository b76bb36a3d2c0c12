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

/** A row of `longhaul_tasks`. */
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

/** A row that is not in the table yet. */
export type NewRow = Omit<TaskRow, 'rowid'>

/** Columns that a change may set. */
const CHANGED = [
  'pool', 'status', 'listed', 'version', 'run', 'attempt', 'crashes', 'startAt', 'startedAt',
  'runStartedAt', 'finishedAt', 'expiresAt', 'callbackRun', 'callbackAt', 'limitGroup', 'uniqueKey', 'hasFiles',
  'dueAt', 'turn', 'held', 'lease', 'leaseUntil', 'bytes', 'fileBytes', 'details', 'result', 'input',
] as const satisfies readonly (keyof TaskRow)[]
const INSERTED = [
  'id', 'birth', 'key', 'owner', 'caller', 'name', 'priority', 'createdAt', ...CHANGED,
] as const satisfies readonly (keyof TaskRow)[]

export const INSERT = `INSERT INTO longhaul_tasks (${INSERTED.join(', ')})
VALUES (${INSERTED.map(() => '?').join(', ')}) RETURNING rowid`

/** Writes some columns of a row. SQLite writes each index that has one of them, even if no value changes. */
export class Update {
  readonly sql: string

  constructor(private readonly columns: readonly (keyof TaskRow)[]) {
    this.sql = `UPDATE longhaul_tasks SET ${columns.map((name) => `${name} = ?`).join(', ')}
WHERE rowid = ?`
  }

  values(row: TaskRow): SqliteValue[] {
    return [...this.columns.map((name) => row[name]), row.rowid]
  }
}

export const REPLACE = new Update([...CHANGED, 'priority'])
/** A task gets its place among those that wait, or its lease is renewed. */
export const PLACE = new Update(['turn', 'held', 'leaseUntil'])
export const BEGIN = new Update([
  'status', 'turn', 'version', 'run', 'attempt', 'crashes', 'startedAt', 'runStartedAt', 'lease', 'leaseUntil',
])
/** The same for a task that has waited for an answer. */
export const BEGIN_ASKED = new Update([
  'status', 'turn', 'version', 'run', 'attempt', 'crashes', 'startedAt', 'runStartedAt', 'lease', 'leaseUntil',
  'listed', 'callbackAt',
])
export const CALLBACK = new Update(['callbackRun', 'callbackAt'])
const updates = new Map<number, Update>()

/** Returns the update that writes what a change has changed; `undefined`: nothing. */
export function updateOf(before: TaskRow, row: TaskRow): Update | undefined {
  let set = 0
  for (const [n, name] of CHANGED.entries()) if (row[name] !== before[name]) set |= 1 << n
  if (set === 0) return undefined
  let update = updates.get(set)
  if (update === undefined) {
    update = new Update(CHANGED.filter((_, n) => (set & 1 << n) !== 0))
    updates.set(set, update)
  }
  return update
}

export function insertedValues(row: NewRow): SqliteValue[] {
  return INSERTED.map((name) => row[name])
}

export function toTask(row: NewRow): StoredTask {
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
export function newRow(task: NewTask, now: number, startAt: number | undefined): NewRow {
  const { id, birth, key, owner, caller, name, pool, priority, limit, keepMs, hasFiles, unique } = task
  const dueAt = startAt ?? now
  return {
    id, birth, key: key ?? null, owner: owner ?? '', caller: caller ?? '', name, pool, priority,
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

export function isQueued(row: NewRow): boolean {
  return Number(row.status) === 0
}

export function isRunning(row: NewRow): boolean {
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
export function asks(row: NewRow): boolean {
  return Number(row.listed) === ASKS
}

/** Begins a run in a row, with a new lease. */
export function beginRun(row: NewRow, now: number, leaseMs: number): string {
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
    row.dueAt = isFinalStatus(status) ? null : now + (change.delayMs ?? 0)
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
