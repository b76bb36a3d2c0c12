import { type Unsubscribe } from '../../src/stores/store.js'
import { ownText } from './text.js'

interface Watch {
  readonly listener: () => void
  active: boolean
}

/** Who wants to know about which key. */
export class Watches {
  readonly #byKey = new Map<string, Set<Watch>>()
  #size = 0

  get size(): number {
    return this.#size
  }

  /** Each call is a watch of its own, also for a listener that is already there. */
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
   * Calls the listeners of `key`, not inside the write that they are told of, but right after it: a
   * listener may then use the store, throw, watch and unwatch as it likes.
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
    // Its own affair: neither the writer nor the other listeners may suffer.
  }
}
