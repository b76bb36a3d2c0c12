/** After so many entries a map that has become empty is begun anew. */
const MANY = 256

/**
 * A map for what comes and goes with each request. V8 moves a Map to a new table again and again as
 * its entries change; once the Map is old, each table left behind keeps what it held until the next
 * full collection of garbage. So, when nothing is under way, a new one takes its place.
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

  /** Those there are, while others come and go. */
  values(): Iterable<V> {
    return this.#map.values()
  }
}
