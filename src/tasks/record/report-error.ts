import type { Job } from '../../queues/queue.js'
import { aboutTask, telling, warn } from '../../runtime/warning.js'

/**
 * Listener for every failure that clients see masked, and for failures of the store. If it throws
 * or rejects, that is reported as a process warning named `LonghaulError`.
 */
export type OnTaskError = (error: unknown, at: { taskId: string; name: string; attempt: number }) => unknown

/** Reports a failure to the host. Its listener cannot change how a task ends. */
export function reportError(
  { onError }: { readonly onError: OnTaskError }, cause: unknown, job: Pick<Job, 'taskId' | 'name'>, attempt: number,
): void {
  telling(() => onError(cause, { taskId: job.taskId, name: job.name, attempt }))
}

/** Reports a failure as a process warning, where the host has no `onError`. */
export function warnOfTask(error: unknown, at: Parameters<OnTaskError>[1]): void {
  warn(error, aboutTask(at))
}
