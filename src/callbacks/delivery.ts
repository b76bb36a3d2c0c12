import type { Job } from '../queues/queue.js'
import { CALLBACK_JOB } from '../tasks/record/callbacks.js'
import type { TaskRecord } from '../tasks/record/record.js'
import { messageBody } from './message.js'

/** What one attempt needs; all of it, because a callback outlives its task's record. */
export interface Delivery {
  readonly taskId: string
  readonly owner?: string
  /** Milliseconds since 1970. */
  readonly createdAt: number
  /** The record's `job`: tells the task from another one of its id. */
  readonly job: string
  readonly url: string
  readonly host: string
  readonly body: string
  /**
   * This attempt, counted over all rounds from 1; the first one of this round, and the last that is
   * allowed.
   */
  readonly attempt: number
  readonly first: number
  readonly last: number
  /** How often this attempt was put off because its host had enough to do. */
  readonly postponed: number
}

/** What to tell of a record that is final. */
export function deliveryOf(record: TaskRecord, url: string, first: number, last: number): Delivery {
  const { id, owner, job, createdAt, state, finishedAt = createdAt, result, error } = record
  if (state === 'queued' || state === 'processing') throw new TypeError('Only an ended task has something to tell')
  return {
    taskId: id, ...(owner === undefined ? {} : { owner }), createdAt, job, url, host: new URL(url).host,
    body: messageBody({ id, state, createdAt, finishedAt, result, error }), attempt: first, first, last, postponed: 0,
  }
}

/** The job of one attempt. Its id says which, so it is enqueued once; `~` is in no task's id. */
export function toJob(delivery: Delivery): Job {
  const { taskId, job, attempt, postponed } = delivery
  return { id: `callback~${taskId}~${job}~${String(attempt)}${postponed > 0 ? `~${String(postponed)}` : ''}`, taskId, name: CALLBACK_JOB, input: delivery }
}
