/** Maximum number of items in a chunk, which bounds the cost of a change. */
const CHUNK = 256

/**
 * Sorted items, in chunks. Adding an item at the end takes constant time. Any other change takes
 * one search.
 *
 * @typeParam P - the part of an item that `compare` needs
 */
export class SortedList<T extends P, P = T> {
  readonly #chunks: T[][] = []

  /** @param compare - returns 0 for the same item only */
  constructor(private readonly compare: (one: P, other: P) => number) {}

  get first(): T | undefined {
    return this.#chunks[0]?.[0]
  }

  add(item: T): void {
    const last = this.#chunks.at(-1)
    if (last === undefined || this.compare(last.at(-1) as T, item) < 0) {
      if (last === undefined || last.length >= CHUNK) this.#chunks.push([item])
      else last.push(item)
      return
    }
    const [at, within] = this.#find(item)
    const chunk = this.#chunks[at] as T[]
    chunk.splice(within, 0, item)
    if (chunk.length > CHUNK) this.#chunks.splice(at + 1, 0, chunk.splice(CHUNK / 2))
  }

  remove(item: T): void {
    const [at, within] = this.#find(item)
    const chunk = this.#chunks[at]
    if (chunk?.[within] !== item) return
    if (chunk.length === 1) {
      this.#chunks.splice(at, 1)
      return
    }
    // Most that are removed are among the first, and `shift` is much faster than `splice`.
    for (let place = within; place > 0; place--) chunk[place] = chunk[place - 1] as T
    chunk.shift()
  }

  *[Symbol.iterator](): Generator<T, void> {
    for (const chunk of this.#chunks) yield* chunk
  }

  /** Iterates from the first item at or after `start` to later ones. */
  *forward(start: P): Generator<T, void> {
    let [at, within] = this.#find(start)
    for (; at < this.#chunks.length; at++, within = 0) {
      const chunk = this.#chunks[at] as T[]
      for (; within < chunk.length; within++) yield chunk[within] as T
    }
  }

  /** Iterates from the last item before `end` to earlier ones. */
  *backward(end: P): Generator<T, void> {
    let [at, within] = this.#find(end)
    for (; at >= 0; at--, within = this.#chunks[at]?.length ?? 0) {
      const chunk = this.#chunks[at] ?? []
      while (within > 0) yield chunk[--within] as T
    }
  }

  /** Returns the place of the first item that is not before `position`. */
  #find(position: P): [chunk: number, within: number] {
    const { compare } = this
    const at = firstIndex(this.#chunks, (chunk) => compare(chunk.at(-1) as T, position) >= 0)
    const within = firstIndex(this.#chunks[at] ?? [], (item) => compare(item, position) >= 0)
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
