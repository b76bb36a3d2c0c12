import { HandBackError, type Job } from '../queues/queue.js'
import type { ExecutorSettings } from './attempt.js'
import { tell, type OnTaskError } from './tell.js'

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
   * @param stuckMs - for how long nobody has been able to run the job; the longer, the longer the pause
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

/** How long a callback's job of another store is handed back, from the creation of its task: 30 days. */
const LONGEST_FOREIGN_MS = 2_592_000_000

/**
 * Whether this process may run a callback's job. `false`: nobody will come for it any more.
 *
 * @throws {HandBackError} the task is in another store, or this process makes no callbacks
 */
export async function isOurCallback(
  job: Job, { identity, handBacks, durable }: Pick<ExecutorSettings, 'identity' | 'handBacks' | 'durable'>, makesCallbacks: boolean,
): Promise<boolean> {
  const ageMs = Date.now() - (job.input as { readonly createdAt: number }).createdAt
  const foreign = await identity.isForeign(job.store)
  if (foreign && ageMs > LONGEST_FOREIGN_MS) return false
  if (foreign) throw handBacks.of(job, 'The task of this callback is in another store', ageMs)
  if (durable && !makesCallbacks) throw handBacks.of(job, 'This process makes no callbacks', ageMs)
  return true
}
