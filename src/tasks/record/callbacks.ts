import type { Attempt, Job, ProcessOptions, Queue, RunJob } from '../../queues/queue.js'
import type { Ledger } from './ledger.js'
import type { TaskRecord } from './record.js'
import type { OnTaskError } from './tell.js'

/** Name of the jobs that make callbacks. */
export const CALLBACK_JOB = 'longhaul.callback'

/** Error for a callback URL without `callbacks`. */
export function noCallbacks(): TypeError {
  return new TypeError('There may be a callback URL but createTasks has no callbacks: give it callbacks({ secrets }) of longhaul/callbacks')
}

/**
 * Callbacks of ended tasks. Created by `callbacks()` of `longhaul/callbacks`, so that only
 * applications that use it load the code.
 */
export interface Callbacks {
  /**
   * Called by `createTasks`.
   * @internal
   * @throws {TypeError} The queues do not fit.
   */
  readonly open: (host: CallbackHost) => CallbackDispatcher
}

/** Access to the tasks for the dispatcher of callbacks. */
export interface CallbackHost {
  readonly ledger: Pick<Ledger, 'load' | 'move' | 'patience'>
  /** True if other processes read the same records. */
  readonly shared: boolean
  readonly queue: Queue
  /** Returns the id of the store. Jobs carry it, because several applications may share a queue. */
  readonly storeId: () => Promise<string>
  /** Maximum number of concurrent tasks in this process. */
  readonly concurrency: number
  readonly onError: OnTaskError
}

/** Sends the callbacks of ended tasks. */
export interface CallbackDispatcher {
  /**
   * Checks a callback URL. Throws an `HttpError` for a URL that can never be called, and a
   * `TypeError` without a secret to sign with.
   */
  check(url: unknown, owner: string | undefined): Promise<string>
  /**
   * Enqueues the first attempt for a final record. If that fails, rejects with a durable queue and
   * gives the callback up otherwise. May be called again for the same record.
   */
  dispatch(record: TaskRecord): Promise<void>
  /** Starts another round for an ended task. Resolves to `false` if it has no callback. */
  redeliver(id: string): Promise<boolean>
  /** Makes one attempt. Rejects if the job must run again. */
  run(job: Job, attempt: Attempt): Promise<void>
  /** Handles a callback's job that the queue gave up. */
  onDead(job: Job): Promise<void>
  /** Starts processing the separate queue of the callbacks, if there is one. */
  startProcessing(run: RunJob, onDead: ProcessOptions['onDead']): void
  /** Stops waiting for room in the tasks' queue, which is about to close. */
  beginClose(): void
  /**
   * Closes the separate queue, if there is one. Called after the tasks' queue has closed, because
   * tasks that end while it drains have callbacks too.
   */
  close(drainMs: number): Promise<void>
}
