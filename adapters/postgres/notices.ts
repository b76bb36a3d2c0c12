import { Notices, WatchList } from '../../src/runtime/notices.js'
import { newId } from '../../src/runtime/random-id.js'
import {
  clearInterval, clearTimeout, nextTurn, setInterval, setTimeout,
} from '../../src/runtime/timers.js'
import type { Unsubscribe } from '../../src/stores/store.js'
import type { Connections, Query } from './connections.js'

/** Maximum time that a watch waits for the first connection, in milliseconds. */
const FIRST_MS = 1200
/** Interval at which all watchers are notified while notices do not arrive, in milliseconds. */
const POLL_MS = 1000
/** Interval of tests of the channel, in milliseconds. */
const BEAT_MS = 5000
/** Maximum time from sending a test notice to receiving it, in milliseconds. */
const TEST_MS = 1000
/** First and longest delay before another connection is opened, in milliseconds. */
const REOPEN_MS = { first: 250, longest: 30_000 }

/** Change notices of entries, or of tasks. All of a database share one connection. */
export class ChangeNotices {
  readonly watches = new WatchList()
  private isClosed = false

  /** @param kind - start of the payload of a notice, before the key */
  constructor(private readonly channel: NoticeChannel, readonly kind: 'entry:' | 'task:') {}

  /** Adds a watch. Resolves when notices arrive, or are known not to. */
  async watch(key: string, listener: () => void): Promise<Unsubscribe> {
    const unwatch = this.watches.add(key, listener)
    if (!this.isClosed) await this.channel.join(this)
    return unwatch
  }

  send(key: string): void {
    this.channel.sender.add(this.kind + key)
  }

  /** Sends a notice to all processes, and notifies the watchers in this one at once. */
  notify(key: string): void {
    this.watches.notify(key)
    this.send(key)
  }

  /** Stops using the connection. Resolves when the last notices were sent. */
  async close(): Promise<void> {
    this.isClosed = true
    this.channel.leave(this)
    await this.channel.sender.flush()
  }
}

/**
 * All change notices, by LISTEN on one connection. Every 5 seconds a test notice goes through the
 * pool. If it does not arrive (a half-open connection, a pooler in transaction mode), opens another
 * connection, and notifies all watchers every second.
 *
 * Notices have their own statements, because PostgreSQL commits transactions with a notice one at a
 * time.
 */
export class NoticeChannel {
  readonly sender = new Notices((payloads) => this.send(payloads))
  private readonly members = new Set<ChangeNotices>()
  private running: Promise<void> | undefined
  private opened: Promise<void> | undefined
  private onOpened = (): void => undefined
  private firstTimer: ReturnType<typeof setTimeout> | undefined
  private polling: ReturnType<typeof setInterval> | undefined
  private isLost = false
  /** The newest test notice. */
  private sent: { readonly payload: string, hasArrived: boolean } | undefined
  private wake = (): void => undefined

  constructor(
    private readonly connections: Connections, private readonly name: string,
    private readonly query: Query,
  ) {}

  async join(member: ChangeNotices): Promise<void> {
    this.members.add(member)
    this.running ??= this.run()
    await this.opened
  }

  leave(member: ChangeNotices): void {
    this.members.delete(member)
    if (this.members.size === 0) this.wake()
  }

  private async run(): Promise<void> {
    this.opened = new Promise((resolve) => { this.onOpened = resolve })
    this.firstTimer = setTimeout(() => { this.setWorking(false) }, FIRST_MS).unref()
    for (let delayMs = REOPEN_MS.first; this.members.size > 0;) {
      this.isLost = false
      const close = await this.connections.listen(this.name, (payload) => { this.receive(payload) }, () => {
        this.isLost = true
        this.wake()
      }).catch(() => undefined)
      const isOpen = (): boolean => close !== undefined && !this.isLost && this.members.size > 0
      while (isOpen() && await this.test().catch(() => false)) {
        this.setWorking(true)
        delayMs = REOPEN_MS.first
        await this.sleep(BEAT_MS)
      }
      close?.()
      this.setWorking(false)
      await this.sleep(delayMs)
      delayMs = Math.min(delayMs * 2, REOPEN_MS.longest)
    }
    clearInterval(this.polling)
    this.polling = this.running = undefined
  }

  private async test(): Promise<boolean> {
    const test = this.sent = { payload: `?${newId()}`, hasArrived: false }
    await this.send([test.payload])
    if (!test.hasArrived) await this.sleep(TEST_MS)
    // A process that was busy first reads what has arrived.
    if (!test.hasArrived) await nextTurn()
    return test.hasArrived
  }

  private receive(payload: string): void {
    if (payload === this.sent?.payload) {
      this.sent.hasArrived = true
      this.wake()
    }
    for (const { kind, watches } of this.members) {
      if (payload.startsWith(kind)) watches.notify(payload.slice(kind.length))
    }
  }

  private send(payloads: readonly string[]): Promise<unknown> {
    return this.query(
      'SELECT pg_notify($1::text, payload) FROM json_array_elements_text($2::json) AS payload',
      [this.name, JSON.stringify(payloads)],
    )
  }

  private setWorking(isWorking: boolean): void {
    clearTimeout(this.firstTimer)
    this.onOpened()
    if (!isWorking) {
      this.polling ??= setInterval(() => { this.notifyAll() }, POLL_MS).unref()
    } else if (this.polling) {
      clearInterval(this.polling)
      this.polling = undefined
      // Notices may have been lost since the last time.
      this.notifyAll()
    }
  }

  private notifyAll(): void {
    for (const { watches } of this.members) watches.notifyAll()
  }

  private sleep(ms: number): Promise<void> {
    if (this.members.size === 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.wake = resolve
      setTimeout(resolve, ms).unref()
    })
  }
}
