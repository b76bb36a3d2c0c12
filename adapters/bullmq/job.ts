import type { BackoffOptions, Job as BullJob } from 'bullmq'
import type { Backoff, Job } from '../../src/queues/queue.js'

/** What a board shows of a job, beside its name and id. */
export interface JobData {
  readonly taskId: string
  readonly input: unknown
  readonly context?: unknown
}

const MAX_DELAY_MS = 3_600_000

/** BullMQ refuses ids that are whole numbers, and colons; the second no task id has. */
export function toJobId(id: string): string {
  return /^\d+$/.test(id) ? `id-${id}` : id
}

/** The job as our contract knows it. */
export function toJob(job: BullJob<JobData>): Job {
  const { taskId, input, context } = job.data
  const id = job.id ?? taskId
  return { id: /^id-\d+$/.test(id) ? id.slice(3) : id, taskId, name: job.name, input, ...(context === undefined ? {} : { context }) }
}

/** Our back-off as BullMQ keeps it: its own two kinds know no upper bound, so ours is computed in the worker. */
export function toBackoff(backoff: Backoff | undefined): { backoff?: BackoffOptions & { options?: Backoff } } {
  return backoff ? { backoff: { type: 'longhaul', options: backoff } } : {}
}

/** Milliseconds before the next attempt, after `made` have failed. */
export function retryDelay(made: number, job: { readonly opts: { readonly backoff?: unknown } } | undefined): number {
  const { options } = (job?.opts.backoff ?? {}) as { options?: Backoff }
  if (!options) return 0
  const { type, delayMs, maxDelayMs = MAX_DELAY_MS, jitter = 0 } = options
  const delay = Math.min(maxDelayMs, type === 'fixed' ? delayMs : delayMs * 2 ** (made - 1))
  return Math.round(delay * (1 - jitter * Math.random()))
}
