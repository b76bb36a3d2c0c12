/**
 * The one execution contract. Functions do not travel, so submitting (data) is apart from
 * executing: a process may only enqueue, only process, or both.
 */
export interface Queue {
  /** Whether accepted jobs survive the death of this process. */
  readonly durable: boolean
  /**
   * Takes a job. `full`: the queue has no room, or is closing, and has not taken it. A job whose
   * `id` is already waiting (for its turn, its delay or its next attempt) or running is taken once,
   * and the answer is `accepted`; an id whose job has ended may be taken anew. The caller changes
   * neither job nor input afterwards. Never calls `run` before it returns. Gives its answer at once
   * where it has it, and never throws. A rejected promise leaves the outcome open; misuse rejects
   * with a `TypeError`.
   */
  enqueue(job: Job, options?: EnqueueOptions): 'accepted' | 'full' | Promise<'accepted' | 'full'>
  /**
   * Starts running jobs in this process, beginning with those that wait; called at most once. When
   * `run` rejects or throws, the job is tried again after its back-off until its attempts are used
   * up, each time with the input as it was enqueued. An accepted job is never refused a retry for
   * want of room. A job whose `run` rejects or throws with a `HandBackError` waits for its
   * `delayMs`, then is run by some process; no attempt is used up.
   */
  process(run: RunJob, options: ProcessOptions): void
  /**
   * Takes a job that is not running out of the queue, also one between two attempts; `onDead` is
   * not called. `true` when it was there.
   */
  remove(id: string): Promise<boolean>
  /**
   * Whether the queue holds a job of this id: one that waits for whatever reason, runs, or has died
   * and whose `onDead` has not settled. Asked to find tasks whose job was lost, so `false` must be
   * certain: when it is not known, reject.
   */
  has(id: string): Promise<boolean>
  /**
   * Takes no new jobs and lets what runs finish for up to `drainMs` milliseconds (default 10,000),
   * then aborts the rest with a `QueueClosingError` as the reason. A durable queue starts nothing
   * more and hands back what is left. One that is not durable runs what waits too while there is
   * time, and reports each job that it leaves undone to `onDead` with `closed`. Resolves when
   * nothing runs any more and `onDead` has settled, or soon after the abort, even when a run
   * ignores it. Calling it again returns the same outcome.
   */
  close(options?: { readonly drainMs?: number }): Promise<void>
}

/** A piece of work as data. Everything in it survives JSON. */
export interface Job {
  /** Unique among jobs. Any text of 1 to 512 characters. */
  readonly id: string
  readonly taskId: string
  /** The definition to run. */
  readonly name: string
  readonly input: unknown
  /**
   * Identifies the store that the task's record is in, where applications with stores of their own
   * may share one queue.
   */
  readonly store?: string | undefined
  /** Request and trace context that travels with the job. */
  readonly context?: unknown
  /**
   * What is known of the task's record, for the run to read. A queue that gives it back saves a
   * look into the store; it may leave it out.
   */
  readonly record?: string | undefined
}

/** When a job runs, and how often it is tried. */
export interface EnqueueOptions {
  /** Milliseconds before the first attempt. Default 0. */
  readonly delayMs?: number
  /** How often the job may be tried in all. Default 1. */
  readonly attempts?: number
  readonly backoff?: Backoff
}

/** How long to wait before the next attempt. */
export interface Backoff {
  readonly type: 'fixed' | 'exponential'
  /** Milliseconds before the second attempt; `exponential` doubles it for each later one. */
  readonly delayMs: number
  /** Upper bound in milliseconds. Default: one hour. */
  readonly maxDelayMs?: number
  /** Share of the delay that is random, 0 to 1, so that retries do not come in step. Default 0. */
  readonly jitter?: number
}

/** Which try this is. */
export interface Attempt {
  /** From 1. */
  readonly attempt: number
  readonly lastAttempt: boolean
  /** Aborts when the queue stops before the job is done. */
  readonly signal: AbortSignal
  /**
   * Calls `listener` when the signal aborts, or at once if it has. Optional: a queue that creates
   * its signal only when it is read offers it, so that a run can be stopped without creating one.
   */
  readonly onAbort?: (listener: (reason: unknown) => void) => void
}

/** Runs one job. A rejection is a failed attempt. */
export type RunJob = (job: Job, attempt: Attempt) => Promise<void>

/**
 * Why a job will not be run (again): its attempts are used up, its worker died too often, or the
 * queue closed.
 */
export type DeadReason = 'attempts' | 'stalled' | 'closed'

/** How a process runs jobs. */
export interface ProcessOptions {
  /** Jobs that run at once. */
  readonly concurrency: number
  /**
   * Called once for a job that ends without a `run` that resolved, unless it was removed. What it
   * throws changes nothing.
   */
  readonly onDead: (job: Job, reason: DeadReason) => Promise<void> | void
}

const HAND_BACK = Symbol.for('longhaul.HandBackError')

/**
 * Thrown by a run that cannot do its job in this process, while another process may: a worker of an
 * older version, say. The queue keeps the job for `delayMs` and then has it run again. No attempt
 * is used up. Recognise it by `isHandBack`.
 */
export class HandBackError extends Error {
  override readonly name = 'HandBackError'
  readonly [HAND_BACK] = true
  constructor(
    /** Milliseconds before the job is run again, 0 or more. */
    readonly delayMs: number,
    message = 'This process cannot run the job',
  ) {
    super(message)
  }
}

/** Whether `error` is a `HandBackError` of any copy of this package. */
export function isHandBack(error: unknown): error is HandBackError {
  return typeof error === 'object' && error !== null && HAND_BACK in error
}

const BRAND = Symbol.for('longhaul.QueueClosingError')

/** The abort reason of a job whose queue is closing. Recognise it by `isQueueClosing`. */
export class QueueClosingError extends Error {
  override readonly name = 'QueueClosingError'
  readonly [BRAND] = true
  constructor() {
    super('The queue is closing')
  }
}

/** Whether `error` is a `QueueClosingError` of any copy of this package. */
export function isQueueClosing(error: unknown): error is QueueClosingError {
  return typeof error === 'object' && error !== null && BRAND in error
}
