/** A watch of one key. */
interface Watch {
  readonly listener: () => void
  active: boolean
}

/** Listeners by key. */
export class WatchList {
  readonly #byKey = new Map<string, Set<Watch>>()
  #size = 0

  /** Number of watches. */
  get size(): number {
    return this.#size
  }

  has(key: string): boolean {
    return this.#byKey.has(key)
  }

  /** Adds a separate watch, even for a listener that is already there. Returns its end. */
  add(key: string, listener: () => void): () => void {
    const watch: Watch = { listener, active: true }
    const there = this.#byKey.get(key)
    if (there) there.add(watch)
    else this.#byKey.set(key, new Set([watch]))
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
   * Calls the listeners of `key` after the current work, in a microtask. A listener may therefore
   * read and write, throw, watch and unsubscribe.
   */
  notify(key: string): void {
    if (this.#byKey.size === 0) return
    const set = this.#byKey.get(key)
    if (set === undefined) return
    for (const watch of set) queueMicrotask(() => { call(watch) })
  }

  /** Calls all listeners. */
  notifyAll(): void {
    for (const key of this.#byKey.keys()) this.notify(key)
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
