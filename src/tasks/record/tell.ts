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

/** Reports a failure where the host has no `onError`. */
export function warnOfTask(error: unknown, at: Parameters<OnTaskError>[1]): void {
  warn(error, aboutTask(at))
}
