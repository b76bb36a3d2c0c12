/** A job as `getJob` of BullMQ returns it. */
export interface QueuedJob {
  readonly returnvalue: unknown
  readonly progress: unknown
  readonly failedReason?: string | undefined
  readonly stacktrace?: readonly string[] | null | undefined
}

/** The part of BullMQ's `Queue` that `bullmqTask` uses. */
export interface JobQueue {
  readonly name: string
  /** Adds a job, unless there is a job with this id. */
  add(name: string, data: unknown, options?: object): Promise<{ readonly id?: string | undefined }>
  /** Resolves to `undefined` if there is no such job. */
  getJob(jobId: string): Promise<QueuedJob | undefined>
  /** Resolves to `unknown` if there is no such job. */
  getJobState(jobId: string): Promise<string>
  /** Resolves to 0 if a worker has the job, which then stays. */
  remove(jobId: string): Promise<number>
}

/** An event of BullMQ. */
interface JobEvent {
  readonly jobId: string
  /** The progress. */
  readonly data?: unknown
}

/** The part of BullMQ's `QueueEvents` that `bullmqTask` uses. */
export interface JobEvents {
  readonly name: string
  /** Calls `listener` for the events of all jobs of the queue. */
  on(event: 'completed' | 'failed' | 'removed' | 'progress', listener: (event: JobEvent) => void): unknown
}

type Listener = (event: JobEvent) => void

const LISTENERS = new WeakMap<JobEvents, Map<string, Listener>>()

/**
 * Calls `listener` for each event of one job, until the returned function is called. All jobs share
 * the listeners of `events`, because Node warns about more than ten.
 */
export function listen(events: JobEvents, jobId: string, listener: Listener): () => void {
  const listeners = LISTENERS.get(events) ?? new Map<string, Listener>()
  if (!LISTENERS.has(events)) {
    LISTENERS.set(events, listeners)
    for (const name of ['completed', 'failed', 'removed', 'progress'] as const) {
      events.on(name, (event) => listeners.get(event.jobId)?.(event))
    }
  }
  listeners.set(jobId, listener)
  return () => {
    // A later run of the task in this process may listen to the same job.
    if (listeners.get(jobId) === listener) listeners.delete(jobId)
  }
}
