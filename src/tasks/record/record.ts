import type { ErrorDetail } from '../../http/errors.js'
import { callbackText, type CallbackState } from './callback-state.js'
import type { RecordFiles } from './files.js'
import { historyAfter, historyOfFinal, type AttemptView } from './run-history.js'
import { canMove, isFinal, type TaskState } from './state.js'

/** Progress of the work, in units of the task's own. */
export interface TaskProgress {
  readonly done: number
  readonly total?: number
  readonly message?: string
}

/** Failure of a task, as clients see it. */
export interface TaskFailure {
  readonly code: string
  readonly message: string
  /** Each problem of the input by its JSON pointer, if `run` has listed them. */
  readonly details?: readonly ErrorDetail[]
}

/** Header fields of a stored error by their lower-case names. */
export type ErrorFields = Readonly<Record<string, string>>

/** One task as it is stored. Times are milliseconds since 1970. */
export interface TaskRecord extends RecordFiles {
  readonly id: string
  readonly name: string
  readonly owner: string | undefined
  /** Party that a task without an owner counts for, such as a network address. */
  readonly party?: string | undefined
  readonly state: TaskState
  /**
   * Names the one job that may run this task, within the task's id. A new one for each incarnation
   * of an id and each time that the task is enqueued anew, so that a job which comes late finds
   * that it is a leftover.
   */
  readonly job: string
  /** Runs that have begun: the fence that keeps a late worker out. */
  readonly attempt: number
  /** Counts changes that a client can see; ETag and event ids are made of it. */
  readonly version: number
  readonly createdAt: number
  /** Earliest start of the first run, for a task that was submitted for later. */
  readonly startAt?: number | undefined
  /** Pool of the queue that has its jobs. Absent for the default pool. */
  readonly pool?: string | undefined
  /** Order among waiting jobs. Absent for 0. */
  readonly priority?: number | undefined
  /** Start of the first run. */
  readonly startedAt: number | undefined
  /** Start of the latest run, if it was not the first. */
  readonly runStartedAt?: number | undefined
  readonly finishedAt: number | undefined
  readonly expiresAt: number
  readonly progress: TaskProgress | undefined
  /** The result as JSON text: always an object with a `message`. */
  readonly result: string | undefined
  readonly error: TaskFailure | undefined
  /** The HTTP status of `error`, for answers that wait for the work. */
  readonly errorStatus: number | undefined
  /** Header fields of `error`, such as Retry-After, for answers that wait for the work. */
  readonly errorFields?: ErrorFields | undefined
  /**
   * Keys of other entries that live and die with this one: an idempotency claim, a slot of
   * `maxPerOwner`.
   */
  readonly claim: string | undefined
  readonly slot: string | undefined
  /** The process that the work dies with, where the store outlives it. */
  readonly holder?: string | undefined
  /** The name of the external resource that the task owns; see `Kept`. */
  readonly keeps?: string | undefined
  /** The ended runs, if there was more than one. */
  readonly attempts?: readonly AttemptView[] | undefined
  /** The content of its job, as JSON text, until the task is completed; see `Work`. */
  readonly work?: string | undefined
  /** The store key of the content of its job, if that is too long for the record. */
  readonly largeWork?: string | undefined
  /**
   * `true` until the first run begins, if the task was accepted in a transaction of the
   * application. Its job is enqueued after the commit, so it may not be in the queue yet.
   */
  readonly enqueuedLater?: true | undefined
  /** The callback to send when the task is final, and its state. */
  readonly callback: CallbackState | undefined
}

type Fixed =
  | 'id' | 'name' | 'owner' | 'version' | 'createdAt' | 'startAt' | 'pool' | 'priority' | 'runStartedAt' | 'keeps'
  | 'attempts' | 'work' | 'largeWork' | 'enqueuedLater'

/** Changes of one move. `undefined` leaves a member unchanged; no member can be removed. */
export type TaskChange = {
  readonly [K in Exclude<keyof TaskRecord, Fixed>]?: TaskRecord[K] | undefined
} & {
  /** The reason why a run has ended that another one follows. */
  readonly runError?: TaskFailure | undefined
}

const ACCEPTED = '"processing","message":"The task was accepted and is being processed."'

/** The status and message of each state, as clients see them. */
const STATUS: Readonly<Record<TaskState, string>> = {
  queued: ACCEPTED,
  processing: ACCEPTED,
  completed: '"completed","message":"The task is completed."',
  failed: '"failed","message":"The task failed."',
  cancelled: '"cancelled","message":"The task was cancelled."',
}

/**
 * The record after a change, or `undefined` when the state machine forbids it. The version counts
 * changes that a client can see, so a hidden one leaves ETag and events alone.
 */
export function change(record: TaskRecord, to: TaskChange): TaskRecord | undefined {
  if (to.state !== undefined ? !canMove(record.state, to.state) : isFinal(record.state)) {
    return toldOf(record, to)
  }
  // Written out: spreading records whose members differ is a slow path of V8, and every task passes
  // here twice.
  const { id, name, owner, version, createdAt } = record
  const {
    state = record.state, job = record.job, attempt = record.attempt, expiresAt = record.expiresAt,
  } = to
  const { startedAt = record.startedAt, finishedAt = record.finishedAt } = to
  const {
    progress = record.progress,
    result = record.result,
    error = record.error,
    errorStatus = record.errorStatus,
  } = to
  const { errorFields = record.errorFields } = to
  const { claim = record.claim, slot = record.slot, callback = begun(record.callback, state) } = to
  const { holder = record.holder } = to
  const { files = record.files, blobs = record.blobs, fileRuns = record.fileRuns } = to
  const { startAt, pool, priority, keeps, largeWork } = record
  const isBegun = attempt > record.attempt
  const attempts = historyAfter(record, { state, attempt, finishedAt }, to.runError ?? error)
  const seen = state !== record.state || attempt !== record.attempt || startedAt !== record.startedAt || finishedAt !== record.finishedAt
    || progress !== record.progress || result !== record.result || error !== record.error
    || callback !== record.callback
  return {
    id, name, owner, state, job, attempt, version: seen ? version + 1 : version, createdAt,
    startAt, pool, priority, startedAt, finishedAt, expiresAt,
    runStartedAt: isBegun && attempt > 1 ? Date.now() : record.runStartedAt,
    progress, result, error, errorStatus, errorFields, claim, slot, callback, holder, keeps,
    files, blobs, fileRuns,
    attempts, largeWork,
    work: state === 'completed' ? undefined : record.work,
    enqueuedLater: state === 'queued' ? record.enqueuedLater : undefined,
  }
}

/** Members of a record that a retry sets. */
export type RetryChange = Pick<TaskRecord, 'job' | 'holder' | 'slot' | 'pool' | 'expiresAt'>

/**
 * Returns a failed or cancelled record as it is after a retry: it waits for a run of a new job. The
 * attempts count on. The callback waits for the new end, and the run does not wait for `startAt`.
 */
export function retried(record: TaskRecord, to: RetryChange): TaskRecord {
  const { version, callback } = record
  return {
    ...record, ...to,
    state: 'queued', version: version + 1, attempts: historyOfFinal(record),
    startAt: undefined, runStartedAt: undefined, finishedAt: undefined, enqueuedLater: undefined,
    progress: undefined, result: undefined,
    error: undefined, errorStatus: undefined, errorFields: undefined,
    callback: callback && { url: callback.url, state: 'waiting', attempts: 0 },
  }
}

/** Of a record that is final nothing changes but what became of its callback. */
function toldOf(record: TaskRecord, { state, callback }: TaskChange): TaskRecord | undefined {
  if (state !== undefined || callback === undefined || record.callback === undefined) {
    return undefined
  }
  return { ...record, callback, version: record.version + 1 }
}

/** The write that ends a task makes its callback due: no crash comes in between. */
function begun(callback: CallbackState | undefined, state: TaskState): CallbackState | undefined {
  return callback?.state === 'waiting' && isFinal(state)
    ? { ...callback, state: 'pending' }
    : callback
}

/**
 * Returns the task as clients see it (SPEC 2.4, 2.5), as JSON text: the body of the 202 and of the
 * status resource. A queued task reads `processing`; only the job format shows `queued`.
 */
export function toTaskText(record: TaskRecord): string {
  let text = `{"taskId":"${record.id}","status":${statusOf(record)},"task":"${record.name}"`
  if (record.attempt > 0) text += `,"attempt":${record.attempt}`
  if (record.progress !== undefined) text += `,"progress":${JSON.stringify(record.progress)}`
  if (record.result !== undefined) text += `,"result":${record.result}`
  if (record.files !== undefined) text += `,"files":${JSON.stringify(record.files)}`
  if (record.error !== undefined) text += `,"error":${JSON.stringify(record.error)}`
  if (record.attempts !== undefined) text += `,"attempts":${JSON.stringify(record.attempts)}`
  if (record.callback !== undefined) text += `,"callback":${callbackText(record.callback)}`
  text += `,"createdAt":"${toIso(record.createdAt)}"`
  if (record.startAt !== undefined) text += `,"startAt":"${toIso(record.startAt)}"`
  if (record.startedAt !== undefined) text += `,"startedAt":"${toIso(record.startedAt)}"`
  if (record.finishedAt !== undefined) text += `,"finishedAt":"${toIso(record.finishedAt)}"`
  return text + '}'
}

/** A task for later says when it starts, until it does. */
function statusOf({ state, startAt, attempt }: TaskRecord): string {
  if (startAt === undefined || state !== 'queued' || attempt > 0) return STATUS[state]
  return `"processing","message":"The task was accepted and starts at ${toIso(startAt)}."`
}

/** The end of a time, by its milliseconds. */
const ENDS = Array.from({ length: 1000 }, (_, ms) => `${String(ms).padStart(3, '0')}Z`)
let lastSecond = Number.NaN
let lastStart = ''

/** ISO 8601. The last second is remembered: a task has up to three times, mostly of one second. */
function toIso(ms: number): string {
  const second = Math.floor(ms / 1000)
  if (second !== lastSecond) {
    lastStart = new Date(second * 1000).toISOString().slice(0, -4)
    lastSecond = second
  }
  return lastStart + (ENDS[ms - second * 1000] as string)
}
