/**
 * Execution contract. A process may only enqueue jobs, only process them, or do both. Jobs are
 * data, because functions cannot be sent to another process.
 */
export interface Queue {
  /** True if accepted jobs survive the death of this process. */
  readonly durable: boolean
  /**
   * Adds a job. Returns `full` or `closing` if the queue is full, or closes, and has not taken the
   * job. If a job with the same `id` waits or runs, returns `accepted` without adding another one.
   * The id of an ended job can be used again.
   *
   * The caller must not change the job afterwards. Never calls `run` before it returns, and never
   * throws. May return its outcome without a promise. A rejected promise leaves the outcome open;
   * misuse rejects with a `TypeError`.
   */
  enqueue(job: Job, options?: EnqueueOptions): EnqueueOutcome | Promise<EnqueueOutcome>
  /**
   * Starts to run jobs in this process, beginning with those that wait. Called at most once. If
   * `run` rejects or throws, the job is retried after its back-off until its attempts are used up.
   * Each attempt gets the input as it was enqueued. A full queue never refuses a retry.
   *
   * If `run` fails with a `HandBackError`, the job waits for its `delayMs` and then runs again in
   * some process. This uses no attempt.
   */
  process(run: RunJob, options: ProcessOptions): void
  /**
   * Removes a job that is not running, also between two attempts. Does not call `onDead`. Resolves
   * to `true` if it was there.
   */
  remove(id: string): Promise<boolean>
  /**
   * Returns whether the queue has a job with this id: waiting, running, or dead with `onDead` not
   * settled. Used to find tasks whose job was lost, so `false` must be certain. Rejects if it is
   * not known.
   */
  has(id: string): Promise<boolean>
  /**
   * Stops taking jobs. Waits up to `drainMs` milliseconds (default 10,000) for running jobs, then
   * aborts them with a `QueueClosingError`.
   *
   * A durable queue starts no more jobs and hands back the rest. Another queue runs waiting jobs
   * while there is time, and reports each unfinished job to `onDead` with `closed`.
   *
   * Resolves when nothing runs and `onDead` has settled, or soon after the abort if a run ignores
   * it. Further calls return the same outcome.
   */
  close(options?: { readonly drainMs?: number }): Promise<void>
  /**
   * Returns the queue of a pool: jobs and concurrency of its own, so that a full pool never delays
   * another. The same object for the same name. `default` is this queue itself. `close` of this
   * queue closes all of them.
   *
   * Optional: without it, all definitions are in the default pool.
   *
   * @throws {TypeError} The name is not 1 to 64 of `A-Z a-z 0-9 _ -`.
   */
  pool?(name: string): Queue
  /**
   * Counts the jobs of this queue, without those of its pools. Optional. Rejects if the numbers are
   * not known.
   */
  counts?(): Promise<QueueCounts>
  /**
   * Returns the time of the server behind the queue, in milliseconds since 1970. Used for tasks that
   * start at a certain time. Default: the time of this process.
   */
  now?(): Promise<number>
}

/** Numbers of jobs. */
export interface QueueCounts {
  /** Jobs that run, in any process. */
  readonly running: number
  /** Jobs that are due and wait for their run. */
  readonly waiting: number
  /** Jobs that wait for their start, or for their next attempt. */
  readonly delayed: number
  /**
   * Time since the oldest waiting job became due, in milliseconds. Absent if none waits. It is exact
   * to some milliseconds, or to the difference of the clocks of the processes.
   */
  readonly oldestWaitingMs?: number
}

/** One unit of work. All values must survive JSON. */
export interface Job {
  /** Unique id of the job: text of 1 to 512 characters. */
  readonly id: string
  readonly taskId: string
  /** Name of the task definition to run. */
  readonly name: string
  readonly input: unknown
  /**
   * Upper estimate of the heap that `input` takes, in bytes. Optional: a queue that keeps the input
   * as text, and parses it on first access, says so. Runs with large inputs then wait for memory.
   */
  readonly inputHeapBytes?: number | undefined
  /**
   * Id of the store that has the task's record. Needed where several applications share one queue.
   */
  readonly store?: string | undefined
  /** Request and trace context of the job. */
  readonly context?: unknown
  /**
   * Record of the task, for the run to read. Optional: a queue that returns it saves a read from
   * the store.
   */
  readonly record?: string | undefined
}

/** Outcome of `enqueue`: the queue has the job, has no space for it, or closes. */
export type EnqueueOutcome = 'accepted' | 'full' | 'closing'

/** Options of `enqueue`. */
export interface EnqueueOptions {
  /** Delay before the first attempt in milliseconds. Default 0. */
  readonly delayMs?: number
  /** Maximum number of attempts. Default 1. */
  readonly attempts?: number
  readonly backoff?: Backoff
  /**
   * Order among waiting jobs: 0 to 1,000,000. Jobs with a lower number start first, and jobs with
   * the same number in the order in which they became due. Default 0: before all others.
   */
  readonly priority?: number
}

/** Delay between attempts. */
export interface Backoff {
  readonly type: 'fixed' | 'exponential'
  /**
   * Delay before the second attempt in milliseconds. `exponential` doubles it for each further
   * attempt.
   */
  readonly delayMs: number
  /** Maximum delay in milliseconds. Default: one hour. */
  readonly maxDelayMs?: number
  /** Random share of the delay, 0 to 1, so that retries of many jobs do not coincide. Default 0. */
  readonly jitter?: number
}

/** One attempt of a job. */
export interface Attempt {
  /** Number of the attempt, from 1. */
  readonly attempt: number
  readonly lastAttempt: boolean
  /** Aborts if the queue stops before the job ends. */
  readonly signal: AbortSignal
  /**
   * Calls `listener` when the signal aborts, or at once if it has. Optional: a queue that creates
   * its signal only when it is read offers it, so that a run can be stopped without creating one.
   */
  readonly onAbort?: (listener: (reason: unknown) => void) => void
}

/** Runs one job. A rejected promise is a failed attempt. */
export type RunJob = (job: Job, attempt: Attempt) => Promise<void>

/**
 * Reason for a dead job: its attempts are used up, its worker died too often, or the queue closed.
 */
export type DeadReason = 'attempts' | 'stalled' | 'closed'

/** Options of `process`. */
export interface ProcessOptions {
  /** Maximum number of concurrent jobs. */
  readonly concurrency: number
  /**
   * Called once for a job that ended without a successful run, unless it was removed. Errors are
   * ignored.
   */
  readonly onDead: (job: Job, reason: DeadReason) => Promise<void> | void
}

const HAND_BACK = Symbol.for('longhaul.HandBackError')

/**
 * Thrown by a run that cannot do its job in this process, for example because the worker is older
 * than the job. The queue keeps the job for `delayMs` milliseconds and runs it again in some
 * process. This uses no attempt. Test for it with `isHandBack`.
 */
export class HandBackError extends Error {
  override readonly name = 'HandBackError'
  readonly [HAND_BACK] = true
  constructor(
    /** Delay before the next run in milliseconds, 0 or more. */
    readonly delayMs: number,
    message = 'This process cannot run the job',
  ) {
    super(message)
  }
}

/** Returns whether `error` is a `HandBackError` of any copy of this package. */
export function isHandBack(error: unknown): error is HandBackError {
  return typeof error === 'object' && error !== null && HAND_BACK in error
}

const BRAND = Symbol.for('longhaul.QueueClosingError')

/** Abort reason of a job whose queue is closing. Test for it with `isQueueClosing`. */
export class QueueClosingError extends Error {
  override readonly name = 'QueueClosingError'
  readonly [BRAND] = true
  constructor() {
    super('The queue is closing')
  }
}

/** Returns whether `error` is a `QueueClosingError` of any copy of this package. */
export function isQueueClosing(error: unknown): error is QueueClosingError {
  return typeof error === 'object' && error !== null && BRAND in error
}
