import type { Job as BullJob, JobsOptions, Queue as BullQueue, Worker, WorkerOptions } from 'bullmq'
import type { QueueCounts } from '../../src/queues/queue.js'
import type { JobData } from './job.js'

/** Runs one job. `token` is the token of its lock. */
export type Processor = (job: BullJob<JobData>, token?: string) => Promise<void>

/** Options of a worker that do not depend on the database. */
export type WorkerSettings = Omit<WorkerOptions, 'connection' | 'prefix'>

/** Options of a job. */
export type JobSettings = JobsOptions & { readonly jobId: string, readonly attempts: number }

/** One queue in the database that BullMQ runs on: Redis or PostgreSQL. */
export interface Backend {
  /** BullMQ's queue, to add and to read jobs. */
  readonly queue: BullQueue<JobData>
  /** Starts a worker. */
  createWorker(run: Processor, settings: WorkerSettings): Worker<JobData>
  /** Adds a job, unless there is one with its id. A delay begins at the server's time. */
  add(name: string, data: JobData, options: JobSettings): Promise<void>
  /** Returns the data of a job that `add` wrote. */
  dataOf(job: BullJob<JobData>): JobData
  /**
   * Returns the milliseconds until a delayed job is due by the server's clock; 0 or less if it is.
   */
  untilDue(job: BullJob<JobData>): Promise<number>
  /** Returns the server's time in milliseconds since 1970. */
  now(): Promise<number>
  /** Counts the jobs. */
  counts(): Promise<QueueCounts>
  /** Removes a job that is not running and is not dead. Resolves to `true` if it was there. */
  remove(jobId: string): Promise<boolean>
  /** Called when a reply is late. Checks for a half-open connection. */
  onLate(): void
  /**
   * Called every few seconds while there is a worker. Checks that its connections still receive.
   */
  checkWorker(worker: Worker<JobData>): Promise<void>
  /** Called when the queue begins to close. Stops the checks. */
  stopChecks(): void
  /** Closes BullMQ's connections by force. */
  disconnect(): void
}
