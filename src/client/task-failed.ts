import { isObject } from './json-object.js'
import type { CancelledTask, FailedTask } from './status.js'

const TASK_FAILED = Symbol.for('longhaul.TaskFailedError')
const CANCELLED = { code: 'task_cancelled', message: 'The task was cancelled.' }

/** A task that was accepted and ended without a result. Test for it with `isTaskFailed`. */
export class TaskFailedError extends Error {
  override readonly name = 'TaskFailedError'
  readonly [TASK_FAILED] = true
  /**
   * The stable code of the server, or `task_failed` if it sent none. `task_cancelled` if the task
   * was cancelled.
   */
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
 * Returns whether `error` is a `TaskFailedError`, of any copy of this package.
 *
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
