import { checkNames } from '../../src/runtime/option-names.js'
import { ShortLivedMap } from './short-lived-map.js'
import type { TaskIndex } from '../../src/stores/task-index.js'

/** An entry and the time of its next check, by the clock of the index. */
interface Listed {
  readonly entry: string
  due: number
}

/** Task index in the memory of this process. Its size is the number of unfinished tasks. */
export class MemoryTaskIndex implements TaskIndex {
  readonly shared = false
  readonly #listed = new ShortLivedMap<Listed>()
  readonly #now: () => number

  constructor(options: {
    /** Clock in milliseconds. Default: the monotonic clock of the process. */
    readonly now?: () => number
  } = {}) {
    checkNames('MemoryTaskIndex', options, { now: 0 })
    const { now = () => performance.now() } = options
    this.#now = now
  }

  /** Number of entries. */
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
    const due = [...this.#listed.values()]
      .filter((each) => each.due <= now)
      .sort((one, other) => one.due - other.due)
      .slice(0, limit)
    for (const each of due) each.due = now + againMs
    return due.map(({ entry }) => entry)
  }
}
