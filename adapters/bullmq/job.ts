import type { BackoffOptions, Job as BullJob } from 'bullmq'
import { checkBackoff, retryDelay } from '../../src/queues/backoff.js'
import type { Backoff, Job } from '../../src/queues/queue.js'
import { hasAtMost, heapBytesOf } from '../../src/runtime/json-size.js'

/** Data of a job in BullMQ, beside its name and id. */
export type JobData = Omit<Job, 'id' | 'name'> & {
  /** A large input as JSON, which BullMQ does not parse. Then `input` is absent. */
  readonly inputText?: string
}

/** Number of members and items of a small input. */
const SMALL = 100
/** An input that takes more heap is stored as text. */
const LARGE_BYTES = 1_048_576

/** Returns the data of a job. */
export function toJobData({ taskId, input, context, record, store }: Job): JobData {
  const data = { taskId, context, record, store }
  if (hasAtMost(input, SMALL)) return { ...data, input }
  const inputHeapBytes = heapBytesOf(input)
  if (inputHeapBytes <= LARGE_BYTES) return { ...data, input }
  return { ...data, input: undefined, inputText: JSON.stringify(input), inputHeapBytes }
}

/** BullMQ's own keys of a queue. A job with such an id would overwrite the key. */
const KEYS = new Set([
  'active', 'completed', 'de', 'delayed', 'events', 'failed', 'id', 'limiter', 'marker', 'meta',
  'paused', 'pc', 'prioritized', 'repeat', 'stalled', 'stalled-check', 'wait', 'waiting-children',
])

/**
 * Returns the id of a job in BullMQ, which refuses colons and integers. Those ids, the names of its
 * keys, and ids that begin with `~` are escaped after a `~`, so that ids stay distinct.
 */
export function toJobId(id: string): string {
  const isRefused = id.includes(':') || String(parseInt(id, 10)) === id || KEYS.has(id)
  return isRefused || id.startsWith('~') ? `~${encodeURIComponent(id)}` : id
}

function fromJobId(jobId: string): string {
  return jobId.startsWith('~') ? decodeURIComponent(jobId.slice(1)) : jobId
}

/** Converts a job of BullMQ. */
export function toJob({ name, id = '' }: BullJob<JobData>, data: JobData): Job {
  const { taskId, input, inputText, inputHeapBytes, context, record, store } = data
  // No spread: V8 is slow to add members to its result.
  const converted: { -readonly [Member in keyof Job]: Job[Member] } = {
    id: fromJobId(id), taskId, name, input,
  }
  if (context !== undefined) converted.context = context
  if (record !== undefined) converted.record = record
  if (store !== undefined) converted.store = store
  if (inputText === undefined) return converted
  let parsed: { readonly input: unknown } | undefined
  const get = (): unknown => (parsed ??= { input: JSON.parse(inputText) as unknown }).input
  converted.inputHeapBytes = inputHeapBytes
  return Object.defineProperty(converted, 'input', { enumerable: true, get })
}

/**
 * Converts a back-off to BullMQ's options. Its built-in kinds have no upper bound, so the worker
 * computes the delay.
 */
export function toBackoff(
  backoff: Backoff | undefined,
): { backoff?: BackoffOptions & { options?: Backoff } } {
  return backoff ? { backoff: { type: 'longhaul', options: backoff } } : {}
}

/** Returns the milliseconds before the next attempt, after `made` have failed. */
export function delayOf(
  made: number, job: { readonly opts: { readonly backoff?: unknown } } | undefined,
): number {
  const { options } = (job?.opts.backoff ?? {}) as { options?: Backoff }
  return retryDelay(options, made)
}

/** @throws {TypeError} An option is not valid. */
export function checkOptions(
  attempts: number, delayMs: number, backoff: Backoff | undefined,
): void {
  if (!Number.isSafeInteger(attempts) || attempts < 1) {
    throw new TypeError(`attempts must be a whole number from 1, not ${String(attempts)}`)
  }
  if (!(delayMs >= 0 && Number.isFinite(delayMs))) {
    throw new TypeError(`delayMs must be 0 or more milliseconds, not ${String(delayMs)}`)
  }
  if (backoff) checkBackoff(backoff)
}
