import type { TaskStatus } from '../../engine/task.js'
import { toTaskText, type ErrorFields, type TaskRecord } from './record.js'

/** A task for readers, with JSON text for clients. */
export interface TaskSnapshot {
  readonly id: string
  readonly state: TaskStatus
  readonly version: number
  /** Number of the latest run; 0 before the first one. */
  readonly attempt: number
  readonly createdAt: number
  /** Time before which its first run does not begin, if it was submitted for later. */
  readonly startAt: number | undefined
  readonly expiresAt: number
  readonly owner: string | undefined
  readonly errorStatus: number | undefined
  readonly errorFields: ErrorFields | undefined
  /** Names of the blobs of its result files, or of those that a later run may take over. */
  readonly blobs?: readonly string[] | undefined
  /** The task as clients see it, as JSON text, without the URLs of its files. */
  readonly text: string
}

/** Returns a task as the HTTP layer reads it. */
export function snapshotOf(record: TaskRecord): TaskSnapshot {
  const { id, state, version, attempt, createdAt, startAt, expiresAt } = record
  const { owner, errorStatus, errorFields, blobs } = record
  return {
    id, state, version, attempt, createdAt, startAt, expiresAt, owner, errorStatus, errorFields,
    blobs, text: toTaskText(record),
  }
}
