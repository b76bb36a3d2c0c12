import { LinkedList } from './linked-list.js'
import type { QueuedJob } from './queued-job.js'

/**
 * Ready jobs in the order in which they start: by priority, then in the order in which they became
 * ready. Adds and removes in constant time, if there are few priorities.
 */
export class ReadyJobs {
  /** Lists by ascending priority. The first one is that of priority 0, also if it is empty. */
  readonly #lists = [new ReadyList(0)]

  /** Number of jobs. */
  size = 0

  /** The job that starts next. */
  get first(): QueuedJob | undefined {
    for (const { first } of this.#lists) if (first !== undefined) return first
    return undefined
  }

  /** Time at which the job became ready that has waited longest. */
  get oldestReadyAt(): number | undefined {
    if (this.size === 0) return undefined
    return Math.min(...this.#lists.map(({ first }) => first?.readyAt ?? Infinity))
  }

  push(item: QueuedJob): void {
    this.size++
    this.#listOf(item.priority).push(item)
  }

  remove(item: QueuedJob): void {
    this.size--
    const list = this.#listOf(item.priority)
    list.remove(item)
    if (list.first === undefined && list.priority > 0) this.#lists.splice(this.#lists.indexOf(list), 1)
  }

  #listOf(priority: number): ReadyList {
    const at = this.#lists.findIndex((list) => list.priority >= priority)
    const found = this.#lists[at]
    if (found?.priority === priority) return found
    const list = new ReadyList(priority)
    this.#lists.splice(at < 0 ? this.#lists.length : at, 0, list)
    return list
  }
}

/** Ready jobs of one priority. */
class ReadyList extends LinkedList<QueuedJob> {
  constructor(readonly priority: number) {
    super()
  }
}
