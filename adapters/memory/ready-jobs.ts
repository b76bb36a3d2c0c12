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

/** Linked list of ready jobs of one priority. Adds at the end and removes anywhere. */
class ReadyList {
  #first: QueuedJob | undefined
  #last: QueuedJob | undefined

  constructor(readonly priority: number) {}

  get first(): QueuedJob | undefined {
    return this.#first
  }

  push(item: QueuedJob): void {
    item.previous = this.#last
    if (this.#last === undefined) this.#first = item
    else this.#last.next = item
    this.#last = item
  }

  remove(item: QueuedJob): void {
    if (item.previous === undefined) this.#first = item.next
    else item.previous.next = item.next
    if (item.next === undefined) this.#last = item.previous
    else item.next.previous = item.previous
    item.previous = undefined
    item.next = undefined
  }
}
