import type { TaskEngine } from '../../../src/engine/engine.js'
import type { Store } from 'longhaul/stores'

/** The parts of a process, on one database. */
export interface CrashEngine {
  readonly engine: TaskEngine
  readonly store: Store
  /** Notes a run of a task. */
  readonly count: (taskId: string) => Promise<unknown>
}

/** A database as the test sees it. */
export interface CrashDatabase {
  readonly url: string
  /** An engine on the same tasks, which runs none. */
  readonly engine: TaskEngine
  /** Returns the number of times that the work of a task was begun. */
  runs(taskId: string): Promise<number>
}
