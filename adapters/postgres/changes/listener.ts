import { Notices, WatchList } from '../../../src/runtime/notices.js'
import { setTimeout } from '../../../src/runtime/timers.js'
import type { Unsubscribe } from '../../../src/stores/store.js'
import type { Database } from '../database.js'
import { MonitoredChannel } from './monitored-channel.js'
import { Polling, type ReadRevisions } from './polling.js'

/** Maximum time that a watch waits for the first connection, in milliseconds. Then it polls. */
const FIRST_MS = 1200

/**
 * Sign before the key in a notice, because PGlite drops a byte order mark at the start of a text.
 * Keys are far below the limit of 8000 bytes.
 */
const MARK = '='

/** Channels of change notices within a schema: of entries, and of tasks. */
export type Channel = 'changes' | 'tasks'

/**
 * Returns the sender of change notices, in statements of their own. PostgreSQL commits transactions
 * with a notice one at a time, each with its own write to the disk. A notice in the statement of the
 * write would therefore limit the whole server to a few hundred writes a second. A transaction with
 * notices alone waits for no disk.
 */
export function noticesOn(database: Database, channel: Channel = 'changes'): Notices {
  return new Notices((keys) => database.notify(channel, keys.map((key) => MARK + key)))
}

/**
 * Change notices by LISTEN on one connection, opened with the first watch. While notices do not
 * arrive, watched keys are polled.
 */
export class Listener {
  private readonly watches = new WatchList()
  private readonly polling: Polling
  private readonly channel: MonitoredChannel
  /** Resolves when the first connection was tested. */
  private opened: Promise<void> | undefined

  constructor(
    database: Database, readRevisions: ReadRevisions, channel: Channel = 'changes',
  ) {
    this.polling = new Polling(this.watches, readRevisions)
    this.channel = new MonitoredChannel(database.channel(channel), {
      onNotice: (payload) => { this.watches.notify(payload.slice(MARK.length)) },
      onWorking: () => { void this.polling.finish() },
      onSilent: (wasWorking) => { this.polling.start(wasWorking) },
    })
  }

  // #region watch
  /** Adds a watch. Rejects if changes can be seen neither by notices nor by polling. */
  async watch(key: string, listener: () => void): Promise<Unsubscribe> {
    const unwatch = this.watches.add(key, listener)
    try {
      this.opened ??= this.channel.open()
      if (!this.channel.isWorking) {
        await Promise.race([this.opened, pause(FIRST_MS)])
        if (!this.channel.isWorking) this.polling.start(false)
        await this.polling.begin(key)
      }
    } catch (error) {
      unwatch()
      throw error
    }
    return unwatch
  }
  // #endregion

  /** Calls the watchers of a key in this process, without waiting for the notice. */
  notify(key: string): void {
    this.watches.notify(key)
  }

  /** Closes the connection. Watched keys are polled from now on. */
  disconnect(): void {
    this.channel.close()
    this.polling.start(true)
  }

  close(): void {
    this.channel.close()
    this.polling.stop()
    this.watches.clear()
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => { setTimeout(resolve, ms).unref() })
}
