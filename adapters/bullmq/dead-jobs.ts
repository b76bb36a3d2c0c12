import type { Job as BullJob } from 'bullmq'
import type { DeadReason, ProcessOptions } from '../../src/queues/queue.js'
import type { Backend } from './backend.js'
import { toJob, type JobData } from './job.js'

/** Maximum number of dead jobs that one sweep reads. */
const PAGE = 100

/** Maximum age of a dead job whose `onDead` rejects, in milliseconds. */
const KEPT_MS = 86_400_000

/** Reports jobs that BullMQ has given up to `onDead`, and removes each when it was reported. */
export class DeadJobs {
  private readonly reporting = new Set<string>()
  private sweeping: Promise<void> | undefined

  constructor(
    private readonly backend: Pick<Backend, 'queue' | 'dataOf'>,
    private readonly onDead: ProcessOptions['onDead'],
    private readonly onError: (error: Error) => void,
  ) {}

  /** Reports failed jobs whose event this process has missed. */
  sweep(): Promise<void> {
    this.sweeping ??= this.reportFailed().catch((error: unknown) => {
      this.onError(toError(error))
    }).finally(() => {
      this.sweeping = undefined
    })
    return this.sweeping
  }

  /** Resolves when the present sweep has ended; `undefined` if there is none. */
  get active(): Promise<void> | undefined {
    return this.sweeping
  }

  /** Reports one job. */
  async report(job: BullJob<JobData>): Promise<void> {
    const { id = '' } = job
    if (this.reporting.has(id)) return
    this.reporting.add(id)
    try {
      if (await this.wasReported(job)) await job.remove()
    } catch (error) {
      this.onError(toError(error))
    } finally {
      this.reporting.delete(id)
    }
  }

  private async reportFailed(): Promise<void> {
    for (const job of await this.backend.queue.getFailed(0, PAGE - 1)) {
      // The event may have been faster than the list.
      if (await job.isFailed()) await this.report(job)
    }
  }

  /**
   * Returns false if `onDead` rejects, such as while the store is away. The next sweep reports the
   * job again, for a day.
   */
  private async wasReported(job: BullJob<JobData>): Promise<boolean> {
    const reason: DeadReason = job.failedReason.startsWith('job stalled') ? 'stalled' : 'attempts'
    try {
      await this.onDead(toJob(job, this.backend.dataOf(job)), reason)
      return true
    } catch {
      return Date.now() - (job.finishedOn ?? 0) > KEPT_MS
    }
  }
}

function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
