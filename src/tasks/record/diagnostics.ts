import { channel } from 'node:diagnostics_channel'
import { isFinalStatus, type StoredTask, type TaskStatus } from '../../engine/task.js'
import { detailsOf } from './details.js'
import { publishError } from '../../http/boundary.js'
import { namedOwner } from '../../runtime/names.js'
import { aboutTask, warn } from '../../runtime/warning.js'

/**
 * A message of the `diagnostics_channel` `longhaul:task`: one step of a task, published in the
 * process that took it. Times are milliseconds since 1970.
 */
export interface TaskEvent {
  /**
   * `accepted`: a task was created; if in a transaction, published when the task first runs or is
   * cancelled. `started`: a run has begun. `retried`: another run follows an ended one. `asked`: a run has
   * ended to wait for an answer. `answered`: the answers are there. `finished`: the task is final.
   * `checkpoint_dropped`: the run cannot use the checkpoint of an earlier one.
   */
  readonly event:
    | 'accepted' | 'started' | 'retried' | 'asked' | 'answered' | 'finished' | 'checkpoint_dropped'
  readonly taskId: string
  /** Name of the definition. */
  readonly name: string
  readonly owner: string | undefined
  readonly tenant: string | undefined
  readonly status: TaskStatus
  /** Runs that have begun. */
  readonly attempt: number
  /** Code of the error of a failed task. */
  readonly code: string | undefined
  readonly createdAt: number
  /** Start of the first run. */
  readonly startedAt: number | undefined
  readonly finishedAt: number | undefined
}

/** Check `hasSubscribers` first, because events cost time. */
export const taskChannel = channel('longhaul:task')

export function publishAccepted(task: StoredTask): void {
  publishStep('accepted', {
    ...task, status: 'queued', attempt: 0, startedAt: undefined, finishedAt: undefined, details: {},
  })
}

export function publishMove(before: StoredTask, now: StoredTask): void {
  if (now.status === before.status) return
  if (now.status === 'input_required') publishStep('asked', now)
  else if (isFinalStatus(now.status)) publishStep('finished', now)
  else publishStep(before.status === 'input_required' ? 'answered' : 'retried', now)
}

export function publishStep(event: TaskEvent['event'], task: StoredTask): void {
  const { owner, tenant } = namedOwner(task.owner)
  const { id: taskId, name, status, attempt, createdAt, startedAt, finishedAt } = task
  const { error } = detailsOf(task)
  taskChannel.publish({
    event, taskId, name, owner, tenant, status, attempt, code: error?.code, createdAt, startedAt, finishedAt,
  } satisfies TaskEvent)
}

export type OnTaskError = (
  error: unknown, at: { taskId: string; name: string; attempt: number },
) => unknown

/** Reports to `reportErrorsTo` and `onError`, or else by a process warning. */
export function reportingTo(onError: OnTaskError | undefined): OnTaskError {
  return (error, task) => {
    const isReported = publishError({ error, task })
    if (onError !== undefined) return onError(error, task)
    if (!isReported) warn(error, aboutTask(task))
    return undefined
  }
}
