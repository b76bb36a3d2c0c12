import { Notices, WatchList } from '../../src/runtime/notices.js'
import { newId } from '../../src/runtime/random-id.js'
import {
  clearInterval, clearTimeout, setImmediate, setInterval, setTimeout,
} from '../../src/runtime/timers.js'
import type { Unsubscribe } from '../../src/stores/store.js'
import type { Subscription } from './connections.js'
import type { Database } from './database.js'

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

/** Begins the payload of a test notice. */
const TEST = '?'
/**
 * Begins the payload of a change, before its key, because PGlite drops a byte order mark at the
 * start of a string. Keys are far below the limit of 8000 bytes.
 */
const CHANGE = '='

/** Channels of change notices within a schema: of entries, and of tasks. */
export type Channel = 'changes' | 'tasks'

/**
 * Change notices by LISTEN on one connection, opened with the first watch. While notices do not
 * arrive, all watchers are notified every second.
 *
 * Notices are sent in statements of their own. PostgreSQL commits transactions with a notice one at
 * a time, each with its own write to the disk. A notice in the statement of the write would therefore
 * limit the whole server to a few hundred writes a second. A transaction with notices alone waits
 * for no disk.
 */
export class ChangeNotices {
  private readonly watches = new WatchList()
  private readonly sender: Notices
  private readonly channel: MonitoredChannel
  private polling: ReturnType<typeof setInterval> | undefined
  /** Resolves when the first connection was tested. */
  private opened: Promise<void> | undefined

  constructor(database: Database, channel: Channel) {
    this.sender = new Notices((keys) => database.notify(channel, keys.map((key) => CHANGE + key)))
    this.channel = new MonitoredChannel(database, channel, {
      onNotice: (key) => { this.watches.notify(key) },
      onWorking: (isWorking) => { this.poll(!isWorking) },
    })
  }

  // #region watch
  /** Adds a watch. Resolves when notices arrive, or are known not to. */
  async watch(key: string, listener: () => void): Promise<Unsubscribe> {
    const unwatch = this.watches.add(key, listener)
    this.opened ??= this.channel.open()
    if (!this.channel.isWorking) await Promise.race([this.opened, pause(FIRST_MS)])
    return unwatch
  }
  // #endregion

  send(key: string): void {
    this.sender.add(key)
  }

  /** Sends a notice to all processes, and notifies the watchers in this one at once. */
  notify(key: string): void {
    this.watches.notify(key)
    this.sender.add(key)
  }

  /** Closes the connection. Watchers still hear of changes that this process makes. */
  async disconnect(): Promise<void> {
    this.channel.close()
    clearInterval(this.polling)
    // Other processes wait for what this one wrote last.
    await this.sender.flush()
  }

  /** Ends all watches, and closes the connection. */
  async close(): Promise<void> {
    this.watches.clear()
    await this.disconnect()
  }

  private poll(isOn: boolean): void {
    const wasOn = this.polling !== undefined
    if (isOn) this.polling ??= setInterval(() => { this.watches.notifyAll() }, POLL_MS).unref()
    else if (wasOn) {
      clearInterval(this.polling)
      this.polling = undefined
      // Notices may have been lost since the last time.
      this.watches.notifyAll()
    }
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => { setTimeout(resolve, ms).unref() })
}

/** Callbacks of a `MonitoredChannel`. */
interface ChannelListener {
  onNotice(key: string): void
  /** Called with `true` when notices arrive, and with `false` when they do not. */
  onWorking(isWorking: boolean): void
}

/**
 * A channel of change notices whose silence is noticed. Every 5 seconds a test notice goes through
 * the pool. If the subscription does not receive it, its connection is half-open, or a pooler in
 * transaction mode stands in between. Then another connection is opened, later and later.
 */
class MonitoredChannel {
  /** True while notices arrive. */
  isWorking = false
  private subscription: Subscription | undefined
  private test: { readonly payload: string, received: () => void } | undefined
  private timer: ReturnType<typeof setTimeout> | undefined
  private reopenMs = REOPEN_MS.first
  private isClosed = false

  constructor(
    private readonly database: Database, private readonly name: Channel,
    private readonly listener: ChannelListener,
  ) {}

  /** Opens the connection and tests it. Resolves when it works, or is known not to. */
  async open(): Promise<void> {
    try {
      const subscription = await this.database.listen(this.name, {
        onNotice: (payload) => { this.receive(payload) },
        onLost: () => { this.lose() },
      })
      this.subscription = subscription
      if (this.isClosed) subscription.close()
      else await this.beat()
    } catch {
      this.lose()
    }
  }

  close(): void {
    this.isClosed = true
    this.isWorking = false
    clearTimeout(this.timer)
    this.subscription?.close()
    this.test?.received()
  }

  private async beat(): Promise<void> {
    const { subscription } = this
    const outcome = await this.sendTest()
    if (this.isClosed || this.subscription !== subscription) return
    if (outcome === 'silent') return this.lose()
    if (outcome === 'received') this.reopenMs = REOPEN_MS.first
    this.setWorking(outcome === 'received')
    this.later(BEAT_MS, () => this.beat())
  }

  private async sendTest(): Promise<'received' | 'silent' | 'unavailable'> {
    const payload = TEST + newId()
    const received = new Promise<true>((resolve) => {
      this.test = { payload, received: () => { resolve(true) } }
    })
    try {
      await this.database.notify(this.name, [payload])
    } catch {
      return 'unavailable'
    }
    const late = new Promise<false>((resolve) => {
      // After what has come in meanwhile was read: a process that was busy itself must not blame
      // the connection.
      setTimeout(() => { setImmediate(() => { resolve(false) }) }, TEST_MS).unref()
    })
    return await Promise.race([received, late]) ? 'received' : 'silent'
  }

  private receive(payload: string): void {
    if (payload === this.test?.payload) this.test.received()
    else if (payload.startsWith(CHANGE)) this.listener.onNotice(payload.slice(CHANGE.length))
  }

  /** The connection was lost or receives nothing. Opens another one later. */
  private lose(): void {
    this.subscription?.close()
    this.subscription = undefined
    if (this.isClosed) return
    this.setWorking(false)
    this.later(this.reopenMs, () => this.open())
    this.reopenMs = Math.min(this.reopenMs * 2, REOPEN_MS.longest)
  }

  private setWorking(isWorking: boolean): void {
    this.isWorking = isWorking
    this.listener.onWorking(isWorking)
  }

  private later(ms: number, work: () => Promise<void>): void {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => { void work() }, ms)
    this.timer.unref()
  }
}
