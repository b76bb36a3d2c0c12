import timers from 'node:timers'
import type { Unsubscribe } from '../../../src/stores/store.js'
import { keyOf, type Channel } from './notices.js'
import type { Database } from '../database.js'
import { MonitoredChannel } from './monitored-channel.js'
import { Polling, type ReadRevisions } from './polling.js'
import { WatchList } from './watch-list.js'

// Captured at once: the server keeps real time, also under a test's fake timers.
const { setTimeout } = timers

/** Maximum time that a watch waits for the first connection, in milliseconds. Then it polls. */
const FIRST_MS = 1200

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
      onNotice: (payload) => { this.watches.notify(keyOf(payload)) },
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
