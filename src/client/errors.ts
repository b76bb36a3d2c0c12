import { isObject } from './json-object.js'
import { checkNames } from './option-names.js'
import type { TaskStatus } from './status.js'

/** One thing that a server found wrong, with a JSON pointer (RFC 6901) to where. */
export interface ErrorDetail {
  readonly pointer: string
  readonly message: string
}

/** What a `ClientError` may say beside its code and message. */
export interface ClientErrorOptions {
  /** HTTP status of the answer. */
  readonly status?: number
  /** Each problem of the request, as the server listed it. */
  readonly details?: readonly ErrorDetail[] | undefined
  /** Seconds to wait, from `Retry-After`. */
  readonly retryAfter?: number | undefined
  /** The parsed body of the answer. */
  readonly body?: unknown
  /** The underlying error. */
  readonly cause?: unknown
}

const KNOWN = {
  status: 0, details: 0, retryAfter: 0, body: 0, cause: 0,
} satisfies Record<keyof ClientErrorOptions, 0>
const CLIENT_ERROR = Symbol.for('longhaul.ClientError')
const TASK_FAILED = Symbol.for('longhaul.TaskFailedError')

/**
 * A request that did not get what it asked for: refused by the server, never answered, or answered
 * by something that can't be used. Recognise it by `isClientError`.
 */
export class ClientError extends Error {
  override readonly name = 'ClientError'
  readonly [CLIENT_ERROR] = true
  /** The status of the answer; 0 when there was none. */
  readonly status: number
  /**
   * The server's stable code where it gave one, else `http_404` and the like; without an answer one
   * of the client's own, such as `network_error`.
   */
  readonly code: string
  /** What is wrong with the input, where the server said so. */
  readonly details: readonly ErrorDetail[] | undefined
  /** Seconds after which the server would like to be asked again. */
  readonly retryAfter: number | undefined
  /** The body of the answer: parsed where it was JSON, else its text. */
  readonly body: unknown

  constructor(code: string, message: string, options: ClientErrorOptions = {}) {
    const { status = 0, details, retryAfter, body, cause } = options
    super(message, cause === undefined ? undefined : { cause })
    checkNames('ClientError', options, KNOWN)
    this.code = code
    this.status = status
    this.details = details
    this.retryAfter = retryAfter
    this.body = body
  }
}

/** A task that was accepted and has ended without a result. Recognise it by `isTaskFailed`. */
export class TaskFailedError extends Error {
  override readonly name = 'TaskFailedError'
  readonly [TASK_FAILED] = true
  /**
   * The server's stable code; `task_failed` where it gave none, `task_cancelled` for a task that
   * was cancelled.
   */
  readonly code: string
  /** The status as it was last seen. */
  readonly task: TaskStatus

  constructor(task: TaskStatus) {
    const cancelled = task.state === 'cancelled'
    super(task.error?.message ?? (cancelled ? 'The task was cancelled.' : 'The task failed.'))
    this.code = task.error?.code ?? (cancelled ? 'task_cancelled' : 'task_failed')
    this.task = task
  }
}

/** Whether `error` is a `ClientError` of any copy of this package. */
export function isClientError(error: unknown): error is ClientError {
  return isObject(error) && CLIENT_ERROR in error
}

/** Whether `error` is a `TaskFailedError` of any copy of this package. */
export function isTaskFailed(error: unknown): error is TaskFailedError {
  return isObject(error) && TASK_FAILED in error
}
