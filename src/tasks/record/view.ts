import type { CallbackView } from './callback-state.js'
import { HttpError, httpError } from '../../http/errors.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import type { TaskSnapshot } from './codec.js'
import type { TaskContext } from '../definition/define.js'
import type { TaskFailure, TaskProgress } from './record.js'

/** The result as it is kept: always an object with a message (SPEC 2.5). */
export type TaskResult<R> = R extends readonly unknown[] ? { message: string; value: R }
  : R extends object ? { message: string } & R
    : { message: string; value: R }

/** A task as `get` shows it: the task format, parsed. Times are ISO 8601. */
export interface TaskView<R = unknown> {
  readonly taskId: string
  readonly status: 'processing' | 'completed' | 'failed' | 'cancelled'
  readonly message: string
  readonly task: string
  /**
   * The number of the latest run, from 1; absent before the first. Progress may fall back when it
   * grows.
   */
  readonly attempt?: number
  readonly progress?: TaskProgress
  readonly result?: TaskResult<R>
  readonly error?: TaskFailure
  /** What became of the callback, when the task has one. */
  readonly callback?: CallbackView
  readonly createdAt: string
  /** When the first run may begin, of a task that was submitted for later. */
  readonly startAt?: string
  readonly startedAt?: string
  readonly finishedAt?: string
}

/** Names the type of a result: a definition that gives it. */
export interface Typed<R> {
  readonly run: (input: never, context: TaskContext) => MaybePromise<R>
}

/** The result of a completed task, as JSON text. */
export function resultText(task: TaskSnapshot): string {
  return JSON.stringify((JSON.parse(task.text) as { result: unknown }).result)
}

/** The error that a failed or cancelled task stands for, to those who waited for its result. */
export function toTaskError(task: TaskSnapshot): HttpError {
  if (task.state === 'cancelled') return httpError('task_cancelled')
  const { error } = JSON.parse(task.text) as TaskView
  return new HttpError(task.errorStatus ?? 500, error?.code ?? 'task_failed', {
    message: error?.message ?? 'The task failed.', ...error?.details && { details: error.details },
    ...task.errorFields && { headers: task.errorFields },
  })
}
