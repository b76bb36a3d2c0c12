import type { Job } from '../../queues/queue.js'
import { decodeNew, encodeHead } from './codec.js'
import { jobId } from './job-id.js'
import { taskKey, type Held } from './ledger.js'

/** What a job is made of. */
export interface TaskJobOptions extends Omit<Job, 'id' | 'record'> {
  /** The name of the job within the task; see `TaskRecord`. */
  readonly job: string
}

/**
 * The job that runs a task, and carries its record as it was when the task was taken in: its first
 * run has no need to read it. As long as the job stays in this process the record is an object,
 * which JSON knows nothing of.
 */
export class TaskJob implements Job {
  readonly id: string
  readonly taskId: string
  readonly name: string
  readonly input: unknown
  readonly context?: unknown
  readonly store?: string
  #held: Held | undefined

  constructor({ taskId, job, name, input, context, store }: TaskJobOptions) {
    this.id = jobId({ id: taskId, job })
    this.taskId = taskId
    this.name = name
    this.input = input
    if (context !== undefined) this.context = context
    if (store !== undefined) this.store = store
  }

  /** Gives the record along. */
  carry(held: Held): void {
    this.#held = held
  }

  /** The record as text, for a queue that leaves this process. */
  get record(): string | undefined {
    return this.#held && `${this.#held.revision} ${encodeHead(this.#held.record)}`
  }

  /** The record that a job carries, once; it may be out of date. */
  static unload(job: Job): Held | undefined {
    if (!(#held in job)) return job.record === undefined ? undefined : toHeld(job, job.record)
    const held = job.#held
    job.#held = undefined
    return held
  }
}

function toHeld({ taskId, name }: Job, text: string): Held {
  const end = text.indexOf(' ')
  return { record: decodeNew(taskId, name, text.slice(end + 1)), revision: text.slice(0, end), key: taskKey(taskId) }
}
