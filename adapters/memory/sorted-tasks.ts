import { comparePositions as compare, type ListPosition } from '../../src/engine/engine.js'

/** Maximum number of tasks in a chunk. A change moves at most so many. */
const CHUNK = 256

/**
 * Tasks in the order of their creation, in chunks. Adding the newest task takes constant time, any
 * other change one search.
 */
export class SortedTasks<T extends ListPosition> {
  readonly #chunks: T[][] = []

  /** Returns whether there are no tasks. */
  get isEmpty(): boolean {
    return this.#chunks.length === 0
  }

  add(task: T): void {
    const last = this.#chunks.at(-1)
    if (last === undefined || compare(last.at(-1) as T, task) < 0) {
      if (last === undefined || last.length >= CHUNK) this.#chunks.push([task])
      else last.push(task)
      return
    }
    const [at, within] = this.#find(task)
    const chunk = this.#chunks[at] as T[]
    chunk.splice(within, 0, task)
    if (chunk.length > CHUNK) this.#chunks.splice(at + 1, 0, chunk.splice(CHUNK / 2))
  }

  remove(task: T): void {
    const [at, within] = this.#find(task)
    const chunk = this.#chunks[at]
    if (chunk?.[within] !== task) return
    if (chunk.length === 1) {
      this.#chunks.splice(at, 1)
      return
    }
    // Most that are removed are among the oldest, and `shift` is much faster than `splice`.
    for (let place = within; place > 0; place--) chunk[place] = chunk[place - 1] as T
    chunk.shift()
  }

  /**
   * Iterates from the first task at or after `start` to later ones.
   *
   * @param start - `undefined`: the first task
   */
  *forward(start: ListPosition | undefined): Generator<T, undefined> {
    let [at, within] = start === undefined ? [0, 0] : this.#find(start)
    for (; at < this.#chunks.length; at++, within = 0) {
      const chunk = this.#chunks[at] as T[]
      for (; within < chunk.length; within++) yield chunk[within] as T
    }
  }

  /**
   * Iterates from the last task before `end` to earlier ones.
   *
   * @param end - `undefined`: the end of the list
   */
  *backward(end: ListPosition | undefined): Generator<T, undefined> {
    let [at, within] = end === undefined ? [this.#chunks.length, 0] : this.#find(end)
    for (; at >= 0; at--, within = this.#chunks[at]?.length ?? 0) {
      const chunk = this.#chunks[at] ?? []
      while (within > 0) yield chunk[--within] as T
    }
  }

  /** Returns the place of the first task that is not before `position`. */
  #find(position: ListPosition): [chunk: number, within: number] {
    const at = firstIndex(this.#chunks, (chunk) => compare(chunk.at(-1) as T, position) >= 0)
    const within = firstIndex(this.#chunks[at] ?? [], (task) => compare(task, position) >= 0)
    return [at, within]
  }
}

/** Returns the index of the first item that passes. All items after it must pass too. */
function firstIndex<T>(items: readonly T[], passes: (item: T) => boolean): number {
  let low = 0
  let high = items.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (passes(items[middle] as T)) high = middle
    else low = middle + 1
  }
  return low
}
