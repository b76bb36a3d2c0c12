import type { WatchList } from '../../src/runtime/notices.js'
import type { Database } from './database.js'

/**
 * Notices changes that other processes make. What is watched is read again whenever another process has
 * written, and a listener is called if its state is another one than before.
 */
export class ForeignWatches {
  /** The last known state of what is watched. */
  private readonly states = new Map<string, unknown>()
  private stop: (() => void) | undefined

  /** @param read - returns the state of a key: its version, or `undefined` if it does not exist */
  constructor(
    private readonly database: Database, private readonly list: WatchList,
    private readonly read: (key: string) => unknown,
  ) {}

  async add(key: string, listener: () => void): Promise<() => void> {
    await this.database.read('watch', () => { this.states.set(key, this.read(key)) })
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
  }

  private look(): void {
    const read = (): [string, unknown][] => [...this.list.keys()].map((key) => [key, this.read(key)])
    this.database.read('read', read).then((states) => {
      for (const [key, state] of states) {
        if (this.states.get(key) !== state) this.list.notify(key)
        this.states.set(key, state)
      }
    }, () => undefined)
  }
}
