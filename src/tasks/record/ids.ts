import { newId } from '../../runtime/random-id.js'

/** 48 random bits as base64url. */
const JOB_NAME_LENGTH = 8

/** Returns whether `id` can be a task's id. Such a text stands in paths and keys unescaped. */
export function isTaskId(id: string): boolean {
  return id.length <= 128 && /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/.test(id)
}

/** Returns a new name for the job of a task. Each incarnation of a task's id gets another name. */
export function newJobName(): string {
  return newId().slice(0, JOB_NAME_LENGTH)
}
