import type { StoredTask, TaskDetails } from '../../engine/task.js'
import type { CallbackState } from '../record/callback-state.js'
import type { RecordFiles } from '../record/files.js'
import type { ErrorFields, TaskFailure, TaskProgress, TaskRecord } from '../record/record.js'
import type { AttemptView } from '../record/run-history.js'
import { snapshotOf, type TaskSnapshot } from '../record/snapshot.js'
import type { Failure } from '../run/failure.js'

/** Properties of a stored task that the engine does not read. All of them survive JSON. */
export interface Details extends RecordFiles {
  /** New for each retry, so that the message of the next callback has another id. Default: none. */
  readonly round?: string | undefined
  /** Digest of the request that has the idempotency key. */
  readonly fingerprint?: string | undefined
  /** `true` if the first request with the key asked for a synchronous response. */
  readonly isDirect?: true | undefined
  /** `true` if the task was submitted in a transaction, so that the first run says it is accepted. */
  readonly isTransactional?: true | undefined
  /** The part of the request's context that the run gets. */
  readonly context?: unknown
  /** Name of the external resource that the task owns; see `Kept`. */
  readonly keeps?: string | undefined
  /** Attempts that have failed since the submission or the last retry. */
  readonly failures?: number | undefined
  /** Time since which no process could run the task, in milliseconds since 1970. */
  readonly returnedSince?: number | undefined
  /** Idempotency key of the last retry, in its scope. */
  readonly retryKey?: string | undefined
  /** The ended runs, if there was more than one. */
  readonly attempts?: readonly AttemptView[] | undefined
  readonly progress?: TaskProgress | undefined
  readonly error?: TaskFailure | undefined
  readonly errorStatus?: number | undefined
  readonly errorFields?: ErrorFields | undefined
  readonly callback?: CallbackDetails | undefined
}

/** State of a callback. The engine keeps when the next attempt is due. */
export interface CallbackDetails extends Omit<CallbackState, 'nextAttemptAt'> {
  /** Number of the first attempt of this round. Default 1. */
  readonly first?: number | undefined
  /** Number of times that the next attempt was postponed because a limit was reached. */
  readonly postponed?: number | undefined
}

/** Returns the details of a task. Only the core writes them, so they have this type. */
export function detailsOf(task: StoredTask): Details {
  return task.details as unknown as Details
}

/** Returns details as the engine takes them. */
export function stored(details: Details): TaskDetails {
  return details as unknown as TaskDetails
}

/** Returns details with the properties of a failure, or without those of an earlier one. */
export function withFailure(details: Details, failure: Failure | undefined): Details {
  if (failure === undefined) {
    return details.error === undefined
      ? details : { ...details, error: undefined, errorStatus: undefined, errorFields: undefined }
  }
  const { status, fields, ...error } = failure
  return { ...details, error, errorStatus: status, errorFields: fields }
}

/** Returns a stored task as one flat object: what its views are made of. */
export function recordOf(task: StoredTask): TaskRecord {
  const { id, name, owner, status, run, attempt, version, createdAt, pool, priority } = task
  const { startAt, startedAt, runStartedAt, finishedAt, expiresAt, result } = task
  const details = detailsOf(task)
  const { progress, error, errorStatus, errorFields, keeps, attempts, files, blobs, fileRuns } = details
  return {
    id, name, owner, state: status, attempt, version, createdAt, startAt, pool, priority, startedAt,
    runStartedAt: run > 1 ? runStartedAt : undefined,
    finishedAt, expiresAt, progress, result, error, errorStatus, errorFields, keeps, attempts,
    files, blobs, fileRuns, callback: callbackOf(task, details),
  }
}

/** Returns a task as the HTTP layer reads it. */
export function toSnapshot(task: StoredTask): TaskSnapshot {
  return snapshotOf(recordOf(task))
}

function callbackOf({ callbackAt }: StoredTask, { callback }: Details): CallbackState | undefined {
  // The first attempt is due at once, and needs no time.
  const isRepeated = callback?.state === 'pending' && callback.attempts > 0
  return isRepeated && callbackAt !== undefined
    ? { ...callback, nextAttemptAt: callbackAt } : callback
}
