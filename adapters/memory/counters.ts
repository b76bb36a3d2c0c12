import { LinkedList, type Linked } from '../../src/runtime/collections.js'
import { StoreUnavailableError, type Counter } from '../../src/stores/store.js'
import { walk } from './expiry-scanner.js'
import { ownText } from './text.js'

class Count implements Linked<Count> {
  previous: Count | undefined = undefined
  next: Count | undefined = undefined

  constructor(readonly key: string, public value: number, readonly expiresAt: number) {}
}

/** Bounds the memory of long keys. */
const weightOf = (key: string): number => 1 + (key.length >> 8)

/** If there are too many counters, the one unused for longest starts again at 0. */
export class Counters {
  readonly #byKey = new Map<string, Count>()
  /** The counter unused for longest is first. */
  readonly #byUse = new LinkedList<Count>()
  #weight = 0

  constructor(private readonly max: number) {}

  get size(): number {
    return this.#byKey.size
  }

  /** Adds `by` to a counter. Returns an error if nothing was changed. */
  add(key: string, by: number, ttlMs: number, now: number): Counter | Error {
    const count = this.#byKey.get(key)
    const isLive = count !== undefined && count.expiresAt > now
    if (!Number.isSafeInteger(by) || !Number.isSafeInteger(by + (isLive ? count.value : 0))) {
      return new TypeError('A counter and its changes must be safe integers')
    }
    if (isLive) {
      count.value += by
      this.#byUse.remove(count)
      this.#byUse.push(count)
      return { value: count.value, resetMs: count.expiresAt - now }
    }
    // It would evict others.
    if (weightOf(key) > this.max) {
      const message = 'The key of the counter is too long for this store'
      return new StoreUnavailableError(message, { reason: 'full' })
    }
    if (count) this.#delete(count)
    // A counter that has expired already is not stored.
    if (ttlMs > 0) {
      const fresh = new Count(ownText(key), by, now + ttlMs)
      this.#byKey.set(fresh.key, fresh)
      this.#byUse.push(fresh)
      this.#weight += weightOf(key)
      while (this.#weight > this.max) this.#delete(this.#byUse.first as Count)
    }
    return { value: by, resetMs: Math.max(ttlMs, 0) }
  }

  /** Yields `true` for each counter that it removed. */
  sweep(now: () => number): Generator<boolean> {
    return walk(this.#byKey, (count) => {
      if (count.expiresAt > now()) return false
      this.#delete(count)
      return true
    })
  }

  clear(): void {
    this.#byKey.clear()
    this.#byUse.clear()
    this.#weight = 0
  }

  #delete(count: Count): void {
    this.#byKey.delete(count.key)
    this.#byUse.remove(count)
    this.#weight -= weightOf(count.key)
  }
}
