import type { BackoffOptions, Job as BullJob } from 'bullmq'
import { checkBackoff, retryDelay } from '../../src/queues/backoff.js'
import type { Backoff, Job } from '../../src/queues/queue.js'

/** What a board shows of a job, beside its name and id. */
export type JobData = Omit<Job, 'id' | 'name'>

/** BullMQ's own keys of a queue: the key of a job of such an id would be one of them. */
const KEYS = new Set([
  'active', 'completed', 'de', 'delayed', 'events', 'failed', 'id', 'limiter', 'marker', 'meta', 'paused', 'pc', 'prioritized', 'repeat',
  'stalled', 'stalled-check', 'wait', 'waiting-children',
])

/**
 * The id in BullMQ, which refuses colons and what reads as an integer: those ids, the names of its
 * keys, and ids that begin with `~`, are escaped behind a `~`, so that no two ids become one.
 */
export function toJobId(id: string): string {
  const escaped = id.startsWith('~') || id.includes(':') || String(parseInt(id, 10)) === id || KEYS.has(id)
  return escaped ? `~${encodeURIComponent(id)}` : id
}

function fromJobId(jobId: string): string {
  return jobId.startsWith('~') ? decodeURIComponent(jobId.slice(1)) : jobId
}

/** The job as our contract knows it. */
export function toJob(job: BullJob<JobData>): Job {
  const { name, data: { taskId, input, context, record, store } } = job
  const { id = '' } = job
  // Not by a spread: V8 is slow to add to one.
  const told: { -readonly [Member in keyof Job]: Job[Member] } = { id: fromJobId(id), taskId, name, input }
  if (context !== undefined) told.context = context
  if (record !== undefined) told.record = record
  if (store !== undefined) told.store = store
  return told
}

/**
 * Our back-off as BullMQ keeps it: its own two kinds know no upper bound, so ours is computed in
 * the worker.
 */
export function toBackoff(backoff: Backoff | undefined): { backoff?: BackoffOptions & { options?: Backoff } } {
  return backoff ? { backoff: { type: 'longhaul', options: backoff } } : {}
}

/** Milliseconds before the next attempt, after `made` have failed. */
export function delayOf(made: number, job: { readonly opts: { readonly backoff?: unknown } } | undefined): number {
  const { options } = (job?.opts.backoff ?? {}) as { options?: Backoff }
  return retryDelay(options, made)
}

/** Throws a `TypeError` for options that make no sense. */
export function checkOptions(attempts: number, delayMs: number, backoff: Backoff | undefined): void {
  if (!Number.isSafeInteger(attempts) || attempts < 1) throw new TypeError(`attempts must be a whole number from 1, not ${String(attempts)}`)
  if (!(delayMs >= 0 && Number.isFinite(delayMs))) throw new TypeError(`delayMs must be 0 or more milliseconds, not ${String(delayMs)}`)
  if (backoff) checkBackoff(backoff)
}
