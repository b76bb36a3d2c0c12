import { LRUCache } from 'lru-cache'
import { type Counter } from '../../src/stores/store.js'
import { ownText } from './text.js'

/** Number of counters up to which clearing an lru-cache is cheaper than replacing it. */
const SMALL = 1024

interface Count {
  value: number
  expiresAt: number
}

/**
 * Weight of a counter: one for each started 256 characters of its key. Bounds the memory of long
 * keys.
 */
const weigh = (_count: Count, key: string): number => 1 + (key.length >> 8)

/**
 * Counters with an expiry, in a key space separate from entries. If there are too many, the counter
 * that was unused for longest is removed and starts at 0 the next time. Counters are estimates such
 * as rate limits, so this is acceptable.
 */
export class Counters {
  #cache: LRUCache<string, Count>
  /** Highest number of counters since the cache was created. */
  #peak = 0

  constructor(private readonly max: number) {
    this.#cache = this.#empty()
  }

  get size(): number {
    return this.#cache.size
  }

  /**
   * Adds `by`, a safe integer, to a counter. Returns `unsafe` if the sum is not a safe integer, and
   * `too large` if the key alone exceeds the limit. Neither changes anything.
   */
  add(key: string, by: number, ttlMs: number, now: number): Counter | 'unsafe' | 'too large' {
    const count = this.#cache.get(key)
    if (count !== undefined && count.expiresAt > now) {
      if (!Number.isSafeInteger(count.value + by)) return 'unsafe'
      count.value += by
      return { value: count.value, resetMs: count.expiresAt - now }
    }
    const fresh = { value: by, expiresAt: now + ttlMs }
    // It would evict others.
    if (weigh(fresh, key) > this.max) return 'too large'
    // A counter that has expired already is not stored.
    if (ttlMs > 0) {
      this.#cache.set(ownText(key), fresh)
      this.#peak = Math.max(this.#peak, this.#cache.size)
    }
    return { value: fresh.value, resetMs: Math.max(ttlMs, 0) }
  }

  /**
   * Visits every counter, the one unused for longest first, and removes expired ones. Yields `true`
   * for each that it removed. Changes meanwhile are allowed and may end it early.
   */
  *sweep(now: () => number): Generator<boolean> {
    let left = this.#cache.size
    for (const entry of this.#cache.rentries()) {
      if (left-- === 0) return
      // The types of lru-cache do not distinguish key and value here.
      const [key, count] = entry as [string, Count]
      const over = count.expiresAt <= now()
      if (over && this.#cache.peek(key) === count) this.#delete(key)
      yield over
    }
  }

  clear(): void {
    this.#cache = this.#empty()
    this.#peak = 0
  }

  /** Deletes a counter. Deleting the last one would clear arrays of the peak size each time. */
  #delete(key: string): void {
    if (this.#cache.size === 1 && this.#peak > SMALL) this.clear()
    else this.#cache.delete(key)
  }

  /** Without `max`, which allocates memory for all counters at once: 28 MB for a million. */
  #empty(): LRUCache<string, Count> {
    return new LRUCache<string, Count>({ maxSize: this.max, sizeCalculation: weigh })
  }
}
