import { LinkedList, type Linked } from '../../src/runtime/collections.js'

/** Number of empty lines that a level keeps for the next items of their callers. */
const KEPT_LINES = 64

export interface Queued {
  readonly caller: string | undefined
}

export class Due<T extends Queued> implements Linked<Due<T>> {
  /** Place in the heap of what is delayed. -1: none. */
  position = -1
  /** Line in which it waits for a place. */
  line: Line<T> | undefined = undefined
  previous: Due<T> | undefined = undefined
  next: Due<T> | undefined = undefined
  /** Turn of the event loop in which it became ready. */
  turn = 0

  constructor(readonly node: T, readonly queue: Queue<T>, readonly at: number) {}
}

/** A binary heap: finds what is due first, and removes anything, in logarithmic time. */
export class DueTimes<T extends Queued> {
  readonly #heap: Due<T>[] = []

  get first(): Due<T> | undefined {
    return this.#heap[0]
  }

  /** Returns the number of those of a queue. Reads all. */
  count(queue: Queue<T> | undefined): number {
    return this.#heap.filter((due) => due.queue === queue).length
  }

  add(due: Due<T>): void {
    this.#heap.push(due)
    this.#rise(due, this.#heap.length - 1)
  }

  remove(due: Due<T>): void {
    const { position } = due
    if (position < 0) return
    const last = this.#heap.pop() as Due<T>
    due.position = -1
    if (last === due) return
    this.#rise(last, position)
    this.#sink(last, last.position)
  }

  #rise(due: Due<T>, from: number): void {
    let at = from
    while (at > 0) {
      const above = (at - 1) >> 1
      const parent = this.#heap[above] as Due<T>
      if (parent.at <= due.at) break
      this.#put(parent, at)
      at = above
    }
    this.#put(due, at)
  }

  #sink(due: Due<T>, from: number): void {
    let at = from
    for (;;) {
      let below = 2 * at + 1
      if (below >= this.#heap.length) break
      const right = this.#heap[below + 1]
      if (right !== undefined && right.at < (this.#heap[below] as Due<T>).at) below++
      const child = this.#heap[below] as Due<T>
      if (child.at >= due.at) break
      this.#put(child, at)
      at = below
    }
    this.#put(due, at)
  }

  #put(due: Due<T>, at: number): void {
    this.#heap[at] = due
    due.position = at
  }
}

/** The waiting items of one caller, first come, first served. */
class Line<T extends Queued> extends LinkedList<Due<T>> implements Linked<Line<T>> {
  previous: Line<T> | undefined = undefined
  next: Line<T> | undefined = undefined

  constructor(readonly level: Level<T>, readonly caller: string | undefined) {
    super()
  }
}

class Level<T extends Queued> {
  /** By caller. Most stay when they are empty: a `Map` that changes with each item is slow. */
  readonly lines = new Map<string | undefined, Line<T>>()
  /** The lines that are not empty. The first one comes next. */
  readonly turns = new LinkedList<Line<T>>()

  constructor(readonly priority: number) {}
}

/**
 * Items that wait for a place: by priority, then in turns between callers. Each operation takes constant
 * time if there are few priorities.
 */
export class Queue<T extends Queued> {
  /** Number of items. */
  size = 0
  /** Number of items that have a place. */
  running = 0
  readonly #levels: Level<T>[] = []

  /** @param pool - pool of the runs; `undefined` for callbacks */
  constructor(readonly pool: string | undefined) {}

  get first(): Due<T> | undefined {
    return this.#levels[0]?.turns.first?.first
  }

  /** Time since which the one waits that has waited longest. */
  get oldest(): number | undefined {
    let oldest = Infinity
    for (const { turns } of this.#levels) {
      for (const line of turns) oldest = Math.min(oldest, (line.first as Due<T>).at)
    }
    return oldest === Infinity ? undefined : oldest
  }

  /** Iterates over all items. */
  *[Symbol.iterator](): Generator<Due<T>, void> {
    for (const { turns } of this.#levels) for (const line of turns) yield* line
  }

  push(item: Due<T>, priority: number): void {
    const { caller } = item.node
    const level = this.#levelOf(priority)
    let line = level.lines.get(caller)
    if (line === undefined) level.lines.set(caller, line = new Line(level, caller))
    if (line.size === 0) level.turns.push(line)
    line.push(item)
    item.line = line
    this.size++
  }

  /** Removes the item that comes next. The next turn is that of another caller. */
  take(): Due<T> | undefined {
    const item = this.first
    if (item === undefined) return undefined
    const line = item.line as Line<T>
    const { turns } = line.level
    this.remove(item)
    if (line.size > 0 && turns.size > 1) {
      turns.remove(line)
      turns.push(line)
    }
    return item
  }

  remove(item: Due<T>): void {
    const line = item.line as Line<T>
    const { level } = line
    item.line = undefined
    this.size--
    line.remove(item)
    if (line.size > 0) return
    level.turns.remove(line)
    if (level.lines.size > KEPT_LINES) level.lines.delete(line.caller)
    if (level.turns.size === 0 && this.#levels.length > 1) {
      this.#levels.splice(this.#levels.indexOf(level), 1)
    }
  }

  #levelOf(priority: number): Level<T> {
    // The level that was left empty.
    if (this.size === 0 && this.#levels[0]?.priority !== priority) this.#levels.length = 0
    const at = this.#levels.findIndex((level) => level.priority >= priority)
    const found = this.#levels[at]
    if (found?.priority === priority) return found
    const level = new Level<T>(priority)
    this.#levels.splice(at < 0 ? this.#levels.length : at, 0, level)
    return level
  }
}
