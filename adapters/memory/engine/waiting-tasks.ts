import { LinkedList, type Linked } from '../../../src/runtime/collections.js'

/** Something that waits for a place. It is in at most one list. */
export interface Waiting<T> extends Linked<T> {
  readonly caller: string | undefined
  readonly priority: number
  /** Time at which it began to wait. */
  readonly waitsSince: number
}

/** Number of empty lines that a level keeps for the next items of their callers. */
const KEPT_LINES = 64

/** The waiting items of one caller, first come, first served. */
class Line<T extends Waiting<T>> extends LinkedList<T> implements Linked<Line<T>> {
  previous: Line<T> | undefined = undefined
  next: Line<T> | undefined = undefined

  constructor(readonly caller: string | undefined) {
    super()
  }
}

/** The waiting items of one priority. */
class Level<T extends Waiting<T>> {
  /** By caller. Most stay when they are empty: a `Map` that changes with each item is slow. */
  readonly lines = new Map<string | undefined, Line<T>>()
  /** The lines that are not empty. The first one comes next. */
  readonly turns = new LinkedList<Line<T>>()

  constructor(readonly priority: number) {}
}

/**
 * Items that wait for a place: by priority, then in turns between callers. Each operation takes constant
 * time, if there are few priorities.
 */
export class WaitingTasks<T extends Waiting<T>> {
  readonly #levels: Level<T>[] = []

  /** Number of items. */
  size = 0

  /** The item that comes next. */
  get first(): T | undefined {
    return this.#levels[0]?.turns.first?.first
  }

  /** Time since which the one waits that has waited longest. */
  get oldest(): number | undefined {
    let oldest = Infinity
    for (const { turns } of this.#levels) {
      for (const line of turns) oldest = Math.min(oldest, (line.first as T).waitsSince)
    }
    return oldest === Infinity ? undefined : oldest
  }

  push(item: T): void {
    this.size++
    const level = this.#levelOf(item.priority)
    let line = level.lines.get(item.caller)
    if (line === undefined) {
      line = new Line<T>(item.caller)
      level.lines.set(item.caller, line)
    }
    if (line.first === undefined) level.turns.push(line)
    line.push(item)
  }

  /** Removes the item that comes next. The next turn is that of another caller. */
  take(): T | undefined {
    const item = this.first
    if (item === undefined) return undefined
    const { turns } = this.#levels[0] as Level<T>
    const line = turns.first as Line<T>
    this.remove(item)
    if (line.first === undefined) return item
    turns.remove(line)
    turns.push(line)
    return item
  }

  /** Removes an item. */
  remove(item: T): void {
    this.size--
    const level = this.#levelOf(item.priority)
    const line = level.lines.get(item.caller) as Line<T>
    line.remove(item)
    if (line.first !== undefined) return
    level.turns.remove(line)
    if (level.lines.size > KEPT_LINES) level.lines.delete(item.caller)
    if (level.turns.size === 0 && this.#levels.length > 1) {
      this.#levels.splice(this.#levels.indexOf(level), 1)
    }
  }

  #levelOf(priority: number): Level<T> {
    const at = this.#levels.findIndex((level) => level.priority >= priority)
    const found = this.#levels[at]
    if (found?.priority === priority) return found
    const level = new Level<T>(priority)
    // The level that was left empty.
    if (this.size === 1) this.#levels.length = 0
    this.#levels.splice(at < 0 ? this.#levels.length : at, 0, level)
    return level
  }
}
