import type { Job } from '../queues/queue.js'
import type { Held } from './ledger.js'

/** The job that runs a task. As long as it stays in this process it carries the record, which JSON knows nothing of. */
export class TaskJob implements Job {
  readonly id: string
  readonly taskId: string
  readonly context?: unknown
  #held: Held | undefined

  constructor(id: string, readonly name: string, readonly input: unknown, context: unknown) {
    this.id = id
    this.taskId = id
    if (context !== undefined) this.context = context
  }

  /** Gives the record along: a run in this process then has no need to read it. */
  carry(held: Held): void {
    this.#held = held
  }

  /** The record that this very job carries, once; it may be out of date. Another object has none. */
  static unload(job: Job): Held | undefined {
    if (!(#held in job)) return undefined
    const held = job.#held
    job.#held = undefined
    return held
  }
}
