import type { TaskStatus } from '../../engine/task.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import { func, type OptionTable } from '../../runtime/options.js'
import type { PartList } from '../../stores/parts.js'

/**
 * Something outside of the engine that a task owns, such as an upload, or several of them. A failed or
 * cancelled task keeps them for a retry. The functions may be called twice, and the resource should
 * expire by itself too. All but `of` are called in the async context of `createTasks`, once for each
 * name.
 */
export interface ExternalResource<I> {
  /**
   * Returns its name for an input as submitted. The name is stored with the task: 1 to 1024
   * characters. An array names several: up to 100 with 8192 characters together, or none.
   */
  readonly of: (input: I) => string | readonly string[]
  /**
   * Releases the resource. Called when the task is completed, or if there was no space for the task.
   * Without `remove`, also called when the task is gone. Errors are ignored.
   * @param task - absent if there was no space for the task
   */
  readonly release: (name: string, task?: EndedTask) => unknown
  /**
   * Keeps the resource for at least `ttlMs` milliseconds from now. Called when the task ends failed or
   * cancelled, before a retry, and before a task for later is accepted. If it returns `false`, the
   * request gets a 410 `gone`. So it does if one of several is gone. If it throws, the request gets that error. Default: the resource is not
   * renewed.
   * @param task - absent before the task is accepted
   */
  readonly renew?: (name: string, ttlMs: number, task?: EndedTask) => MaybePromise<boolean>
  /**
   * Removes the rest of the resource when the task was deleted, has expired or was evicted.
   * Default: `release`.
   */
  readonly remove?: (name: string, task: EndedTask) => unknown
  /**
   * Returns the bytes that count for the owner once the task has ended. Called before `release` of
   * a completed task, for the bytes that remain afterwards. Default: 0.
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
  /**
   * Parts that the runs of the task have written.
   * @internal
   */
  readonly parts?: PartList | undefined
}

export const EXTERNAL = {
  of: func({ required: true }), release: func({ required: true }),
  renew: func(), remove: func(), bytes: func(),
} satisfies OptionTable<ExternalResource<never>>

const MAX_NAME_LENGTH = 1024
const MAX_NAMES = 100
/** Each write of progress carries the names. */
const MAX_ALL_LENGTH = 8192

/**
 * Returns the names that `of` has returned, each once.
 *
 * @throws {TypeError} They are too many or too long, or one is no string of 1 to 1024 characters.
 */
export function checkedNames(given: string | readonly string[]): readonly string[] {
  const names = typeof given === 'string' ? [given] : [...new Set(Array.isArray(given) ? given as string[] : [''])]
  if (names.length <= MAX_NAMES && names.every(isResourceName) && names.join('').length <= MAX_ALL_LENGTH) return names
  throw new TypeError(`external.of must return a string of 1 to ${MAX_NAME_LENGTH} characters, or an array of at most`
    + ` ${MAX_NAMES} of them with ${MAX_ALL_LENGTH} characters together`)
}

function isResourceName(name: unknown): boolean {
  return typeof name === 'string' && name !== '' && name.length <= MAX_NAME_LENGTH
}
