import { newId } from '../../runtime/random-id.js'
import type { Job } from '../../queues/queue.js'
import type { TaskRecord } from './record.js'

/** 48 random bits. */
const LENGTH = 8

/** A name for the job of a task: another one for each incarnation of the task's id. */
export function newJobName(): string {
  return newId().slice(0, LENGTH)
}

/** The id of the job that runs a task. `~` is in no task's id, so no two of them become one. */
export function jobId({ id, job }: Pick<TaskRecord, 'id' | 'job'>): string {
  return `${id}~${job}`
}

/** The task that a job id belongs to. */
export function taskOf(jobId: string): string {
  return jobId.slice(0, jobId.indexOf('~'))
}

/**
 * Whether `job` may run the task: it is the one that its record names, not a leftover of an earlier
 * one under the same id.
 */
export function isJobOf(job: Pick<Job, 'id'>, record: TaskRecord): boolean {
  return job.id === jobId(record)
}
