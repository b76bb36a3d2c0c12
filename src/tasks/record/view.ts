import { HttpError, httpError } from '../../http/errors.js'
import type { AnyTaskDefinition, NameOf, ResultOf } from '../definition/define.js'
import { callbackText, type Details } from './details.js'
import { openInputsText } from './inputs.js'
import { fileLinks } from './outside.js'
import type { LogLine } from './run-log.js'
import { toFailureDetails, type FailureDetails } from './stored-failure.js'
import type { ListedStatus } from '../../engine/engine.js'
import { isFinalStatus, type StoredTask, type TaskStatus } from '../../engine/task.js'
import { SecondTexts } from '../../runtime/text.js'
import type * as wire from '../../wire/task.js'

/** Statuses of tasks for later as they were first shown, so that entity tag and body agree. */
const shownLater = new WeakMap<StoredTask, ListedStatus>()

/**
 * Returns the status in lists: `scheduled` until the start of a task for later. It is always the same for
 * one object.
 */
export function listedStatus(task: StoredTask): ListedStatus {
  const { status, attempt, startAt } = task
  if (status !== 'queued' || attempt > 0 || startAt === undefined) return status
  const shown = shownLater.get(task) ?? (startAt > Date.now() ? 'scheduled' : status)
  shownLater.set(task, shown)
  return shown
}

const STATUS: Readonly<Record<TaskStatus, string>> = {
  queued: '"processing","message":"The task was accepted and waits to be processed."',
  processing: '"processing","message":"The task was accepted and is being processed."',
  input_required: '"input_required","message":"The task waits for an answer."',
  completed: '"completed","message":"The task is completed."',
  failed: '"failed","message":"The task failed."',
  cancelled: '"cancelled","message":"The task was cancelled."',
}

/**
 * Returns the JSON of a task as clients see it. A queued task has the status `processing`. Only the job
 * format shows `queued`.
 *
 * @param statusPath - path of its status, below which its files are. Default: they have no URLs
 */
export function taskText(task: StoredTask, statusPath?: string): string {
  const {
    id, status, name, attempt, result, createdAt, startAt, startedAt, finishedAt, callbackAt,
  } = task
  const { progress, files, blobs, error, attempts, callback, inputs }: Details = task.details
  const isLater = startAt !== undefined && status === 'queued' && attempt === 0
  const shown = isLater
    ? `"processing","message":"The task was accepted and starts at ${toIso(startAt)}."`
    : STATUS[status]
  let text = `{"taskId":"${id}","status":${shown},"task":"${name}"`
  if (attempt > 0) text += `,"attempt":${attempt}`
  if (inputs !== undefined && status === 'input_required') text += `,"inputs":${openInputsText(inputs)}`
  if (progress !== undefined) text += `,"progress":${JSON.stringify(progress)}`
  if (result !== undefined) text += `,"result":${result}`
  // Before the end, those of a run that a later one may replace.
  if (files !== undefined && isFinalStatus(status)) {
    const withUrls = blobs !== undefined && statusPath !== undefined
    const list: wire.TaskBody<wire.TaskFile>['files'] = withUrls ? fileLinks(files, statusPath) : files
    text += `,"files":${JSON.stringify(list)}`
  }
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
export interface TaskCallback extends Omit<wire.TaskCallback, 'nextAttemptAt' | 'deliveredAt'> {
  readonly nextAttemptAt?: Date
  readonly deliveredAt?: Date
}

/** One run of a task that has ended. */
export interface PastAttempt extends Omit<wire.PastAttempt, 'startedAt' | 'endedAt'> {
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
  readonly progress?: wire.TaskProgress
  /**
   * The real error of the last failed run, until the task is completed. Only calls of `tasks`
   * return it, calls of `ownedBy` do not. Not enumerable, like the stack of an `Error`: copies and
   * JSON of the task lack it, so that no response shows it by mistake.
   */
  readonly failure?: FailureDetails
  /**
   * The last lines that its runs have logged, the oldest first. The calls that return `failure`
   * return it. Not enumerable.
   */
  readonly log?: readonly LogLine[]
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

/** A task whose run has ended to wait for answers. Once all are there, it runs again. */
export interface InputRequiredTask<T extends AnyTaskDefinition> extends AnyStatus<T>, Unfinished {
  readonly status: 'input_required'
  /** The questions that have no answer, by their keys. */
  readonly inputs: Readonly<Record<string, TaskInput>>
}

/** A question that a task has asked. */
export interface TaskInput extends Omit<wire.TaskInput, 'askedAt' | 'expiresAt'> {
  readonly askedAt: Date
  /** Time at which the task no longer waits for the answer. */
  readonly expiresAt: Date
}

/** A task that has a result. */
export interface CompletedTask<T extends AnyTaskDefinition> extends AnyStatus<T> {
  readonly status: 'completed'
  readonly result: ResultOf<T>
  /** Files that the run has written, in the order of the calls. */
  readonly files?: readonly wire.TaskFile[]
  readonly error?: never
  readonly failure?: never
  readonly finishedAt: Date
}

/** A task whose last attempt failed. */
export interface FailedTask<T extends AnyTaskDefinition> extends AnyStatus<T> {
  readonly status: 'failed'
  readonly error: wire.TaskFailure
  readonly result?: never
  /** Files of a definition with `partialFiles` that a run has finished. */
  readonly files?: readonly wire.TaskFile[]
  readonly finishedAt: Date
}

/** A task that was cancelled before it was final. */
export interface CancelledTask<T extends AnyTaskDefinition> extends AnyStatus<T> {
  readonly status: 'cancelled'
  readonly error?: never
  readonly result?: never
  /** Files of a definition with `partialFiles` that a run has finished. */
  readonly files?: readonly wire.TaskFile[]
  readonly finishedAt: Date
}

type InEachStatus<T extends AnyTaskDefinition> =
  | ScheduledTask<T> | QueuedTask<T> | ProcessingTask<T> | InputRequiredTask<T>
  | CompletedTask<T> | FailedTask<T> | CancelledTask<T>

/**
 * A task: a union on `status`, with the property names of the status resource. `Task<typeof report>`
 * types the result. For several definitions it is also a union on `task`, their names. The status
 * resource shows `processing` for tasks that are `scheduled` or `queued`.
 */
export type Task<T extends AnyTaskDefinition = AnyTaskDefinition> =
  T extends AnyTaskDefinition ? InEachStatus<T> : never

/** Returns a copy of what clients see of a task, without the URLs of its files. */
export function bodyOf(task: StoredTask): wire.TaskBody<wire.TaskFile> {
  return JSON.parse(taskText(task)) as wire.TaskBody<wire.TaskFile>
}

/** Returns the properties of a task that only operators and the application's own code see. */
export function forOperators(
  { details }: StoredTask,
): { readonly failure?: FailureDetails | undefined, readonly log?: readonly LogLine[] | undefined } {
  const { failure, context, log }: Details = details
  return { failure: failure && toFailureDetails(failure, context), log }
}

/** Returns a task for the application's own code, which also sees the real errors. */
export function toOwnTask(stored: StoredTask): Task {
  const task = toTask(stored)
  for (const [name, value] of Object.entries(forOperators(stored))) {
    if (value !== undefined) Object.defineProperty(task, name, { value })
  }
  return task
}

/** Returns a task as its owner sees it. */
export function toTask(stored: StoredTask): Task {
  const body = bodyOf(stored)
  const { attempts, callback, inputs } = body
  return withDates({
    ...body,
    status: listedStatus(stored),
    ...attempts && { attempts: attempts.map(withDates) },
    ...callback && { callback: withDates(callback) },
    ...inputs && {
      inputs: Object.fromEntries(Object.entries(inputs).map(([key, input]) => [key, withDates(input)])),
    },
  }) as unknown as Task
}

const TIMES = [
  'createdAt', 'startAt', 'startedAt', 'finishedAt', 'endedAt', 'nextAttemptAt', 'deliveredAt',
  'askedAt', 'expiresAt',
]

function withDates(view: object): object {
  const copy: Record<string, unknown> = { ...view }
  for (const name of TIMES) if (name in copy) copy[name] = new Date(copy[name] as string)
  return copy
}

/** Returns the result of a completed task, as JSON. */
export function resultText({ result = 'null' }: StoredTask): string {
  return result
}

export function toTaskError({ status, details }: StoredTask): HttpError {
  if (status === 'cancelled') return httpError('task_cancelled')
  const { error, errorStatus = 500, errorFields: headers }: Details = details
  const { code = 'task_failed', message = 'The task failed.', details: points } = error ?? {}
  return new HttpError(errorStatus, code, {
    message, ...points && { details: points }, ...headers && { headers },
  })
}
