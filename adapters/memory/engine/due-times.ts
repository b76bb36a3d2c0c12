/** Something that is due at a time. It is in at most one `DueTimes`. */
export interface Due {
  at: number
  /** Place in the heap. -1: none. */
  position: number
}

/** A binary heap: finds what is due first, and removes anything, in logarithmic time. */
export class DueTimes<T extends Due> {
  readonly #heap: T[] = []

  /** The earliest one. */
  get first(): T | undefined {
    return this.#heap[0]
  }

  /** Returns the number of those that pass. Reads all. */
  count(passes: (due: T) => boolean): number {
    return this.#heap.filter(passes).length
  }

  add(due: T): void {
    this.#heap.push(due)
    this.#rise(due, this.#heap.length - 1)
  }

  /** Removes something if it is here. */
  remove(due: T): void {
    const { position } = due
    if (position < 0) return
    const last = this.#heap.pop() as T
    due.position = -1
    if (last === due) return
    this.#rise(last, position)
    this.#sink(last, last.position)
  }

  #rise(due: T, from: number): void {
    let at = from
    while (at > 0) {
      const above = (at - 1) >> 1
      const parent = this.#heap[above] as T
      if (parent.at <= due.at) break
      this.#put(parent, at)
      at = above
    }
    this.#put(due, at)
  }

  #sink(due: T, from: number): void {
    let at = from
    for (;;) {
      let below = 2 * at + 1
      if (below >= this.#heap.length) break
      const right = this.#heap[below + 1]
      if (right !== undefined && right.at < (this.#heap[below] as T).at) below++
      const child = this.#heap[below] as T
      if (child.at >= due.at) break
      this.#put(child, at)
      at = below
    }
    this.#put(due, at)
  }

  #put(due: T, at: number): void {
    this.#heap[at] = due
    due.position = at
  }
}
