import type { TaskStatus } from '../../engine/task.js'
import type { ErrorDetail } from '../../http/errors.js'
import { callbackText, type CallbackState } from './callback-state.js'
import type { RecordFiles } from './files.js'
import type { AttemptView } from './run-history.js'

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

/** One task as its views are made of it. Times are milliseconds since 1970. */
export interface TaskRecord extends RecordFiles {
  readonly id: string
  readonly name: string
  readonly owner: string | undefined
  readonly state: TaskStatus
  /** Number of runs that have begun. */
  readonly attempt: number
  /** Counts changes that a client can see; ETag and event ids are made of it. */
  readonly version: number
  readonly createdAt: number
  /** Earliest start of the first run, for a task that was submitted for later. */
  readonly startAt: number | undefined
  readonly pool: string
  /** Order among waiting tasks. */
  readonly priority: number
  /** Start of the first run. */
  readonly startedAt: number | undefined
  /** Start of the latest run, if it was not the first. */
  readonly runStartedAt: number | undefined
  readonly finishedAt: number | undefined
  readonly expiresAt: number
  readonly progress: TaskProgress | undefined
  /** The result as JSON text: always an object with a `message`. */
  readonly result: string | undefined
  readonly error: TaskFailure | undefined
  /** The HTTP status of `error`, for answers that wait for the work. */
  readonly errorStatus: number | undefined
  /** Header fields of `error`, such as Retry-After, for answers that wait for the work. */
  readonly errorFields: ErrorFields | undefined
  /** The name of the external resource that the task owns; see `Kept`. */
  readonly keeps: string | undefined
  /** The ended runs, if there was more than one. */
  readonly attempts: readonly AttemptView[] | undefined
  /** The callback to send when the task is final, and its state. */
  readonly callback: CallbackState | undefined
}

const ACCEPTED = '"processing","message":"The task was accepted and is being processed."'

/** The status and message of each state, as clients see them. */
const STATUS: Readonly<Record<TaskStatus, string>> = {
  queued: ACCEPTED,
  processing: ACCEPTED,
  completed: '"completed","message":"The task is completed."',
  failed: '"failed","message":"The task failed."',
  cancelled: '"cancelled","message":"The task was cancelled."',
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
