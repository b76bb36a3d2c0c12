import { channel } from 'node:diagnostics_channel'
import { isFinalStatus, type StoredTask, type TaskStatus } from '../../engine/task.js'
import { detailsOf } from './details.js'
import { publishError } from '../../http/boundary.js'
import { aboutTask, warn } from '../../runtime/warning.js'

/**
 * A message of the `diagnostics_channel` `longhaul:task`: one step of a task, published in the
 * process that took it. Times are milliseconds since 1970.
 */
export interface TaskEvent {
  /**
   * `accepted`: a new task was created. For a task that was submitted in a transaction, the process
   * that runs or cancels it first publishes this. `started`: a run has begun; with `attempt` above 1
   * it is another one. `retried`: another run follows an ended one.
   * `finished`: the task is final. `checkpoint_dropped`: the run that has begun cannot use the
   * checkpoint of an earlier run, so the task starts over.
   */
  readonly event: 'accepted' | 'started' | 'retried' | 'finished' | 'checkpoint_dropped'
  readonly taskId: string
  /** The name of the definition. */
  readonly name: string
  readonly owner: string | undefined
  readonly state: TaskStatus
  /** Runs that have begun. */
  readonly attempt: number
  /** The code of the error of a task that has failed. */
  readonly code: string | undefined
  readonly createdAt: number
  /** Start of the first run, in milliseconds since 1970. */
  readonly startedAt: number | undefined
  readonly finishedAt: number | undefined
}

/** Check `hasSubscribers` first, because creating an event costs more than publishing it. */
export const taskChannel = channel('longhaul:task')

export function publishAccepted(task: StoredTask): void {
  publishStep('accepted', {
    ...task, status: 'queued', attempt: 0, startedAt: undefined, finishedAt: undefined, details: {},
  })
}

/** Publishes a change of a task if it is a step of it. Progress and callbacks are not. */
export function publishMove(before: StoredTask, now: StoredTask): void {
  if (now.status === before.status) return
  publishStep(isFinalStatus(now.status) ? 'finished' : 'retried', now)
}

export function publishStep(event: TaskEvent['event'], task: StoredTask): void {
  const { id: taskId, name, owner, status: state, attempt, createdAt, startedAt, finishedAt } = task
  const { error } = detailsOf(task)
  taskChannel.publish({
    event, taskId, name, owner, state, attempt, code: error?.code, createdAt, startedAt, finishedAt,
  } satisfies TaskEvent)
}

export type OnTaskError = (
  error: unknown, at: { taskId: string; name: string; attempt: number },
) => unknown

/** Reports to `reportErrorsTo` and to `onError`, or else by a process warning. */
export function reportingTo(onError: OnTaskError | undefined): OnTaskError {
  return (error, task) => {
    const isReported = publishError({ error, task })
    if (onError !== undefined) return onError(error, task)
    if (!isReported) warn(error, aboutTask(task))
    return undefined
  }
}
