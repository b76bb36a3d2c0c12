import { type Counter } from '../../src/stores/store.js'
import { LruMap } from './lru-map.js'
import { ownText } from './text.js'

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
  readonly #counts: LruMap<Count>

  constructor(maxCounters: number) {
    this.#counts = new LruMap(maxCounters, weigh)
  }

  get size(): number {
    return this.#counts.size
  }

  /**
   * Adds `by`, a safe integer, to a counter. Returns `unsafe` if the sum is not a safe integer, and
   * `too large` if the key alone exceeds the limit. Neither changes anything.
   */
  add(key: string, by: number, ttlMs: number, now: number): Counter | 'unsafe' | 'too large' {
    const count = this.#counts.get(key)
    if (count !== undefined && count.expiresAt > now) {
      if (!Number.isSafeInteger(count.value + by)) return 'unsafe'
      count.value += by
      return { value: count.value, resetMs: count.expiresAt - now }
    }
    const fresh = { value: by, expiresAt: now + ttlMs }
    if (weigh(fresh, key) > this.#counts.maxWeight) return 'too large'
    // A counter that has expired already is not stored.
    if (ttlMs > 0) this.#counts.set(ownText(key), fresh)
    return { value: fresh.value, resetMs: Math.max(ttlMs, 0) }
  }

  /** Visits every counter and removes expired ones. Yields `true` for each that it removed. */
  *sweep(now: () => number): Generator<boolean> {
    for (const [key, count] of this.#counts.entries()) {
      const over = count.expiresAt <= now()
      if (over && this.#counts.peek(key) === count) this.#counts.delete(key)
      yield over
    }
  }

  clear(): void {
    this.#counts.clear()
  }
}
