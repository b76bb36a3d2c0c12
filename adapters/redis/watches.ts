import {
  clearInterval, clearTimeout, setImmediate, setInterval, setTimeout,
} from '../../src/runtime/timers.js'
import { WatchList } from '../../src/runtime/notices.js'
import type { Unsubscribe } from '../../src/stores/store.js'
import type { RedisClient } from './client.js'

/** Delay before another connection replaces one that has ended for good, in milliseconds. */
const REOPEN_MS = 250
/**
 * Interval at which the subscriber is asked whether it still hears Redis: no response until the next
 * time means that it does not.
 */
const BEAT_MS = 2500

/**
 * Change notices by pub/sub over one connection of our own, opened with the first watch. What is
 * said while it is down is lost, so after a reconnect all channels are subscribed anew, and then
 * every watcher gets a notice. In a Cluster every node passes notices on to all others, so the
 * connection is one to any of its nodes.
 */
export class Watches {
  private readonly list = new WatchList()
  private subscriber: RedisClient | undefined
  private timer: ReturnType<typeof setTimeout> | undefined
  private heart: ReturnType<typeof setInterval> | undefined
  private readonly unanswered = new WeakSet<RedisClient>()
  /** The subscriber while it is connected. */
  private live: RedisClient | undefined
  private opened = false
  private wasReady = false
  private closed = false
  /** Resolves to the subscriber once it takes commands; a new one after each loss. */
  private ready!: Promise<RedisClient>
  private isReady!: (subscriber: RedisClient) => void

  constructor(private readonly client: RedisClient) {
    this.expect()
  }

  /** Number of watches. */
  get size(): number {
    return this.list.size
  }

  /** A watch that is active once `active` resolves; `remove` ends it, at any time. */
  add(
    channel: string, listener: () => void,
  ): { readonly active: Promise<void>; readonly remove: Unsubscribe } {
    if (!this.opened) {
      this.open()
      // After what has come in meanwhile was read: a process that was busy itself must not blame
      // Redis.
      this.heart = setInterval(() => { setImmediate(() => { this.beat() }) }, BEAT_MS)
      this.heart.unref()
    }
    this.opened = true
    const end = this.list.add(channel, listener)
    let isRemoved = false
    return {
      active: this.activate(channel, () => isRemoved || this.closed),
      remove: () => {
        if (isRemoved) return
        isRemoved = true
        end()
        if (this.closed || this.list.has(channel)) return
        this.subscriber?.unsubscribe(channel).catch(() => undefined)
      },
    }
  }

  close(): void {
    this.closed = true
    clearTimeout(this.timer)
    clearInterval(this.heart)
    this.list.clear()
    this.subscriber?.disconnect()
  }

  /**
   * Asked for each time: who joins others must not take their pending subscription for an active
   * one.
   */
  private async activate(channel: string, isOver: () => boolean): Promise<void> {
    for (;;) {
      const subscriber = await this.ready
      if (isOver()) return
      try {
        await subscriber.subscribe(channel)
        return
      } catch (error) {
        // Lost on the way: the next connection may do better.
        if (subscriber === this.live) throw error
      }
    }
  }

  private expect(): void {
    this.ready = new Promise((resolve) => { this.isReady = resolve })
  }

  private open(): void {
    const subscriber = this.connect()
    if (!subscriber) return this.openLater()
    this.subscriber = subscriber
    let lost = false
    subscriber.on('ready', () => {
      this.live = subscriber
      this.isReady(subscriber)
      if (this.wasReady && this.list.size > 0) this.renew(subscriber)
      this.wasReady = true
    })
    subscriber.on('message', (channel: string) => { this.list.notify(channel) })
    subscriber.on('close', () => {
      if (this.live) this.expect()
      this.live = undefined
    })
    subscriber.on('end', () => {
      if (!lost) this.openLater()
      lost = true
    })
    // Without a listener the client writes each failed connect to the console; calls tell of it by
    // themselves.
    subscriber.on('error', () => undefined)
  }

  /**
   * A connection may be half-open for ever: one that has not answered since the last time is
   * replaced.
   */
  private beat(): void {
    const { subscriber } = this
    if (this.closed) return
    if (subscriber?.status !== 'ready' && subscriber?.status !== 'connect') return
    if (this.unanswered.has(subscriber)) {
      this.unanswered.delete(subscriber)
      subscriber.disconnect(true)
      return
    }
    this.unanswered.add(subscriber)
    const heard = (): void => { this.unanswered.delete(subscriber) }
    subscriber.ping().then(heard, heard)
  }

  private connect(): RedisClient | undefined {
    const own = {
      lazyConnect: false, enableReadyCheck: true, enableOfflineQueue: true,
      autoResubscribe: false, enableAutoPipelining: false,
      // What is disconnected has nothing left to say.
      disconnectTimeout: 100,
    }
    const options = (more: object) => ({ ...own, ...more }) as never
    const nodes = this.client.nodes?.('master')
    if (!nodes) return this.client.duplicate(options({}))
    // A node that has gone may never come back: when this connection ends, another node is asked.
    const node = nodes[Math.floor(Math.random() * nodes.length)]
    return node?.duplicate(options({ retryStrategy: null }))
  }

  private openLater(): void {
    if (this.closed) return
    this.timer = setTimeout(() => { this.open() }, REOPEN_MS)
    this.timer.unref()
  }

  private renew(subscriber: RedisClient): void {
    subscriber.subscribe(...this.list.keys()).then(() => { this.list.notifyAll() }, () => undefined)
  }
}
