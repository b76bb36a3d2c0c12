import { HttpError, httpError } from '../../http/errors.js'
import type { AnyTaskDefinition, NameOf, ResultOf } from '../definition/define.js'
import type { TaskFile } from '../definition/run-context.js'
import {
  callbackText, type AttemptView, type CallbackView, type TaskFailure, type TaskProgress,
  type Details, type ErrorFields,
} from './details.js'
import type { ListedStatus } from '../../engine/engine.js'
import type { StoredTask, TaskStatus } from '../../engine/task.js'
import { SecondTexts } from '../../runtime/text.js'

/** A task as formats get it. `listedAs`, `external` and `text` are getters: a spread lacks them. */
export interface TaskSnapshot {
  readonly id: string
  readonly state: TaskStatus
  /** Status in lists: `scheduled` until the start of a task for later, else `state`. Computed once. */
  readonly listedAs: ListedStatus
  readonly version: number
  /** Number of the latest run; 0 before the first one. */
  readonly attempt: number
  readonly createdAt: number
  /** Earliest start of the first run, if the task was submitted for later. */
  readonly startAt: number | undefined
  readonly expiresAt: number
  readonly owner: string | undefined
  /** Name of its external resource, as `external.of` of its definition returned it. */
  readonly external: string | undefined
  readonly errorStatus: number | undefined
  readonly errorFields: ErrorFields | undefined
  /** Names of the blobs of its files. */
  readonly blobs?: readonly string[] | undefined
  /** JSON of the task as clients see it, without the URLs of its files. */
  readonly text: string
}

export class Snapshot implements TaskSnapshot {
  readonly id: string
  readonly state: TaskStatus
  readonly version: number
  readonly attempt: number
  readonly createdAt: number
  readonly startAt: number | undefined
  readonly expiresAt: number
  readonly owner: string | undefined
  readonly errorStatus: number | undefined
  readonly errorFields: ErrorFields | undefined
  readonly blobs: readonly string[] | undefined
  readonly #task: StoredTask
  #text: string | undefined
  #listedAs: ListedStatus | undefined

  constructor(task: StoredTask) {
    const { errorStatus, errorFields, blobs }: Details = task.details
    this.id = task.id
    this.state = task.status
    this.version = task.version
    this.attempt = task.attempt
    this.createdAt = task.createdAt
    this.startAt = task.startAt
    this.expiresAt = task.expiresAt
    this.owner = task.owner
    this.errorStatus = errorStatus
    this.errorFields = errorFields
    this.blobs = blobs
    this.#task = task
  }

  get listedAs(): ListedStatus {
    const { state, attempt, startAt } = this
    const isLater = state === 'queued' && attempt === 0 && startAt !== undefined
    this.#listedAs ??= isLater && startAt > Date.now() ? 'scheduled' : state
    return this.#listedAs
  }

  get external(): string | undefined {
    const { external }: Details = this.#task.details
    return external
  }

  get text(): string {
    this.#text ??= toTaskText(this.#task)
    return this.#text
  }
}

const STATUS: Readonly<Record<TaskStatus, string>> = {
  queued: '"processing","message":"The task was accepted and waits to be processed."',
  processing: '"processing","message":"The task was accepted and is being processed."',
  completed: '"completed","message":"The task is completed."',
  failed: '"failed","message":"The task failed."',
  cancelled: '"cancelled","message":"The task was cancelled."',
}

/** A queued task has the status `processing`. Only the job format shows `queued`. */
export function toTaskText(task: StoredTask): string {
  const {
    id, status, name, attempt, result, createdAt, startAt, startedAt, finishedAt, callbackAt,
  } = task
  const { progress, files, error, attempts, callback }: Details = task.details
  const isLater = startAt !== undefined && status === 'queued' && attempt === 0
  const shown = isLater
    ? `"processing","message":"The task was accepted and starts at ${toIso(startAt)}."`
    : STATUS[status]
  let text = `{"taskId":"${id}","status":${shown},"task":"${name}"`
  if (attempt > 0) text += `,"attempt":${attempt}`
  if (progress !== undefined) text += `,"progress":${JSON.stringify(progress)}`
  if (result !== undefined) text += `,"result":${result}`
  if (files !== undefined) text += `,"files":${JSON.stringify(files)}`
  if (error !== undefined) text += `,"error":${JSON.stringify(error)}`
  if (attempts !== undefined) text += `,"attempts":${JSON.stringify(attempts)}`
  if (callback !== undefined) text += `,"callback":${callbackText(callback, callbackAt)}`
  text += `,"createdAt":"${toIso(createdAt)}"`
  if (startAt !== undefined) text += `,"startAt":"${toIso(startAt)}"`
  if (startedAt !== undefined) text += `,"startedAt":"${toIso(startedAt)}"`
  if (finishedAt !== undefined) text += `,"finishedAt":"${toIso(finishedAt)}"`
  return text + '}'
}

/** Ends of times, by their milliseconds. */
const ENDS = Array.from({ length: 1000 }, (_, ms) => `${String(ms).padStart(3, '0')}Z`)
const starts = new SecondTexts((ms) => new Date(ms).toISOString().slice(0, -4))

function toIso(ms: number): string {
  const second = Math.floor(ms / 1000)
  return starts.of(second) + (ENDS[ms - second * 1000] as string)
}

/** State of the callback of a task. */
export interface TaskCallback extends Omit<CallbackView, 'nextAttemptAt' | 'deliveredAt'> {
  readonly nextAttemptAt?: Date
  readonly deliveredAt?: Date
}

/** One run of a task that has ended. */
export interface PastAttempt extends Omit<AttemptView, 'startedAt' | 'endedAt'> {
  readonly startedAt: Date
  readonly endedAt: Date
}

interface AnyStatus<T extends AnyTaskDefinition> {
  readonly taskId: string
  readonly task: NameOf<T>
  readonly message: string
  /** Number of the latest run over all retries, from 1. Progress may fall back when it grows. */
  readonly attempt?: number
  /** The last ten ended runs, the oldest first, if there is more than one run. */
  readonly attempts?: readonly PastAttempt[]
  readonly progress?: TaskProgress
  readonly callback?: TaskCallback
  readonly createdAt: Date
  readonly startAt?: Date
  /** Start of the first run. */
  readonly startedAt?: Date
}

interface Unfinished {
  readonly result?: never
  readonly files?: never
  readonly error?: never
  readonly finishedAt?: never
}

/** A task that waits for its `startAt`. */
export interface ScheduledTask<T extends AnyTaskDefinition> extends AnyStatus<T>, Unfinished {
  readonly status: 'scheduled'
  readonly startAt: Date
}

/** A task that waits for a run: its first one, or the next attempt. */
export interface QueuedTask<T extends AnyTaskDefinition> extends AnyStatus<T>, Unfinished {
  readonly status: 'queued'
}

/** A task whose run is active. */
export interface ProcessingTask<T extends AnyTaskDefinition> extends AnyStatus<T>, Unfinished {
  readonly status: 'processing'
}

/** A task that has a result. */
export interface CompletedTask<T extends AnyTaskDefinition> extends AnyStatus<T> {
  readonly status: 'completed'
  readonly result: ResultOf<T>
  /** Files that the run has written, in the order of the calls. */
  readonly files?: readonly TaskFile[]
  readonly error?: never
  readonly finishedAt: Date
}

/** A task whose last attempt failed. */
export interface FailedTask<T extends AnyTaskDefinition> extends AnyStatus<T> {
  readonly status: 'failed'
  readonly error: TaskFailure
  readonly result?: never
  readonly files?: never
  readonly finishedAt: Date
}

/** A task that was cancelled before it was final. */
export interface CancelledTask<T extends AnyTaskDefinition> extends AnyStatus<T> {
  readonly status: 'cancelled'
  readonly error?: never
  readonly result?: never
  readonly files?: never
  readonly finishedAt: Date
}

type InEachStatus<T extends AnyTaskDefinition> =
  | ScheduledTask<T> | QueuedTask<T> | ProcessingTask<T>
  | CompletedTask<T> | FailedTask<T> | CancelledTask<T>

/**
 * A task: a union on `status`, with the property names of the status resource. `Task<typeof report>`
 * types the result. For several definitions it is also a union on `task`, their names. The status
 * resource shows `processing` for tasks that are `scheduled` or `queued`.
 */
export type Task<T extends AnyTaskDefinition = AnyTaskDefinition> =
  T extends AnyTaskDefinition ? InEachStatus<T> : never

export interface TaskBody {
  readonly taskId: string
  readonly status: 'processing' | 'completed' | 'failed' | 'cancelled'
  readonly message: string
  readonly task: string
  readonly attempt?: number
  readonly progress?: TaskProgress
  readonly result?: unknown
  readonly files?: readonly TaskFile[]
  readonly error?: TaskFailure
  readonly attempts?: readonly AttemptView[]
  readonly callback?: CallbackView
  readonly createdAt: string
  readonly startAt?: string
  readonly startedAt?: string
  readonly finishedAt?: string
}

export function bodyOf(task: TaskSnapshot): TaskBody {
  return JSON.parse(task.text) as TaskBody
}

export function toTask(snapshot: TaskSnapshot): Task {
  const body = bodyOf(snapshot)
  const { attempts, callback } = body
  return withDates({
    ...body,
    status: snapshot.listedAs,
    ...attempts && { attempts: attempts.map(withDates) },
    ...callback && { callback: withDates(callback) },
  }) as unknown as Task
}

const TIMES = [
  'createdAt', 'startAt', 'startedAt', 'finishedAt', 'endedAt', 'nextAttemptAt', 'deliveredAt',
]

function withDates(view: object): object {
  const copy: Record<string, unknown> = { ...view }
  for (const name of TIMES) if (name in copy) copy[name] = new Date(copy[name] as string)
  return copy
}

export function resultText(task: TaskSnapshot): string {
  return JSON.stringify(bodyOf(task).result)
}

export function toTaskError(task: TaskSnapshot): HttpError {
  if (task.state === 'cancelled') return httpError('task_cancelled')
  const { error } = bodyOf(task)
  return new HttpError(task.errorStatus ?? 500, error?.code ?? 'task_failed', {
    message: error?.message ?? 'The task failed.', ...error?.details && { details: error.details },
    ...task.errorFields && { headers: task.errorFields },
  })
}
