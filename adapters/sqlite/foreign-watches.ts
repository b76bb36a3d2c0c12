import type { WatchList } from '../../src/runtime/notices.js'
import { clearTimeout, setTimeout } from '../../src/runtime/timers.js'
import type { Database } from './database.js'

/** Maximum number of states that are read together, because the event loop waits for them. */
const MAX_TOGETHER = 500
/** Pause after them, in milliseconds. */
const PAUSE_MS = 50

/**
 * Notices changes that other processes make. If another process has written, reads the watched
 * states again. If a state differs from the last known one, calls its listener.
 */
export class ForeignWatches {
  /** Last known states by key. */
  private readonly states = new Map<string, unknown>()
  /** Keys that are read again, the one that waits longest first. */
  private readonly stale = new Set<string>()
  private stop: (() => void) | undefined
  private timer: ReturnType<typeof setTimeout> | undefined

  /** @param read - returns the state of a key: its version, or `undefined` if it does not exist */
  constructor(
    private readonly database: Database, private readonly list: WatchList,
    private readonly read: (key: string) => unknown,
  ) {}

  async add(key: string, listener: () => void): Promise<() => void> {
    // An earlier watch of the key has not been told what has changed since its state was read.
    const readState = (): void => {
      if (!this.states.has(key)) this.states.set(key, this.read(key))
    }
    await this.database.read('watch', readState)
    const end = this.list.add(key, listener)
    this.stop ??= this.database.onForeignChange(() => { this.look() })
    return () => {
      end()
      if (!this.list.has(key)) this.states.delete(key)
      if (this.list.size === 0) this.close()
    }
  }

  close(): void {
    this.stop?.()
    this.stop = undefined
    this.stale.clear()
    clearTimeout(this.timer)
    this.timer = undefined
  }

  private look(): void {
    for (const key of this.list.keys()) this.stale.add(key)
    if (this.timer === undefined) this.readStale()
  }

  private readStale(): void {
    this.timer = this.stale.size === 0
      ? undefined : setTimeout(() => { this.readStale() }, PAUSE_MS).unref()
    const keys = [...this.stale].slice(0, MAX_TOGETHER)
    for (const key of keys) this.stale.delete(key)
    const watched = keys.filter((key) => this.list.has(key))
    const read = (): [string, unknown][] => watched.map((key) => [key, this.read(key)])
    this.database.read('read', read).then((states) => {
      for (const [key, state] of states) this.note(key, state)
    }, () => {
      for (const key of watched) this.stale.add(key)
    })
  }

  private note(key: string, state: unknown): void {
    if (!this.list.has(key)) return
    if (this.states.get(key) !== state) this.list.notify(key)
    this.states.set(key, state)
  }
}
