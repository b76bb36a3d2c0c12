import type { Job } from '../queues/queue.js'
import { CALLBACK_JOB } from '../tasks/record/callbacks.js'
import type { TaskRecord } from '../tasks/record/record.js'
import { messageBody } from './message.js'

/**
 * Input of one attempt. Complete in itself, because a callback can outlive the record of its task.
 */
export interface Delivery {
  readonly taskId: string
  readonly owner?: string
  /** Milliseconds since 1970. */
  readonly createdAt: number
  /** The record's `job`. Distinguishes this task from an earlier one with the same id. */
  readonly job: string
  readonly url: string
  readonly host: string
  readonly body: string
  /**
   * Number of this attempt, from 1, counted over all rounds. `first` and `last` bound the current
   * round.
   */
  readonly attempt: number
  readonly first: number
  readonly last: number
  /** Number of times that this attempt was postponed because a limit was reached. */
  readonly postponed: number
}

/** Returns the delivery for the record of an ended task. */
export function deliveryOf(record: TaskRecord, url: string, first: number, last: number): Delivery {
  const { id, owner, job, createdAt, state, finishedAt = createdAt, result, error } = record
  if (state === 'queued' || state === 'processing') {
    throw new TypeError('Only an ended task has a callback to send')
  }
  return {
    taskId: id,
    ...(owner === undefined ? {} : { owner }),
    createdAt,
    job,
    url,
    host: new URL(url).host,
    body: messageBody({ id, state, finishedAt, result, error }),
    attempt: first,
    first,
    last,
    postponed: 0,
  }
}

/**
 * Returns the job of one attempt. The id contains the attempt, so that it is enqueued once. No task
 * id contains `~`.
 */
export function toJob(delivery: Delivery): Job {
  const { taskId, job, attempt, postponed } = delivery
  return {
    id: `callback~${taskId}~${job}~${String(attempt)}${
      postponed > 0 ? `~${String(postponed)}` : ''
    }`,
    taskId,
    name: CALLBACK_JOB,
    input: delivery,
  }
}
