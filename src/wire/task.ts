import type { ErrorDetail } from './errors.js'

/** Progress of a task, in units that the task chooses. */
export interface TaskProgress {
  readonly done: number
  readonly total?: number
  readonly message?: string
  /** The thing that is counted: `bytes`, `records` or `items` in tasks of this package. */
  readonly unit?: string
}

/** The error of a failed task. */
export interface TaskFailure {
  /** A stable code. */
  readonly code: string
  readonly message: string
  /** Each problem of the input by its JSON pointer, if the task has listed them. */
  readonly details?: readonly ErrorDetail[]
}

/** Reason why a request of a callback failed. */
export type CallbackFault =
  'forbidden' | 'unreachable' | 'timeout' | 'status' | 'gone' | 'interrupted'

/** Delivery of the callback of a task. Times are ISO 8601. */
export interface TaskCallback {
  /**
   * `waiting`: the task has not ended. `pending`: the callback is neither delivered nor given up.
   */
  readonly state: 'waiting' | 'pending' | 'delivered' | 'failed'
  /** Requests made so far. */
  readonly attempts: number
  /** HTTP status of the last response. */
  readonly lastStatus?: number
  /** Reason why the last request failed. */
  readonly fault?: CallbackFault
  readonly nextAttemptAt?: string
  readonly deliveredAt?: string
}

/** A file that a task has written. */
export interface TaskFile {
  readonly name: string
  /** Size in bytes. */
  readonly size: number
  /** Media type. */
  readonly type: string
  /** SHA-256 of the bytes, written as in `Repr-Digest` (RFC 9530): `sha-256=:…:`. */
  readonly digest: string
}

/** A file of a task, with its place. */
export interface ServedFile extends TaskFile {
  /** Path or URL that serves the file. */
  readonly url: string
}

/** One run of a task that has ended. Times are ISO 8601. */
export interface PastAttempt {
  /** Number of the run, from 1, over all retries. */
  readonly attempt: number
  readonly startedAt: string
  readonly endedAt: string
  /** Absent if the run completed. `task_cancelled` if the task was cancelled during the run. */
  readonly error?: Pick<TaskFailure, 'code' | 'message'>
}

/** A question that a task asks. Times are ISO 8601. */
export interface TaskInput {
  readonly message: string
  /** JSON Schema of the answer. Absent if the library of the schema cannot return it. */
  readonly schema?: Readonly<Record<string, unknown>>
  readonly askedAt: string
  /** Time at which the task no longer waits for the answer. */
  readonly expiresAt: string
}

/** The body of the status resource of a task. Times are ISO 8601. */
export interface TaskBody<File = ServedFile> {
  readonly taskId: string
  readonly status: 'processing' | 'input_required' | 'completed' | 'failed' | 'cancelled'
  readonly message: string
  /** Name of the definition. */
  readonly task: string
  /** Number of the latest run, from 1. When it grows, the progress may fall. */
  readonly attempt?: number
  /** The questions without an answer by their keys, if the task waits for answers. */
  readonly inputs?: Readonly<Record<string, TaskInput>>
  readonly progress?: TaskProgress
  readonly result?: unknown
  /** The files that the task has written. Absent if there is none. */
  readonly files?: readonly File[]
  readonly error?: TaskFailure
  /** The last ten runs that have ended, the oldest first, if there is more than one run. */
  readonly attempts?: readonly PastAttempt[]
  readonly callback?: TaskCallback
  readonly createdAt: string
  readonly startAt?: string
  readonly startedAt?: string
  readonly finishedAt?: string
}

/** The body of a callback: a task is final, or asks. */
export interface CallbackBody<R = unknown> {
  readonly type: `task.${CallbackBody['data']['status']}`
  /** End of the task, or time of its newest question, as ISO 8601. */
  readonly timestamp: string
  readonly data: {
    readonly taskId: string
    readonly status: 'completed' | 'failed' | 'cancelled' | 'input_required'
    readonly result?: R
    /** The questions without an answer by their keys, of a task that asks. */
    readonly inputs?: Readonly<Record<string, TaskInput>>
    readonly error?: TaskFailure
  }
}
