import type { Unsubscribe } from '../../../src/stores/store.js'

/** Listeners by key. */
export class WatchList {
  private readonly listeners = new Map<string, Set<() => void>>()

  /** Keys that are watched. */
  get keys(): readonly string[] {
    return [...this.listeners.keys()]
  }

  has(key: string): boolean {
    return this.listeners.has(key)
  }

  /** Adds a separate watch, even for a listener that is already there. */
  add(key: string, listener: () => void): Unsubscribe {
    const own = (): void => { listener() }
    const set = this.listeners.get(key) ?? new Set()
    this.listeners.set(key, set.add(own))
    return () => {
      set.delete(own)
      if (set.size === 0 && this.listeners.get(key) === set) this.listeners.delete(key)
    }
  }

  notify(key: string): void {
    for (const listener of this.listeners.get(key) ?? []) {
      try {
        listener()
      } catch {
        // An error of one listener must not affect the others.
      }
    }
  }

  notifyAll(): void {
    for (const key of this.keys) this.notify(key)
  }

  clear(): void {
    this.listeners.clear()
  }
}
