import { clearInterval, clearTimeout, setInterval, setTimeout } from '../../src/runtime/timers.js'
import { WatchList } from '../../src/runtime/notices.js'
import type { Unsubscribe } from '../../src/stores/store.js'
import { OWN, type RedisClient } from './client.js'

/** Delay before another connection replaces one that has ended, in milliseconds. */
const REOPEN_MS = 250
/** Interval of checks of the connection, in milliseconds. */
const BEAT_MS = 2500

/**
 * Change notices by pub/sub over one connection, which is opened for the first watch. Notices are lost
 * while it is down, so the next connection subscribes to all channels, and then notifies every watcher.
 * In a Cluster any master serves, because each node passes notices on to all others.
 */
export class Watches {
  private readonly list = new WatchList()
  private subscriber: RedisClient | undefined
  /** Set while a new connection is pending. */
  private timer: ReturnType<typeof setTimeout> | undefined
  private isReleased = false
  /** Latest error of the connection; `undefined` while it is ready. */
  lastError: unknown

  /** @param check - disconnects a connection that is half-open */
  constructor(
    private readonly client: RedisClient, private readonly check: (connection: RedisClient) => void,
  ) {}

  /** Adds a watch, which is active once `active` resolves. */
  add(
    channel: string, listener: () => void,
  ): { readonly active: Promise<void>, readonly remove: Unsubscribe } {
    const end = this.list.add(channel, listener)
    if (!this.subscriber && !this.timer) this.open()
    const active = this.activate(channel)
    // A watch that could not be activated is active with the next connection.
    active.catch(() => undefined)
    return {
      active,
      remove: () => {
        end()
        if (!this.list.has(channel)) this.subscriber?.unsubscribe(channel).catch(() => undefined)
        this.closeUnused()
      },
    }
  }

  /** Closes the connection as soon as nothing is watched. */
  release(): void {
    this.isReleased = true
    this.closeUnused()
  }

  /** Opens another connection. */
  reconnect(): void {
    this.subscriber?.disconnect()
  }

  clear(): void {
    this.list.clear()
  }

  private async activate(channel: string): Promise<void> {
    while (this.list.has(channel)) {
      const { subscriber } = this
      try {
        await subscriber?.subscribe(channel)
        if (subscriber) return
      } catch (error) {
        if (subscriber?.status === 'ready') throw error
      }
      await new Promise((resolve) => { setTimeout(resolve, REOPEN_MS).unref() })
    }
  }

  private open(): void {
    const nodes = this.client.nodes?.('master')
    const source = nodes ? nodes[Math.floor(Math.random() * nodes.length)] : this.client
    const subscriber = this.subscriber = source?.duplicate(OWN)
    if (!subscriber) return this.reopen()
    const beat = setInterval(() => { this.check(subscriber) }, BEAT_MS).unref()
    subscriber.on('message', (channel) => { this.list.notify(channel) })
    subscriber.on('end', () => {
      clearInterval(beat)
      if (this.subscriber === subscriber) this.reopen()
    })
    // Without a listener the client writes each failed connect to the console.
    subscriber.on('error', (error) => { this.lastError = error })
    subscriber.on('ready', () => { this.lastError = undefined })
  }

  private reopen(): void {
    this.subscriber = undefined
    this.timer = setTimeout(() => {
      this.timer = undefined
      this.open()
      const channels = [...this.list.keys()]
      if (channels.length === 0) return
      this.subscriber?.subscribe(...channels).then(() => { this.list.notifyAll() }, () => undefined)
    }, REOPEN_MS)
    this.timer.unref()
  }

  private closeUnused(): void {
    if (!this.isReleased || this.list.size > 0) return
    const { subscriber } = this
    this.subscriber = undefined
    clearTimeout(this.timer)
    this.timer = undefined
    subscriber?.disconnect()
  }
}
