import type { Backoff, Job } from '../../queues/queue.js'
import type { Store } from '../../stores/store.js'
import { jobId, taskKey } from './ids.js'
import type { TaskRecord } from './record.js'

/**
 * Everything that a job needs beside its record. It is kept until the task is completed, so that a
 * job which the queue has lost can be enqueued again, and a failed task can be retried.
 */
export interface Work {
  readonly input: unknown
  readonly context?: unknown
  readonly attempts: number
  readonly backoff: Backoff
}

/**
 * Maximum length of the work in a record, as JSON. A longer text would slow down each poll, so it
 * gets a store entry of its own.
 */
const MAX_WORK_LENGTH = 16_384

/** The place of the work: the record itself, or a store entry that the record names. */
export type PlacedWork = Pick<TaskRecord, 'work' | 'largeWork'>

/** Returns the work as JSON text. */
export function encodeWork({ input, context, attempts, backoff }: Work): string {
  return JSON.stringify({ input, context, attempts, backoff } satisfies Work)
}

/** Returns whether a work is too long for a record. */
export function isLarge(work: string): boolean {
  return work.length > MAX_WORK_LENGTH
}

/** Returns the place of a work in a new record. */
export function placeWork(work: string, task: Pick<TaskRecord, 'id' | 'job'>): PlacedWork {
  return isLarge(work) ? { largeWork: `work:${jobId(task)}` } : { work }
}

/**
 * Returns the work of a job, to write it into the record that the job carries.
 *
 * @param settings - the definition of the task
 */
export function workOfJob(
  { input, context }: Job, { attempts, backoff }: Pick<Work, 'attempts' | 'backoff'>,
): string {
  return encodeWork({ input, context, attempts, backoff })
}

/**
 * Writes a work that is too long for its record. Its entry is evicted with the record at the
 * earliest. Call it before the record is written.
 */
export async function storeLargeWork(
  store: Store, key: string, work: string,
  { taskId, ttlMs }: { readonly taskId: string, readonly ttlMs: number },
): Promise<void> {
  await store.create(key, work, { ttlMs, evictable: { with: taskKey(taskId) } })
}

/** Returns the work of a task; `undefined` if it is no longer stored. */
export async function loadWork(
  store: Store, { work, largeWork }: PlacedWork,
): Promise<Work | undefined> {
  const text = largeWork === undefined ? work : (await store.get(largeWork))?.value
  return text === undefined ? undefined : JSON.parse(text) as Work
}

/**
 * Sets the remaining lifetime of the entry of a large work, if the task has one.
 *
 * @param kept.owner - party that the entry counts for, once the task is final
 */
export async function renewLargeWork(
  store: Store, { id, largeWork }: Pick<TaskRecord, 'id' | 'largeWork'>,
  { ttlMs, owner }: { readonly ttlMs: number, readonly owner?: string | undefined },
): Promise<void> {
  if (largeWork === undefined) return
  const entry = await store.get(largeWork)
  if (!entry) return
  // Only a deletion can conflict, because the entry is written once.
  await store.replace(largeWork, entry.value, entry.revision, {
    ttlMs, evictable: { with: taskKey(id) }, owner,
  })
}
