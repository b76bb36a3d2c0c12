/** Number of keys up to which those whose count is 0 stay. */
const KEPT = 64

/**
 * Counts by key, such as the requests of each owner. At most 64 keys whose count is 0 take memory: they
 * stay, because a `Map` that changes with each request is slow (see `LinkedList`).
 */
export class KeyCounts<K = string> {
  readonly #counts = new Map<K, number>()

  /** Number of keys in memory. */
  get size(): number {
    return this.#counts.size
  }

  /** Returns the count of a key. */
  get(key: K): number {
    return this.#counts.get(key) ?? 0
  }

  /** Adds 1 to the count of a key. */
  add(key: K): void {
    this.#counts.set(key, this.get(key) + 1)
  }

  /** Subtracts 1 from the count of a key. A count of 0 stays 0. */
  remove(key: K): void {
    const count = this.get(key)
    if (count === 0) return
    if (count > 1 || this.#counts.size <= KEPT) this.#counts.set(key, count - 1)
    else this.#counts.delete(key)
  }
}
