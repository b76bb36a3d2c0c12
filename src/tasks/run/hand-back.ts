import { HandBackError, type Job } from '../../queues/queue.js'
import { tell, type OnTaskError } from '../record/tell.js'

/** Shortest and longest pause before a job that was handed back is tried again. */
const MIN_MS = 1000
const MAX_MS = 30_000
/** Jobs that are remembered as reported; the oldest are forgotten first. */
const MAX_TOLD = 10_000

/** Hands jobs back that this process cannot run, and reports each of them once. */
export class HandBacks {
  private readonly told = new Set<string>()

  constructor(readonly onError: OnTaskError) {}

  /**
   * Makes the error that hands a job back. Tells `onError` why, once for each job.
   *
   * @param stuckMs - for how long nobody has been able to run the job; the longer, the longer the
   * pause
   */
  of(job: Job, why: string, stuckMs: number, cause?: unknown): HandBackError {
    if (!this.told.has(job.id)) {
      const [oldest] = this.told
      if (this.told.size >= MAX_TOLD && oldest !== undefined) this.told.delete(oldest)
      this.told.add(job.id)
      tell(this, new Error(`${why}; the job was handed back`, { cause }), job, 0)
    }
    const pause = Math.min(Math.max(stuckMs / 4, MIN_MS), MAX_MS)
    return new HandBackError(Math.round(pause * (0.75 + Math.random() / 2)), why)
  }
}
