import type { Job } from '../../queues/queue.js'
import { newId } from '../../runtime/random-id.js'
import { TASK_KEY } from '../../stores/task-index.js'
import type { TaskRecord } from './record.js'

/** 48 random bits as base64url. */
const JOB_NAME_LENGTH = 8

/** Returns whether `id` can be a task's id. Such a text stands in paths and keys unescaped. */
export function isTaskId(id: string): boolean {
  return id.length <= 128 && /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/.test(id)
}

/** Returns the store key of a task's record. Watchers of a task watch this key. */
export function taskKey(id: string): string {
  return TASK_KEY + id
}

/** Returns a new name for the job of a task. Each incarnation of a task's id gets another name. */
export function newJobName(): string {
  return newId().slice(0, JOB_NAME_LENGTH)
}

/** Returns the id of the job that runs a task. No task's id has a `~`, so job ids are unique. */
export function jobId({ id, job }: Pick<TaskRecord, 'id' | 'job'>): string {
  return `${id}~${job}`
}

/** Returns the id of the task that a job belongs to. */
export function taskOf(jobId: string): string {
  return jobId.slice(0, jobId.indexOf('~'))
}

/**
 * Returns whether `job` may run the task: it is the job that the record names, not a leftover of an
 * earlier task under the same id.
 */
export function isJobOf(job: Pick<Job, 'id'>, record: TaskRecord): boolean {
  return job.id === jobId(record)
}
