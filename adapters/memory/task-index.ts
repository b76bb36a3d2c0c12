import { checkNames } from '../../src/runtime/option-names.js'
import { ShortLivedMap } from '../../src/queues/short-lived-map.js'
import type { TaskIndex } from '../../src/stores/task-index.js'

/** An entry and when it is to be looked at, on the clock of the index. */
interface Listed {
  readonly entry: string
  due: number
}

/** A task index in the memory of this process, as large as its unfinished tasks are many. */
export class MemoryTaskIndex implements TaskIndex {
  readonly shared = false
  readonly #listed = new ShortLivedMap<Listed>()
  readonly #now: () => number

  /** `now`: a clock in milliseconds. Default: the monotonic clock of the process. */
  constructor(options: { readonly now?: () => number } = {}) {
    checkNames('MemoryTaskIndex', options, { now: 0 })
    const { now = () => performance.now() } = options
    this.#now = now
  }

  /** How many entries there are. */
  get size(): number {
    return this.#listed.size
  }

  add(entry: string, afterMs: number): void {
    this.#listed.set(entry, { entry, due: this.#now() + afterMs })
  }

  remove(entry: string): void {
    this.#listed.delete(entry)
  }

  take(limit: number, againMs: number): string[] {
    const now = this.#now()
    const due = [...this.#listed.values()].filter((each) => each.due <= now).sort((one, other) => one.due - other.due).slice(0, limit)
    for (const each of due) each.due = now + againMs
    return due.map(({ entry }) => entry)
  }
}
