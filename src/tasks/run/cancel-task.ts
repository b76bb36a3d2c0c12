import { poolOf } from '../../queues/queue-pools.js'
import type { Queue } from '../../queues/queue.js'
import { snapshotOf, type TaskSnapshot } from '../record/codec.js'
import { isTaskId, jobId } from '../record/ids.js'
import type { Ledger } from '../record/ledger.js'
import type { IsVisible } from '../record/owner.js'
import type { TaskRecord } from '../record/record.js'
import { isFinal } from '../record/state.js'
import type { Executor } from './execute.js'
import type { Precondition } from './forget-task.js'

/** A cancelled task, or one that was final before. */
export interface Cancelled {
  readonly task: TaskSnapshot
  readonly moved: boolean
}

/** Parts of the service that `cancelTask` uses. */
export interface CancelSettings {
  readonly ledger: Ledger
  readonly executor: Executor
  readonly queue: Queue
  /** Called for the record that is now final. */
  readonly onFinal: (record: TaskRecord) => Promise<void>
}

/**
 * Cancels a task, whatever process runs it. Leaves a final one as it is. Returns `undefined` if the
 * requester has no such task.
 *
 * @param check - called for the record that is about to be cancelled; may throw
 */
export async function cancelTask(
  { ledger, executor, queue, onFinal }: CancelSettings, id: string, isVisible: IsVisible,
  check?: Precondition,
): Promise<Cancelled | undefined> {
  const found = isTaskId(id) ? await ledger.load(id) : undefined
  if (!found || !isVisible(found.record)) return undefined
  const finishedAt = Date.now()
  const expiresAt = finishedAt + executor.retentionMs(found.record.name)
  const cancelled = { state: 'cancelled', finishedAt, expiresAt } as const
  const now = await ledger.move(found, (record) => {
    if (isFinal(record.state) || !isVisible(record)) return undefined
    check?.(record)
    return cancelled
  })
  // The id may have been deleted and used again meanwhile.
  if (!now || !isVisible(now.record)) return undefined
  const { record, moved } = now
  if (moved) {
    executor.abort(jobId(record))
    // Before the job is removed: if this process dies here, the job finds the final record and does
    // the cleanup.
    await onFinal(record)
    await removeJob(queue, record)
  }
  return { task: snapshotOf(record), moved }
}

/** Removes the job of a cancelled task. Never rejects, because a job that is left runs nothing. */
async function removeJob(queue: Queue, record: TaskRecord): Promise<void> {
  try {
    // A pool that is first used while this process closes cannot be opened.
    await poolOf(queue, record.pool).remove(jobId(record))
  } catch {
    // The job finds the final record.
  }
}
