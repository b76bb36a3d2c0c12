import { PacedWrites } from './paced-writes.js'

/** Pause after a message, in milliseconds. */
const GATHER_MS = 5
/** Maximum number of notices in one message. */
const MAX_BATCH = 500
/** Maximum number of waiting notices. Further ones are dropped. */
const MAX_WAITING = 10_000

/**
 * Sends notices to other processes: the first one at once, and further ones within a few
 * milliseconds together, because a message for each change would cost as much as the change.
 */
export class Notices {
  private readonly waiting = new Set<string>()
  private readonly messages = new PacedWrites(() => this.sendSome(), () => GATHER_MS)

  /** @param send - sends notices. Its failures are ignored, because watchers also read at intervals. */
  constructor(private readonly send: (names: readonly string[]) => Promise<unknown>) {}

  add(name: string): void {
    if (this.waiting.size < MAX_WAITING) this.waiting.add(name)
    this.messages.request()
  }

  /** Resolves when all notices so far were sent. */
  flush(): Promise<void> {
    return this.messages.flush()
  }

  private async sendSome(): Promise<void> {
    const names = [...this.waiting].slice(0, MAX_BATCH)
    for (const name of names) this.waiting.delete(name)
    await this.send(names).catch(() => undefined)
    if (this.waiting.size > 0) this.messages.request()
  }
}

interface Watch {
  readonly listener: () => void
  active: boolean
}

/** Listeners by key. */
export class WatchList {
  readonly #byKey = new Map<string, Set<Watch>>()
  #size = 0

  get size(): number {
    return this.#size
  }

  has(key: string): boolean {
    return this.#byKey.has(key)
  }

  /**
   * Adds a separate watch, even for a listener that exists already. Returns the function that ends
   * the watch.
   */
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

  /** Calls the listeners of `key` in microtasks, so that they may read, write, throw and watch. */
  notify(key: string): void {
    if (this.#byKey.size === 0) return
    const set = this.#byKey.get(key)
    if (set === undefined) return
    for (const watch of set) queueMicrotask(() => { call(watch) })
  }

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
