import type { Queue } from '../../queues/queue.js'
import { poolOf } from '../../queues/queue-pools.js'
import { snapshotOf } from '../record/codec.js'
import { TaskJob } from '../record/job.js'
import type { Ledger, VersionedRecord } from '../record/ledger.js'
import type { TaskRecord } from '../record/record.js'
import type { StoreIdentity } from '../record/store-identity.js'
import { publishAccepted, taskChannel } from '../record/task-channel.js'
import { loadWork } from '../record/work.js'
import { notEnqueued } from './not-enqueued.js'
import { remainingDelayMs } from './start-time.js'

/** Parts of the intake that enqueue a task whose transaction has committed. */
export interface EnqueueSettings {
  readonly ledger: Ledger
  readonly queue: Queue
  readonly identity: StoreIdentity
}

/**
 * Returns whether a record is that of a task which was accepted in a transaction, and whose first
 * run has not begun. Its job may not be in the queue yet.
 */
export function isEnqueuedLater({ state, enqueuedLater }: TaskRecord): boolean {
  return enqueuedLater === true && state === 'queued'
}

/**
 * Enqueues the job of a task whose transaction has committed. May be called several times, and in
 * several processes at once: the job has the name that the record gives it, and the queue takes
 * each id once. A job that is enqueued again after its end finds that the record has moved on.
 *
 * @throws {HttpError} 503 `queue_full` or `shutting_down`, and what the store and the queue reject with
 */
export async function enqueueCommitted(
  { ledger, queue, identity }: EnqueueSettings, found: VersionedRecord,
): Promise<void> {
  if (!isEnqueuedLater(found.record)) return
  const work = await loadWork(ledger.store, found.record)
  if (work === undefined) return
  const owned = queue.durable ? found : await adopt(ledger, found)
  if (owned === undefined) return
  const { record } = owned
  const { id: taskId, job, name, pool, priority = 0 } = record
  const { input, context, attempts, backoff } = work
  const delayMs = await remainingDelayMs(queue, record)
  const store = queue.durable ? await identity.read() : undefined
  const taskJob = new TaskJob({ taskId, job, name, input, context, store }, owned)
  const outcome = await poolOf(queue, pool).enqueue(taskJob, {
    delayMs, attempts, backoff, priority,
  })
  if (outcome !== 'accepted') throw notEnqueued(outcome)
  if (taskChannel.hasSubscribers) publishAccepted(name, snapshotOf(record))
}

/**
 * Makes this process the holder of a task, if its queue is in memory: only the holder runs it.
 * Returns `undefined` if another process was faster.
 */
async function adopt(ledger: Ledger, found: VersionedRecord): Promise<VersionedRecord | undefined> {
  const { holder } = ledger
  // The store belongs to this process alone, so no other one can run the task.
  if (holder === undefined || found.record.holder === holder) return found
  const { job } = found.record
  const moved = await ledger.move(found, (record) => (
    record.job === job && record.holder === undefined && isEnqueuedLater(record)
      ? { holder } : undefined
  ))
  return moved?.moved ? moved : undefined
}
