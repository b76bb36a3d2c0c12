import { publishError } from '../../http/error-reports.js'
import { aboutTask, telling, warn } from '../../runtime/warning.js'
import type { Job } from '../../queues/queue.js'

/**
 * Told of every failure that clients see masked, and of failures of the store. What it throws or
 * rejects with is a process warning named `LonghaulError`.
 */
export type OnTaskError = (error: unknown, at: { taskId: string; name: string; attempt: number }) => unknown

/** Tells the host of a failure. Its listener must not decide how a task ends. */
export function tell({ onError }: { readonly onError: OnTaskError }, cause: unknown, job: Pick<Job, 'taskId' | 'name'>, attempt: number): void {
  telling(() => onError(cause, { taskId: job.taskId, name: job.name, attempt }))
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
