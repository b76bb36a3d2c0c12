import { checkNames } from '../../src/runtime/option-names.js'
import type {
  ListEntry, ListedTask, ListQuery, TaskIndex, Unlisted,
} from '../../src/stores/task-index.js'
import { wholeNumber } from './limits.js'
import { ShortLivedMap } from './short-lived-map.js'
import { MemoryTaskLists } from './task-lists.js'

/** An entry and the time of its next check, by the clock of the index. */
interface Check {
  readonly entry: string
  due: number
}

/** Options of `MemoryTaskIndex`. */
export interface MemoryTaskIndexOptions {
  /**
   * Maximum number of tasks in the lists, 1 to 8,000,000. Beyond it, the task that was listed first
   * leaves the lists. Default 1,000,000.
   */
  readonly maxTasks?: number
  /** Clock in milliseconds. Default: the monotonic clock of the process. */
  readonly now?: () => number
}

const KNOWN = { maxTasks: 0, now: 0 } satisfies Record<keyof MemoryTaskIndexOptions, 0>

/** A V8 Map has 2^24 slots, and needs half of them free for changes. */
const MAP_LIMIT = 8_000_000

/** Task index in the memory of this process. Each task takes some 250 bytes until it expires. */
export class MemoryTaskIndex implements TaskIndex {
  readonly shared = false
  readonly #checks = new ShortLivedMap<Check>()
  readonly #lists: MemoryTaskLists
  readonly #now: () => number

  /** @throws {TypeError} An option is unknown or out of range. */
  constructor(options: MemoryTaskIndexOptions = {}) {
    checkNames('MemoryTaskIndex', options, KNOWN)
    const { now = () => performance.now(), maxTasks = 1_000_000 } = options
    this.#now = now
    this.#lists = new MemoryTaskLists(now, wholeNumber('maxTasks', maxTasks, 1, MAP_LIMIT))
  }

  /** Number of unfinished tasks that are checked, and of tasks in the lists. */
  get usage(): { readonly checks: number, readonly tasks: number } {
    return { checks: this.#checks.size, tasks: this.#lists.size }
  }

  add(entry: string, afterMs: number): void {
    this.#checks.set(entry, { entry, due: this.#now() + afterMs })
  }

  restore(entry: string, afterMs: number): void {
    if (!this.#checks.has(entry)) this.add(entry, afterMs)
  }

  remove(entry: string): void {
    this.#checks.delete(entry)
  }

  take(limit: number, againMs: number): string[] {
    const now = this.#now()
    const due = [...this.#checks.values()]
      .filter((each) => each.due <= now)
      .sort((one, other) => one.due - other.due)
      .slice(0, limit)
    for (const each of due) each.due = now + againMs
    return due.map(({ entry }) => entry)
  }

  put(task: ListedTask): void {
    this.#lists.put(task)
  }

  putSoon(task: ListedTask): void {
    this.#lists.put(task)
  }

  drop(tasks: readonly ListEntry[]): void {
    for (const task of tasks) this.#lists.drop(task)
  }

  list(query: ListQuery): ListEntry[] {
    return this.#lists.list(query)
  }

  /** Nothing is lost in memory. */
  unlisted(): Unlisted {
    return { ids: [], isUrgent: false }
  }
}
