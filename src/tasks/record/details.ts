import type { StoredTask, TaskDetails } from '../../engine/task.js'
import type { ErrorDetail } from '../../http/errors.js'
import type { CallbackState } from './callback-state.js'
import type { RecordFiles } from './files.js'

/** Progress of the work, in units of the task's own. */
export interface TaskProgress {
  readonly done: number
  readonly total?: number
  readonly message?: string
}

/** Failure of a task, as clients see it. */
export interface TaskFailure {
  readonly code: string
  readonly message: string
  /** Each problem of the input by its JSON pointer, if `run` has listed them. */
  readonly details?: readonly ErrorDetail[]
}

/** Header fields of a stored error by their lower-case names. */
export type ErrorFields = Readonly<Record<string, string>>

/** A failure as it is stored, with its status and header fields for requests that wait. */
export interface Failure extends TaskFailure {
  readonly status: number
  readonly fields?: ErrorFields | undefined
}

/**
 * One run of a task that has ended, as its record and its status resource show it. Times are ISO
 * 8601.
 */
export interface AttemptView {
  /** Number of the run, from 1. It counts over all retries. */
  readonly attempt: number
  readonly startedAt: string
  readonly endedAt: string
  /** Absent if the run completed or was cancelled. */
  readonly error?: RunError
}

/** The reason why a run failed. */
export interface RunError {
  readonly code: string
  readonly message: string
}

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
  /** Name of the external resource that the task owns; see `ExternalResource`. */
  readonly external?: string | undefined
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
  return task.details
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

/** Returns the state of the callback of a task, with the time of its next attempt. */
export function callbackOf({ callbackAt, details }: StoredTask): CallbackState | undefined {
  const { callback } = details as Details
  // The first attempt is due at once, and needs no time.
  const isRepeated = callback?.state === 'pending' && callback.attempts > 0
  return isRepeated && callbackAt !== undefined
    ? { ...callback, nextAttemptAt: callbackAt } : callback
}
