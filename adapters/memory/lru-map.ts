import { LRUCache } from 'lru-cache'

/** Up to here emptying the arrays of an lru-cache costs less than making a new one. */
const SMALL = 1024

/**
 * Values in order of last use, the oldest first to go, around lru-cache. It works around three
 * things that would hurt a store:
 * - `max` makes lru-cache allocate for that many at once (28 MB for 1,000,000), `maxSize` does not.
 * - Deleting its last item clears arrays as long as they ever were; here a new cache takes its
 *   place.
 * - An item above `maxSize` can cost others their place; `set` here expects its caller to ask
 *   first.
 */
export class LruMap<V extends object> {
  readonly maxWeight: number
  readonly #weigh: (value: V, key: string) => number
  readonly #onEvict: ((key: string) => void) | undefined
  #cache: LRUCache<string, V>
  #peak = 0

  constructor(maxWeight: number, weigh: (value: V, key: string) => number, onEvict?: (key: string) => void) {
    this.maxWeight = maxWeight
    this.#weigh = weigh
    this.#onEvict = onEvict
    this.#cache = this.#empty()
  }

  get size(): number {
    return this.#cache.size
  }

  /** The sum of all weights. */
  get weight(): number {
    return this.#cache.calculatedSize
  }

  /** The value at `key`, which counts as a use. */
  get(key: string): V | undefined {
    return this.#cache.get(key)
  }

  /** The value at `key`, which does not count as a use. */
  peek(key: string): V | undefined {
    return this.#cache.peek(key)
  }

  /**
   * Adds a value whose weight fits `maxWeight`; what was used longest ago goes when there is no
   * room.
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

  /** Drops what was used longest ago. */
  evict(): void {
    this.#cache.pop()
  }

  /**
   * From the one used longest ago to the latest, as many as there are now. Safe against changes in
   * between, which may end it early; without the count, uses in between could keep it going for
   * ever.
   */
  *entries(): Generator<[string, V]> {
    let left = this.#cache.size
    for (const entry of this.#cache.rentries()) {
      if (left-- === 0) return
      // The types of lru-cache lose which is which.
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
      ...onEvict && {
        dispose: (_value: V, key: string, reason: LRUCache.DisposeReason) => {
          if (reason === 'evict') onEvict(key)
        }
      }
    })
  }
}
