import type { MaybePromise } from '../../runtime/maybe-promise.js'
import type { Store } from '../../stores/store.js'

/** Times at which tasks of a definition are submitted. Made by `cron()` of `longhaul/cron`. */
export interface Schedule<In = unknown> {
  /**
   * Begins the schedule in a process that runs tasks. Returns a function that ends the schedule in
   * this process.
   * @internal
   */
  readonly begin: (host: ScheduleHost) => () => Promise<void>
  /** For the compiler only: never set. */
  readonly '~input'?: In
}

/** The process of a schedule. */
export interface ScheduleHost {
  /** Name of the definition. */
  readonly name: string
  readonly store: Store
  /** Returns the time of the engine's clock, in milliseconds since 1970. */
  readonly now: () => MaybePromise<number>
  /** Submits a task, unless there is one with this id. */
  readonly submit: (id: string, input: unknown) => Promise<unknown>
  readonly onError: (error: unknown) => void
}
