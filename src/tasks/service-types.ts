/** The state of one process. */
export interface TasksHealth {
  /** True if the engine answers and `close` was not called. */
  readonly ok: boolean
  /** Active runs, those of direct answers included. */
  readonly running: number
  /** Requests that wait for a task. */
  readonly waiting: number
}
