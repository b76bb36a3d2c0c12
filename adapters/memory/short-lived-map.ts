/** Number of additions after which an empty map is replaced. */
const MANY = 256

/**
 * Map for entries that live as long as a request or a run. V8 grows a Map by copying its table. Old
 * tables keep the values of deleted entries alive until the next full garbage collection. This
 * class replaces its Map when it is empty, so that those tables can be collected early.
 */
export class ShortLivedMap<V, K = string> {
  #map = new Map<K, V>()
  #added = 0

  get size(): number {
    return this.#map.size
  }

  get(id: K): V | undefined {
    return this.#map.get(id)
  }

  has(id: K): boolean {
    return this.#map.has(id)
  }

  set(id: K, value: V): void {
    this.#map.set(id, value)
    this.#added++
  }

  delete(id: K): void {
    this.#map.delete(id)
    if (this.#added < MANY || this.#map.size > 0) return
    this.#map = new Map()
    this.#added = 0
  }

  /** Iterates over the values. Entries may be added and removed meanwhile. */
  values(): Iterable<V> {
    return this.#map.values()
  }
}
