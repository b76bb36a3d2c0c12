import { setTimeout, clearTimeout } from '../../../src/runtime/timers.js'
import type { WatchList } from '../../../src/runtime/notices.js'
import type { Revision } from '../../../src/stores/store.js'

/** Interval of polling, in milliseconds. */
const POLL_MS = 1000
/** Maximum number of keys in one query. */
const MAX_KEYS = 1000

/** Stands for the revision of a key whose notices may have been lost. */
const MISSED = Symbol('missed')

/** Returns the revisions of the live entries among some keys. */
export type ReadRevisions = (keys: readonly string[]) => Promise<ReadonlyMap<string, Revision>>

/** Reads the revisions of all watched keys every second, while no notices arrive. */
export class Polling {
  /** Last known revision by key; `undefined` for a key without an entry. */
  private known = new Map<string, Revision | typeof MISSED | undefined>()
  private timer: ReturnType<typeof setTimeout> | undefined
  private isOn = false

  constructor(private readonly watches: WatchList, private readonly read: ReadRevisions) {}

  /**
   * Starts.
   *
   * @param hasMissed - notices may have been lost: the first query notifies every watcher of today
   */
  start(hasMissed: boolean): void {
    if (this.isOn) return
    this.isOn = true
    this.known = new Map()
    if (hasMissed) for (const key of this.watches.keys()) this.known.set(key, MISSED)
    this.schedule()
  }

  stop(): void {
    this.isOn = false
    clearTimeout(this.timer)
  }

  /** Stops after a last query, because notices may have been lost since the one before. */
  async finish(): Promise<void> {
    if (!this.isOn) return
    this.stop()
    await this.poll().catch(() => { this.watches.notifyAll() })
  }

  /** Reads the revision of a new key, so that the next query finds changes after this call. */
  async begin(key: string): Promise<void> {
    if (!this.isOn) return
    this.compare(key, (await this.read([key])).get(key))
  }

  private schedule(): void {
    const timer = setTimeout(() => {
      // If the server does not answer, the next query tries again.
      this.poll().catch(() => undefined).finally(() => {
        // Meanwhile polling may have stopped, and started again with another timer.
        if (this.isOn && this.timer === timer) this.schedule()
      })
    }, POLL_MS)
    this.timer = timer.unref()
  }

  private async poll(): Promise<void> {
    for (const key of this.known.keys()) if (!this.watches.has(key)) this.known.delete(key)
    const keys = [...this.watches.keys()]
    for (let at = 0; at < keys.length; at += MAX_KEYS) {
      const batch = keys.slice(at, at + MAX_KEYS)
      const revisions = await this.read(batch)
      for (const key of batch) this.compare(key, revisions.get(key))
    }
  }

  private compare(key: string, revision: Revision | undefined): void {
    const hasChanged = this.known.has(key) && this.known.get(key) !== revision
    this.known.set(key, revision)
    if (hasChanged) this.watches.notify(key)
  }
}
