import type { TaskStatus } from '../../engine/task.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import { func, type OptionTable } from '../../runtime/options.js'

/** Something outside of the engine that a task needs until it is completed. */
export interface ExternalResource<I> {
  /** Names it, given the input as submitted. Stored with the task: 1 to 1024 characters. */
  readonly of: (input: I) => string
  /**
   * Releases the resource. Called when the task is completed, or if there was no space for the task.
   * Without `remove`, also called when the task was deleted, has expired or was evicted. May be
   * called twice. Errors are ignored, so let the resource expire by itself too.
   */
  readonly release: (name: string) => unknown
  /**
   * Makes it live for at least `ttlMs` milliseconds from now. Called when the task ends failed or
   * cancelled, before a retry, and before a task for later is accepted. Return `false` if it no
   * longer exists: that request then gets a 410 `gone`. The request gets what it throws, too.
   * Default: it is not renewed, and a retry without it fails in its run.
   */
  readonly renew?: (name: string, ttlMs: number) => MaybePromise<boolean>
  /**
   * Removes what the runs have left under this name. Called once the task was deleted, has expired
   * or was evicted. Like `release`, it may be called again. Default: `release`.
   */
  readonly remove?: (name: string, task: EndedTask) => unknown
  /**
   * Returns the number of bytes that stay under this name once the task has ended: they count for
   * the owner. A completed task is asked before `release`, for what stays after it. Default: 0.
   */
  readonly bytes?: (name: string, task: EndedTask) => MaybePromise<number>
}

/** A task that has ended or is about to end, as `external` of its definition sees it. */
export interface EndedTask {
  readonly id: string
  /** Number of the last run. */
  readonly attempt: number
  /** `queued` for a task that expired before it ever ran. */
  readonly status: TaskStatus
}

export const EXTERNAL = {
  of: func({ required: true }), release: func({ required: true }),
  renew: func(), remove: func(), bytes: func(),
} satisfies OptionTable<ExternalResource<never>>
/** Maximum length of the name of an external resource. */
const MAX_NAME_LENGTH = 1024

/**
 * Returns the name of an external resource, which is stored with the task.
 * @throws {TypeError} It is not a text, or is too long.
 */
export function checkedName(name: string): string {
  if (typeof name === 'string' && name !== '' && name.length <= MAX_NAME_LENGTH) return name
  throw new TypeError(`external.of must return a text of 1 to ${MAX_NAME_LENGTH} characters`)
}
