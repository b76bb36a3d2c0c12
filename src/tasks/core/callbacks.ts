import type { StoredTask } from '../../engine/task.js'
import type { TaskCore } from './task-core.js'

/** Returns the error for a callback URL where `createTasks` has no `callbacks`. */
export function noCallbacks(): TypeError {
  return new TypeError('A task with a callback URL needs the option callbacks of createTasks: '
    + 'pass callbacks({ secrets }) of longhaul/callbacks')
}

/**
 * The option `callbacks` of `createTasks`. Made by `callbacks()` of `longhaul/callbacks`, so that
 * only applications that use callbacks load their code.
 */
export interface Callbacks {
  /**
   * Maximum number of callbacks that this process handles at the same time.
   * @internal
   */
  readonly concurrency: number
  /**
   * Called by `createTasks`.
   * @internal
   */
  readonly open: (core: TaskCore) => CallbackDeliveries
}

/** Sends the callbacks of tasks. */
export interface CallbackDeliveries {
  /**
   * Checks a callback URL. Throws the error that the client is to see if the URL can never be
   * called; a `TypeError` if there is no secret to sign with.
   */
  check(url: unknown, owner: string | undefined): Promise<string>
  /** Makes one attempt at the callback of a task. Never rejects. */
  deliver(task: StoredTask): Promise<void>
  /**
   * Starts another round for a task that has ended. Returns `false` if it has no callback, or if a
   * round is under way and `unlessPending` is `true`.
   */
  redeliver(id: string, unlessPending: boolean): Promise<boolean>
  /** Aborts the requests that are under way. */
  close(): void
}
