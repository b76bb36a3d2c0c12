import { type Unsubscribe } from '../../src/stores/store.js'
import { ownText } from './text.js'

interface Watch {
  readonly listener: () => void
  active: boolean
}

/** Listeners by key. */
export class Watches {
  readonly #byKey = new Map<string, Set<Watch>>()
  #size = 0

  get size(): number {
    return this.#size
  }

  /** Adds a separate watch, even for a listener that is already there. */
  add(key: string, listener: () => void): Unsubscribe {
    const watch: Watch = { listener, active: true }
    const there = this.#byKey.get(key)
    if (there) there.add(watch)
    else this.#byKey.set(ownText(key), new Set([watch]))
    this.#size++
    return () => {
      if (!watch.active) return
      watch.active = false
      this.#size--
      const set = this.#byKey.get(key)
      if (set?.delete(watch) && set.size === 0) this.#byKey.delete(key)
    }
  }

  /**
   * Calls the listeners of `key` after the current write, in a microtask. A listener may therefore
   * use the store, throw, watch and unsubscribe.
   */
  notify(key: string): void {
    if (this.#byKey.size === 0) return
    const set = this.#byKey.get(key)
    if (set === undefined) return
    for (const watch of set) queueMicrotask(() => call(watch))
  }

  keys(): Iterable<string> {
    return this.#byKey.keys()
  }

  clear(): void {
    for (const set of this.#byKey.values()) for (const watch of set) watch.active = false
    this.#byKey.clear()
    this.#size = 0
  }
}

function call(watch: Watch): void {
  if (!watch.active) return
  try {
    watch.listener()
  } catch {
    // Errors of a listener must not affect the writer or other listeners.
  }
}
