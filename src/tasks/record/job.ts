import type { Backoff, Job } from '../../queues/queue.js'
import { decodeNew, encodeHead } from './codec.js'
import { jobId } from './ids.js'
import type { VersionedRecord } from './ledger.js'

/** Options of a `TaskJob`. */
export interface TaskJobOptions extends Omit<Job, 'id' | 'record'> {
  /** The name of the job within the task; see `TaskRecord`. */
  readonly job: string
}

/**
 * The job that runs a task. It carries the record as it was when the task was accepted, so its
 * first run does not read the record: that saves a round trip to the store. While the job stays in
 * this process the record is an object that JSON does not include.
 */
export class TaskJob implements Job {
  readonly id: string
  readonly taskId: string
  readonly name: string
  readonly input: unknown
  readonly context?: unknown
  readonly store?: string
  #carried: VersionedRecord | undefined

  constructor(
    { taskId, job, name, input, context, store }: TaskJobOptions, record: VersionedRecord,
  ) {
    this.id = jobId({ id: taskId, job })
    this.taskId = taskId
    this.name = name
    this.input = input
    if (context !== undefined) this.context = context
    if (store !== undefined) this.store = store
    this.#carried = record
  }

  /** The record as text, for a queue that leaves this process. */
  get record(): string | undefined {
    return this.#carried && `${this.#carried.revision} ${encodeHead(this.#carried.record)}`
  }

  /** Returns the record that a job carries, once. It may be out of date. */
  static takeRecord(job: Job): VersionedRecord | undefined {
    if (!(#carried in job)) {
      return job.record === undefined ? undefined : parseRecord(job, job.record)
    }
    const record = job.#carried
    job.#carried = undefined
    return record
  }
}

function parseRecord({ taskId, name }: Job, text: string): VersionedRecord {
  const end = text.indexOf(' ')
  return { record: decodeNew(taskId, name, text.slice(end + 1)), revision: text.slice(0, end) }
}

/**
 * Everything that a job needs beside its record. It is part of the record until the first run
 * begins, so that a job which the queue has lost can be enqueued again.
 */
export interface Work {
  readonly input: unknown
  readonly context?: unknown
  readonly attempts: number
  readonly backoff: Backoff
}

/**
 * Maximum length of the work as JSON. A longer text would slow down each poll of a waiting task.
 */
const MAX_WORK_LENGTH = 16_384

/** Returns the work as text; `undefined` if it is too long, so that only its job has it. */
export function encodeWork(work: Work): string | undefined {
  const text = encodeWholeWork(work)
  return text.length > MAX_WORK_LENGTH ? undefined : text
}

/** Returns the work as text, whatever its length. */
export function encodeWholeWork(work: Work): string {
  return JSON.stringify(work)
}

/** Reads the text that `encodeWork` or `encodeWholeWork` wrote. */
export function decodeWork(text: string): Work {
  return JSON.parse(text) as Work
}
