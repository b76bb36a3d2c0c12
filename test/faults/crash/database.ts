import type { BullMQQueue } from 'longhaul/bullmq'
import type { Queue } from 'longhaul/queues'
import type { Store, TaskIndex } from 'longhaul/stores'

/** The parts of a process, on one database. */
export interface CrashEngine {
  readonly store: Store
  readonly index?: TaskIndex | undefined
  readonly queue: Queue
  readonly callbackQueue: Queue
  /** Notes a run of a task. */
  readonly count: (taskId: string) => Promise<unknown>
}

/** A database as the test sees it. */
export interface CrashDatabase {
  readonly url: string
  /** A queue on the same jobs. */
  readonly board: Pick<BullMQQueue, 'bull'>
  /** How often the work of a task was begun. */
  runs(taskId: string): Promise<number>
  /** Ids of all tasks on record. */
  taskIds(): Promise<readonly string[]>
}
