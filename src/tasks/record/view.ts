import { HttpError, httpError } from '../../http/errors.js'
import type { AnyTaskDefinition, NameOf, ResultOf } from '../definition/define.js'
import type { TaskFile } from '../definition/run-context.js'
import type { AttemptView, CallbackView, TaskFailure, TaskProgress } from './details.js'
import type { TaskSnapshot } from './snapshot.js'

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
