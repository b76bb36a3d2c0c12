import type { Attempt, Job, ProcessOptions, Queue, RunJob } from '../../queues/queue.js'
import type { Ledger } from './ledger.js'
import type { TaskRecord } from './record.js'
import type { OnTaskError } from './tell.js'

/** The name of jobs that are callbacks. */
export const CALLBACK_JOB = 'longhaul.callback'

/** What is thrown where a callback URL is given, or could be, but nobody would call it. */
export function noCallbacks(): TypeError {
  return new TypeError('There may be a callback URL but createTasks has no callbacks: give it callbacks({ secrets }) of longhaul/callbacks')
}

/**
 * How callback URLs are told that tasks have ended. Made by `callbacks()` of `longhaul/callbacks`:
 * what it brings, only those who use it get.
 */
export interface Callbacks {
  /**
   * Called by `createTasks`. Throws a `TypeError` when the queues don't go together.
   * @internal
   */
  readonly open: (host: CallbackHost) => CallbackDispatcher
}

/** The tasks, as those who make their callbacks see them. */
export interface CallbackHost {
  readonly ledger: Pick<Ledger, 'load' | 'move' | 'patience'>
  /** Whether records are seen by other processes. */
  readonly shared: boolean
  readonly queue: Queue
  /** Identifies the store, in jobs of a queue that several applications may share. */
  readonly storeId: () => Promise<string>
  /** Tasks that run at once in this process. */
  readonly concurrency: number
  readonly onError: OnTaskError
}

/** Brings the news of ended tasks to their callback URLs. */
export interface CallbackDispatcher {
  /**
   * Throws what the client is to see of a URL that can never be called; a `TypeError` when there is
   * nothing to sign with.
   */
  check(url: unknown, owner: string | undefined): Promise<string>
  /**
   * Enqueues the first attempt for a record that has become final. Rejects when it could not be
   * enqueued; where the queue is not durable, it is given up instead. May be called again for one
   * record.
   */
  dispatch(record: TaskRecord): Promise<void>
  /** Starts another round for a task that has ended; `false` when there is nothing to tell. */
  redeliver(id: string): Promise<boolean>
  /** Makes one attempt. Rejects when the job has to be run again. */
  run(job: Job, attempt: Attempt): Promise<void>
  /** The engine gave a callback's job up. */
  onDead(job: Job): Promise<void>
  /** Has jobs run that wait in a queue of their own, if they have one. */
  startProcessing(run: RunJob, onDead: ProcessOptions['onDead']): void
  /** The queue of the tasks is about to close: no room in it is waited for any more. */
  beginClose(): void
  /**
   * Closes the queue of its own, if there is one. Called after that of the tasks: what ends while
   * it drains has callbacks too.
   */
  close(drainMs: number): Promise<void>
}
