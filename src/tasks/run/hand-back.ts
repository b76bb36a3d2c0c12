import { HandBackError, type Job } from '../../queues/queue.js'
import { reportError, type OnTaskError } from '../record/report-error.js'

/** Shortest and longest delay before a job that was handed back is run again. */
const MIN_DELAY_MS = 1000
const MAX_DELAY_MS = 30_000
/** Number of jobs that are remembered as reported. The oldest are forgotten first. */
const MAX_REPORTED = 10_000

/** Hands jobs back that this process cannot run, and reports each of them once. */
export class HandBacks {
  private readonly reported = new Set<string>()

  constructor(readonly onError: OnTaskError) {}

  /**
   * Creates the error that hands a job back. Reports the reason to `onError`, once for each job.
   *
   * @param stuckMs - time for which no process could run the job. A longer time gives a longer
   * delay
   */
  of(job: Job, why: string, stuckMs: number, cause?: unknown): HandBackError {
    if (!this.reported.has(job.id)) {
      const [oldest] = this.reported
      if (this.reported.size >= MAX_REPORTED && oldest !== undefined) this.reported.delete(oldest)
      this.reported.add(job.id)
      reportError(this, new Error(`${why}; the job was handed back`, { cause }), job, 0)
    }
    const delayMs = Math.min(Math.max(stuckMs / 4, MIN_DELAY_MS), MAX_DELAY_MS)
    return new HandBackError(Math.round(delayMs * (0.75 + Math.random() / 2)), why)
  }
}
