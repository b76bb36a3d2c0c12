import { publishError } from '../../http/boundary.js'
import { aboutTask, telling, warn } from '../../runtime/warning.js'

/**
 * Listener for every failure that clients see masked, and for failures of the store. If it throws
 * or rejects, that is reported as a process warning named `LonghaulError`.
 */
export type OnTaskError = (
  error: unknown, at: { taskId: string; name: string; attempt: number },
) => unknown

/** Reports a failure to the host. Its listener cannot change how a task ends. */
export function reportError(
  { onError }: { readonly onError: OnTaskError }, cause: unknown,
  task: { readonly taskId: string, readonly name: string }, attempt: number,
): void {
  telling(() => onError(cause, { taskId: task.taskId, name: task.name, attempt }))
}

/**
 * Returns a listener that reports to `reportErrorsTo` and to the host's `onError`. If there is
 * neither, it emits a process warning.
 */
export function reportingTo(onError: OnTaskError | undefined): OnTaskError {
  return (error, task) => {
    const isReported = publishError({ error, task })
    if (onError !== undefined) return onError(error, task)
    if (!isReported) warn(error, aboutTask(task))
    return undefined
  }
}
