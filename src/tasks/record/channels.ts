import { channel } from 'node:diagnostics_channel'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import type { TaskRecord } from './record.js'
import { isFinal, type TaskState } from './state.js'

/**
 * What `diagnostics_channel` `longhaul:task` tells of each step of a task, in the process that took
 * it. Times are milliseconds since 1970.
 */
export interface TaskEvent {
  /**
   * `accepted`: a new task is on record and in the queue. `started`: a run has begun; with
   * `attempt` above 1 it is another one. `retried`: a run has ended and there will be another one.
   * `finished`: the task is final.
   */
  readonly event: 'accepted' | 'started' | 'retried' | 'finished'
  readonly taskId: string
  /** The name of the definition. */
  readonly name: string
  readonly owner: string | undefined
  readonly state: TaskState
  /** Runs that have begun. */
  readonly attempt: number
  /** The code of the error of a task that has failed. */
  readonly code: string | undefined
  readonly createdAt: number
  /** When the first run began. */
  readonly startedAt: number | undefined
  readonly finishedAt: number | undefined
}

interface Accepted {
  readonly created: boolean
  readonly task: { readonly id: string, readonly owner: string | undefined, readonly createdAt: number }
}

/** `hasSubscribers` is to be asked first: to make an event costs more than to tell it to nobody. */
export const taskEvents = channel('longhaul:task')

/** Tells of a task that is new here, once it has been taken in. */
export async function tellAccepted<T extends Accepted>(name: string, taken: MaybePromise<T>): Promise<T> {
  const accepted = await taken
  const { created, task: { id: taskId, owner, createdAt } } = accepted
  if (created) {
    taskEvents.publish({
      event: 'accepted', taskId, name, owner, state: 'queued', attempt: 0, code: undefined, createdAt, startedAt: undefined, finishedAt: undefined,
    } satisfies TaskEvent)
  }
  return accepted
}

function tell(event: TaskEvent['event'], record: TaskRecord): void {
  const { id: taskId, name, owner, state, attempt, error, createdAt, startedAt, finishedAt } = record
  taskEvents.publish({ event, taskId, name, owner, state, attempt, code: error?.code, createdAt, startedAt, finishedAt } satisfies TaskEvent)
}

/**
 * Tells of a move, if it is a step of the task: progress is none, nor what becomes of the callback
 * afterwards.
 */
export function tellMove(before: TaskRecord, now: TaskRecord): void {
  if (now.attempt !== before.attempt) tell('started', now)
  else if (now.state === before.state) return
  else if (isFinal(now.state)) tell('finished', now)
  else tell('retried', now)
}
