import type { TaskSnapshot } from './record/codec.js'

/** A cancelled task, or one that was final before. */
export interface Cancelled {
  readonly task: TaskSnapshot
  readonly moved: boolean
}

/** The state of one process. */
export interface TasksHealth {
  /** The store answers and `close` was not called. */
  readonly ok: boolean
  /** Active runs, those of direct answers included. */
  readonly running: number
  /** Requests that wait for a task. */
  readonly waiting: number
}
