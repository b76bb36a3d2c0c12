import type { Attempt, Job, ProcessOptions, Queue, RunJob } from '../../queues/queue.js'
import type { Ledger } from './ledger.js'
import type { TaskRecord } from './record.js'
import type { OnTaskError } from './report-error.js'

/** The name of jobs that are callbacks. */
export const CALLBACK_JOB = 'longhaul.callback'

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
   * Called by `createTasks`. Throws a `TypeError` if the queues cannot be used together.
   * @internal
   */
  readonly open: (host: CallbackHost) => CallbackDispatcher
}

/** The parts of a task service that its callbacks use. */
export interface CallbackHost {
  readonly ledger: Pick<Ledger, 'load' | 'loadWithRetry' | 'move' | 'moveWithRetry'>
  /** `true` if other processes see the records. */
  readonly shared: boolean
  readonly queue: Queue
  /** Identifies the store, in jobs of a queue that several applications may share. */
  readonly storeId: () => Promise<string>
  /** Maximum number of tasks that run at once in this process. */
  readonly concurrency: number
  readonly onError: OnTaskError
}

/** Sends callbacks for tasks that have ended. */
export interface CallbackDispatcher {
  /**
   * Checks a callback URL. Throws the error that the client is to see if the URL can never be
   * called; a `TypeError` if there is no secret to sign with.
   */
  check(url: unknown, owner: string | undefined): Promise<string>
  /**
   * Enqueues the first attempt for a record that has become final. Rejects if it could not be
   * enqueued; if the queue is not durable, gives the callback up instead. May be called again for
   * the same record.
   */
  dispatch(record: TaskRecord): Promise<void>
  /**
   * Starts another round for a task that has ended. Returns `false` if it has no callback, or if a
   * round is under way and `unlessPending` is `true`.
   */
  redeliver(id: string, unlessPending: boolean): Promise<boolean>
  /** Makes one attempt. Rejects if the job has to run again. */
  run(job: Job, attempt: Attempt): Promise<void>
  /** Gives up the callback of a job that the queue will not run again. */
  onDead(job: Job): Promise<void>
  /** Starts running the jobs of its own queue, if it has one. */
  startProcessing(run: RunJob, onDead: ProcessOptions['onDead']): void
  /** Stops waiting for space in the queue of the tasks, which is about to close. */
  beginClose(): void
  /** Closes its own queue, if it has one. Called after the queue of the tasks has drained. */
  close(drainMs: number): Promise<void>
}
