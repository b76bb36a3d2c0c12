import { LeasedRun } from '../../../src/engine/runs.js'
import type { StoredTask, TaskDetails, TaskStatus } from '../../../src/engine/task.js'

/**
 * Statuses in the order of their numbers. From 2 they are final. The number of the last one stands in no
 * row: a row that asks has the status 0, see `ASKS`.
 */
export const STATUSES = [
  'queued', 'processing', 'completed', 'failed', 'cancelled', 'input_required',
] as const
/** SQL of the condition of a task that waits for an answer. Each begin of a run makes it false. */
export const ASKS = 'coalesce(status = 0 AND asked_by = run, false)'
const ASKS_NUMBER = STATUSES.indexOf('input_required')

/** SQL of the time of the server, in milliseconds since 1970. */
export const NOW = 'floor(extract(epoch FROM clock_timestamp()) * 1000)::float8'
/** Common table expression of the time of a statement, which `SAME_NOW` reads, even for an index. */
export const CLOCK = `clock AS MATERIALIZED (SELECT ${NOW} AS now)`
export const SAME_NOW = '(SELECT now FROM clock)'

/**
 * SQL of the condition of a held task: the running tasks of its caller take the whole share of the
 * caller. It is due at no time, so it gets no turn before a run of the caller ends.
 */
export const HELD = 'status < 2 AND due_at = \'Infinity\''

/** A task as statements return it: `null` for `undefined`, and the number of the status. */
export type TaskRow = {
  readonly [P in keyof StoredTask]: P extends 'status' ? number
    : P extends 'owner' | 'caller' | 'details' ? string
      : undefined extends StoredTask[P] ? Exclude<StoredTask[P], undefined> | null : StoredTask[P]
}

export interface RunRow extends TaskRow {
  readonly lease: string
  readonly input: string
  readonly checkpoint: string | null
  readonly has_crashed: boolean
  readonly lost_run_started_at: number | null
}

const COLUMNS = [
  'id', 'birth', 'key', 'owner', 'caller', 'name', 'pool', 'priority', 'status', 'version', 'run',
  'attempt', 'crashes', 'createdAt', 'startAt', 'startedAt', 'runStartedAt', 'finishedAt', 'expiresAt',
  'callbackRun', 'callbackAt', 'details', 'result',
]

/** @param from - alias of the table */
export function taskColumns(from: string, replaced: Readonly<Record<string, string>> = {}): string {
  const { status = `CASE WHEN ${from}.status = 0 AND ${from}.asked_by = ${from}.run
    THEN ${String(ASKS_NUMBER)} ELSE ${from}.status END` } = replaced
  return COLUMNS.map((name) => {
    const column = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
    return `${name === 'status' ? status : replaced[name] ?? `${from}.${column}`} AS "${name}"`
  }).join(', ')
}

/** Returns the columns of a run that a statement begins: those of `task`, and of `taken` before it. */
export function runColumns(): string {
  return `${taskColumns('task')}, task.taken_by AS lease, task.input,
  task.checkpoint, taken.status = 1 AS has_crashed,
  taken.run_started_at AS lost_run_started_at`
}

/** Returns the start of the SQL that begins the runs of `taken`, with a lease (`$4`) of `$3` milliseconds. */
export function beginSql(rows: string): string {
  return `UPDATE ${rows} AS task SET status = 1, turn = NULL, callback_at = NULL, version = task.version + 1,
  run = task.run + 1, attempt = task.attempt + 1,
  crashes = task.crashes + (task.status = 1)::integer, taken_by = $4,
  lease_until = ${SAME_NOW} + $3::float8, run_started_at = ${SAME_NOW},
  started_at = coalesce(task.started_at, ${SAME_NOW})`
}

/** Applications may set parsers of `pg` that return strings, big integers or objects as numbers. */
export function toTask(
  row: TaskRow, details = JSON.parse(row.details) as TaskDetails,
  result = row.result ?? undefined,
): StoredTask {
  return {
    id: row.id, birth: row.birth, key: row.key ?? undefined,
    owner: row.owner || undefined, caller: row.caller || undefined,
    name: row.name, pool: row.pool, priority: Number(row.priority),
    status: STATUSES[row.status] as TaskStatus, version: Number(row.version), run: Number(row.run),
    attempt: Number(row.attempt), crashes: Number(row.crashes), createdAt: Number(row.createdAt),
    startAt: optional(row.startAt), startedAt: optional(row.startedAt),
    runStartedAt: optional(row.runStartedAt), finishedAt: optional(row.finishedAt),
    expiresAt: Number(row.expiresAt), callbackRun: Number(row.callbackRun),
    callbackAt: optional(row.callbackAt), details, result,
  }
}

/** Reads a number that may be absent. */
export function optional(value: number | null): number | undefined {
  return value === null ? undefined : Number(value)
}

/** @param leaseEnd - by the monotonic clock */
export function toRun(row: RunRow, leaseEnd: number): LeasedRun {
  const task = toTask(row)
  const crashed = row.has_crashed ? {
    ...task, version: task.version - 1, run: task.run - 1, attempt: task.attempt - 1,
    crashes: task.crashes - 1, runStartedAt: optional(row.lost_run_started_at),
  } : undefined
  const { lease, input, checkpoint } = row
  return new LeasedRun({
    task, lease, input, checkpoint: checkpoint ?? undefined, crashed, leaseEnd,
  })
}

/** Returns a common table expression `new` of the rows that a statement gets as JSON (`$1`), in order `n`. */
export function newRows(columns: string): string {
  const names = columns.split(', ').map((column) => column.split(' ')[0]).join(', ')
  return `new AS MATERIALIZED (
  SELECT * FROM ROWS FROM (json_to_recordset($1::json) AS (${columns}))
    WITH ORDINALITY AS new (${names}, n)
)`
}

/**
 * Returns the SQL of the turn of a row that begins to wait. If its caller has nothing waiting in the
 * pool, the row gets the turn of the task that comes next; each further task of the caller one turn
 * later. So callers take turns.
 *
 * @param row - alias of the row, with its `place` among those of its caller that begin to wait with it
 */
export function turnSql(rows: string, row: string): string {
  const sameQueue = `pool = ${row}.pool AND priority = ${row}.priority AND turn IS NOT NULL`
  return `${row}.place + greatest(
  coalesce((SELECT turn FROM ${rows} WHERE ${sameQueue} ORDER BY turn LIMIT 1), 0),
  coalesce((SELECT turn + 1 FROM ${rows} WHERE ${sameQueue} AND status < 2
    AND caller = ${row}.caller ORDER BY turn DESC LIMIT 1), 0)
)`
}

export function keptBytes(task: string): string {
  const texts = ['details', 'input', 'checkpoint', 'result']
  const sizes = texts.map((name) => `coalesce(octet_length(${task}.${name}), 0)`)
  return `(${sizes.join(' + ')})::float8`
}
