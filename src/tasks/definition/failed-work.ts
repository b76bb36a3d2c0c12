import type { TaskFailure } from '../../wire/task.js'

/** A thrown error, as it is stored. Its own properties are not stored, because they may hold secrets. */
export interface StoredError {
  /** `name` of the error. For a thrown value that is no error, the type of the value. */
  readonly name: string
  readonly message: string
  /** `code` of the error, such as `ECONNREFUSED` or the state of a database. */
  readonly code?: string
  readonly stack?: string
  /** `cause` of the error, up to four in a row. */
  readonly cause?: StoredError
}

/** Input of a task that `onFailed` makes: the task that has failed. */
export interface FailedWork {
  /** Id of the failed task. */
  readonly taskId: string
  /** Name of its definition. */
  readonly task: string
  /** Its owner, if it has one. */
  readonly owner?: string
  /** Its tenant, if it has one. */
  readonly tenant?: string
  /** Number of its last run. */
  readonly attempt: number
  /** The error that clients see. */
  readonly error: TaskFailure
  /** The real error of the last run. Absent with `storeErrors: false`. */
  readonly cause?: StoredError
  /** Its whole input, as it was submitted. Absent if there was none. */
  readonly input?: unknown
  /** The context of its submission, if there is one. */
  readonly context?: unknown
}

/** A definition whose input is `FailedWork`. */
export interface FailedWorkTask {
  readonly name: string
  /** Does the work. Its `context` is `undefined`. */
  readonly run: (input: FailedWork, context: never) => unknown
}
