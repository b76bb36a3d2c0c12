import timers from 'node:timers'
import { newId } from '../../src/runtime/random-id.js'
import type { Unsubscribe } from '../../src/stores/store.js'
import { CHANNEL, probeOf, readNotice } from './channel.js'
import type { Subscription } from './connections.js'
import type { Database } from './database.js'
import { Polling, type ReadRevisions } from './polling.js'
import { WatchList } from './watch-list.js'

// Captured at once: the server keeps real time, also under a test's fake timers.
const { setTimeout, clearTimeout } = timers

/** Interval of tests of the channel, in milliseconds. */
const BEAT_MS = 5000
/** Maximum time from sending a test notice to receiving it, in milliseconds. */
const PROBE_MS = 1000
/** First and longest delay before another connection is opened, in milliseconds. */
const REOPEN_MS = { first: 250, longest: 30_000 }

/**
 * Change notices by LISTEN on one connection, opened with the first watch. Every 5 seconds a test
 * notice goes through the pool. If the connection does not receive it, it is half-open, or a
 * pooler in transaction mode stands in between: watched keys are then polled, and the connection
 * is opened again later.
 */
export class Listener {
  private readonly watches = new WatchList()
  private readonly polling: Polling
  private subscription: Subscription | undefined
  /** Opening of the first connection, which watches wait for. */
  private opening: Promise<void> | undefined
  private readonly probes = new Map<string, () => void>()
  private timer: ReturnType<typeof setTimeout> | undefined
  private reopenMs = REOPEN_MS.first
  private isClosed = false

  constructor(private readonly database: Database, readRevisions: ReadRevisions) {
    this.polling = new Polling(this.watches, readRevisions)
  }

  /** Adds a watch. Rejects if changes can be seen neither by notices nor by polling. */
  async watch(key: string, listener: () => void): Promise<Unsubscribe> {
    const unwatch = this.watches.add(key, listener)
    try {
      this.opening ??= this.open()
      await this.opening
      await this.polling.begin(key)
    } catch (error) {
      unwatch()
      throw error
    }
    return unwatch
  }

  close(): void {
    this.isClosed = true
    clearTimeout(this.timer)
    this.polling.stop()
    this.watches.clear()
    this.subscription?.close()
    for (const heard of this.probes.values()) heard()
  }

  /** Opens the connection and tests it. Polls if it does not work. Never rejects. */
  private async open(): Promise<void> {
    try {
      const subscription = await this.database.listen(CHANNEL, {
        onNotice: (payload) => { this.receive(payload) },
        onLost: () => { this.lose() },
      })
      this.subscription = subscription
      if (this.isClosed) subscription.close()
      else await this.test()
    } catch {
      this.lose()
    }
  }

  /** Sends a test notice through the pool and waits for it on the connection. */
  private async test(): Promise<void> {
    const { subscription } = this
    const outcome = await this.probe()
    if (this.isClosed || this.subscription !== subscription) return
    if (outcome === 'silent') return this.lose()
    if (outcome === 'received') {
      this.reopenMs = REOPEN_MS.first
      this.polling.stop()
    } else this.polling.start()
    this.later(BEAT_MS, () => this.test())
  }

  private async probe(): Promise<'received' | 'silent' | 'unavailable'> {
    const id = newId()
    const received = new Promise<true>((resolve) => { this.probes.set(id, () => { resolve(true) }) })
    try {
      const sent = this.database.query(
        'SELECT pg_notify($1, $2)', [this.database.channel(CHANNEL), probeOf(id)],
      )
      await Promise.race([received, sent])
      const late = new Promise<false>((resolve) => {
        setTimeout(() => { resolve(false) }, PROBE_MS).unref()
      })
      return await Promise.race([received, late]) ? 'received' : 'silent'
    } catch {
      return 'unavailable'
    } finally {
      this.probes.delete(id)
    }
  }

  private receive(payload: string): void {
    const notice = readNotice(payload)
    if ('key' in notice) this.watches.notify(notice.key)
    else this.probes.get(notice.probe)?.()
  }

  /** The connection was lost or does not work. Polls, and opens another one later. */
  private lose(): void {
    this.subscription?.close()
    this.subscription = undefined
    if (this.isClosed) return
    this.polling.start()
    this.later(this.reopenMs, () => this.reopen())
    this.reopenMs = Math.min(this.reopenMs * 2, REOPEN_MS.longest)
  }

  private async reopen(): Promise<void> {
    await this.open()
    // Notices may have been lost in between.
    if (this.subscription) this.watches.notifyAll()
  }

  private later(ms: number, work: () => Promise<void>): void {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => { void work() }, ms)
    this.timer.unref()
  }
}
