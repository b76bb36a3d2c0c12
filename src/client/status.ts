import type { ErrorDetail } from '../wire/errors.js'
import type {
  PastAttempt, ServedFile, TaskBody, TaskCallback, TaskFailure, TaskInput, TaskProgress,
} from '../wire/task.js'
import { ClientError, isObject, unchecked, type Unchecked } from './errors.js'

type Sent = Partial<Pick<
  TaskBody,
  'taskId' | 'task' | 'message' | 'attempt' | 'attempts' | 'progress' | 'callback' | 'createdAt'
  | 'startAt' | 'startedAt'
>>

/** The properties of a task in every status. A server may leave out each of them. */
interface AnyStatus extends Sent {
  readonly body: Readonly<Record<string, unknown>>
}

/** Properties that a status does not have. */
type Absent<Name extends string> = { readonly [N in Name]?: never }

/**
 * A task that waits for its `startAt`. Servers that show tasks and not jobs say `processing`
 * instead.
 */
export interface ScheduledTask extends AnyStatus, Absent<'result' | 'error' | 'finishedAt'> {
  readonly status: 'scheduled'
}

/** A task that is not final: it waits for its start, or it runs. */
export interface ProcessingTask
  extends AnyStatus, Absent<'files' | 'result' | 'error' | 'finishedAt'> {
  readonly status: 'processing'
}

/** A task that waits for answers. `answer` of its handle sends them. */
export interface InputRequiredTask
  extends AnyStatus, Absent<'files' | 'result' | 'error' | 'finishedAt'> {
  readonly status: 'input_required'
  /** The questions by their keys. */
  readonly inputs: TaskInputs
}

type TaskInputs = Readonly<Record<string, TaskInput>>

/** A task that has a result. */
export interface CompletedTask<R = unknown> extends AnyStatus, Absent<'error'> {
  readonly status: 'completed'
  readonly result: R
  /** The files that the task has written. Absent if there is none. */
  readonly files?: readonly ServedFile[]
  readonly finishedAt?: string
}

/** A task whose last attempt failed. */
export interface FailedTask extends AnyStatus, Absent<'result'> {
  readonly status: 'failed'
  readonly error: TaskFailure
  /** Files of a task with `partialFiles` that a run has finished. Absent if there is none. */
  readonly files?: readonly ServedFile[]
  readonly finishedAt?: string
}

/** A task that was cancelled. */
export interface CancelledTask extends AnyStatus, Absent<'error' | 'result'> {
  readonly status: 'cancelled'
  /** Files of a task with `partialFiles` that a run has finished. Absent if there is none. */
  readonly files?: readonly ServedFile[]
  readonly finishedAt?: string
}

/**
 * A task as its status resource shows it: the `Task` of the server with times as ISO 8601 strings.
 * Servers that send less are supported. A job (`id`, `state`) is read as a task.
 */
export type TaskStatus<R = unknown> =
  | ScheduledTask | ProcessingTask | InputRequiredTask | CompletedTask<R> | FailedTask
  | CancelledTask

const FINAL: Readonly<Record<string, 'completed' | 'failed' | 'cancelled'>> = {
  completed: 'completed', complete: 'completed', succeeded: 'completed', success: 'completed',
  done: 'completed', finished: 'completed',
  failed: 'failed', error: 'failed',
  cancelled: 'cancelled', canceled: 'cancelled',
}

const STRINGS = [
  'task', 'message', 'createdAt', 'startAt', 'startedAt',
] as const satisfies readonly (keyof TaskBody)[]

export function readStatus<R>(body: unknown): TaskStatus<R> | undefined {
  if (!isObject(body)) return undefined
  const word = body['status'] ?? body['state']
  if (typeof word !== 'string') return undefined
  const name = word.toLowerCase()
  const sent: Unchecked<TaskBody> = body
  const { attempt, attempts, progress, callback, files, finishedAt } = sent
  const taskId = idOf(body)
  // Properties of the wrong type are left out.
  const properties = {
    ...Object.fromEntries(STRINGS.filter((each) => stringOf(body[each]) !== undefined)
      .map((each) => [each, body[each]])),
    ...taskId !== undefined && { taskId },
    ...typeof attempt === 'number' && { attempt },
    ...Array.isArray(attempts) && { attempts: attempts as readonly PastAttempt[] },
    ...typeof unchecked<TaskProgress>(progress).done === 'number'
      && { progress: progress as TaskProgress },
    ...isObject(callback) && { callback: callback as unknown as TaskCallback },
    body,
  }
  const final = {
    ...properties, ...typeof finishedAt === 'string' && { finishedAt },
    ...Array.isArray(files) && { files: files as readonly ServedFile[] },
  }
  switch (Object.hasOwn(FINAL, name) ? FINAL[name] : undefined) {
    case 'completed': {
      // A job of another server may have no result.
      const result = 'result' in sent ? sent.result : { message: stringOf(sent.message) ?? '' }
      return { ...final, status: 'completed', result: result as R }
    }
    case 'failed': return { ...final, status: 'failed', error: readFailure(sent.error) }
    case 'cancelled': return { ...final, status: 'cancelled' }
    default: break
  }
  if (name !== 'input_required') {
    return { ...properties, status: name === 'scheduled' ? name : 'processing' }
  }
  const { inputs } = body
  return { ...properties, status: name, inputs: (isObject(inputs) ? inputs : {}) as TaskInputs }
}

export function notStatus(status: number, body: unknown): ClientError {
  const message = 'The response is not the status of a task.'
  return new ClientError('bad_answer', message, { status, body })
}

export function idOf(body: Readonly<Record<string, unknown>>): string | undefined {
  const id = body['taskId'] ?? body['jobId'] ?? body['id']
  return typeof id === 'number' ? String(id) : stringOf(id)
}

function readFailure(error: unknown): TaskFailure {
  const { code, message = error, details } = unchecked<TaskFailure>(error)
  return {
    code: stringOf(code) ?? 'task_failed', message: stringOf(message) ?? 'The task failed.',
    ...Array.isArray(details) && { details: details as ErrorDetail[] },
  }
}

export function stringOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

export function isFinal<R>(
  task: TaskStatus<R>,
): task is CompletedTask<R> | FailedTask | CancelledTask {
  return Object.hasOwn(FINAL, task.status)
}

const TASK_FAILED = Symbol.for('longhaul.TaskFailedError')
const CANCELLED = { code: 'task_cancelled', message: 'The task was cancelled.' }

/** A task that was accepted and ended without a result. Test for it with `isTaskFailed`. */
export class TaskFailedError extends Error {
  override readonly name = 'TaskFailedError'
  readonly [TASK_FAILED] = true
  /** Stable code of the server, `task_failed` if it sent none, or `task_cancelled`. */
  readonly code: string
  /** The final status of the task. */
  readonly task: FailedTask | CancelledTask

  constructor(task: FailedTask | CancelledTask) {
    const { code, message } = task.error ?? CANCELLED
    super(message)
    this.code = code
    this.task = task
  }
}

/**
 * Returns true for a `TaskFailedError` of any copy of this package.
 * @example
 * try {
 *   await api.run('/reports', { year: 2025 })
 * } catch (error) {
 *   if (!isTaskFailed(error)) throw error
 *   console.error(error.task.status, error.code, error.message)
 * }
 */
export function isTaskFailed(error: unknown): error is TaskFailedError {
  return isObject(error) && TASK_FAILED in error
}
