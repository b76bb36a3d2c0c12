import type { Job } from '../../queues/queue.js'
import { decodeNew, encodeHead } from './codec.js'
import { jobId } from './ids.js'
import type { VersionedRecord } from './ledger.js'
import { workOfJob, type Work } from './work.js'

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

  /**
   * The record as text, for a queue that leaves this process. `undefined` if the task has run
   * before, because its head does not say what came of those runs.
   */
  get record(): string | undefined {
    if (!this.#carried || this.#carried.record.attempt > 0) return undefined
    return `${this.#carried.revision} ${encodeHead(this.#carried.record)}`
  }

  /**
   * Returns the record that a job carries, once. It may be out of date. A record that is to be
   * written needs the settings of the definition.
   */
  static takeRecord(
    job: Job, definition?: Pick<Work, 'attempts' | 'backoff'>,
  ): VersionedRecord | undefined {
    if (!(#carried in job)) {
      return job.record === undefined ? undefined : parseRecord(job, job.record, definition)
    }
    const record = job.#carried
    job.#carried = undefined
    return record
  }
}

function parseRecord(
  job: Job, text: string, definition: Pick<Work, 'attempts' | 'backoff'> | undefined,
): VersionedRecord {
  const end = text.indexOf(' ')
  const revision = text.slice(0, end)
  const record = decodeNew(job.taskId, job.name, text.slice(end + 1))
  if (!definition || record.largeWork !== undefined) return { record, revision }
  return { record: { ...record, work: workOfJob(job, definition) }, revision }
}
