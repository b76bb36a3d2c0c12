import { LRUCache } from 'lru-cache'

/** Maximum size up to which clearing an lru-cache is cheaper than replacing it. */
const SMALL = 1024

/**
 * Map with a maximum weight that removes the least recently used values. Wraps lru-cache and avoids
 * three of its costs:
 * - `max` allocates memory for all items at once (28 MB for 1,000,000). This class uses `maxSize`.
 * - Deleting the last item clears arrays of the peak size. This class replaces the cache instead.
 * - An item above `maxSize` can evict others. Callers of `set` must check the weight first.
 */
export class LruMap<V extends object> {
  readonly maxWeight: number
  readonly #weigh: (value: V, key: string) => number
  readonly #onEvict: ((key: string) => void) | undefined
  #cache: LRUCache<string, V>
  #peak = 0

  constructor(
    maxWeight: number,
    weigh: (value: V, key: string) => number,
    onEvict?: (key: string) => void,
  ) {
    this.maxWeight = maxWeight
    this.#weigh = weigh
    this.#onEvict = onEvict
    this.#cache = this.#empty()
  }

  get size(): number {
    return this.#cache.size
  }

  /** Sum of all weights. */
  get weight(): number {
    return this.#cache.calculatedSize
  }

  /** Returns the value at `key`. Counts as a use. */
  get(key: string): V | undefined {
    return this.#cache.get(key)
  }

  /** Returns the value at `key`. Does not count as a use. */
  peek(key: string): V | undefined {
    return this.#cache.peek(key)
  }

  /**
   * Adds a value that weighs at most `maxWeight`. Evicts the least recently used values if
   * necessary.
   */
  set(key: string, value: V): void {
    this.#cache.set(key, value)
    if (this.#cache.size > this.#peak) this.#peak = this.#cache.size
  }

  delete(key: string): boolean {
    if (this.#cache.size !== 1 || this.#peak <= SMALL) return this.#cache.delete(key)
    if (this.#cache.peek(key) === undefined) return false
    this.clear()
    return true
  }

  /** Removes the least recently used value. */
  evict(): void {
    this.#cache.pop()
  }

  /**
   * Iterates from the least recently used value to the latest. Visits no more values than there are
   * at the start. Changes meanwhile are allowed and may end it early.
   */
  *entries(): Generator<[string, V]> {
    let left = this.#cache.size
    for (const entry of this.#cache.rentries()) {
      if (left-- === 0) return
      // The types of lru-cache do not distinguish key and value here.
      yield entry as [string, V]
    }
  }

  clear(): void {
    this.#cache = this.#empty()
    this.#peak = 0
  }

  #empty(): LRUCache<string, V> {
    const onEvict = this.#onEvict
    return new LRUCache<string, V>({
      maxSize: this.maxWeight,
      sizeCalculation: this.#weigh,
      ...(onEvict && {
        dispose: (_value: V, key: string, reason: LRUCache.DisposeReason) => {
          if (reason === 'evict') onEvict(key)
        },
      }),
    })
  }
}
