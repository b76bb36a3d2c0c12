import { newId } from '../../../src/runtime/random-id.js'
import { setTimeout, clearTimeout, setImmediate } from '../../../src/runtime/timers.js'
import type { Subscriber, Subscription } from '../connections.js'

/** Interval of tests of the channel, in milliseconds. */
const BEAT_MS = 5000
/** Maximum time from sending a test notice to receiving it, in milliseconds. */
const TEST_MS = 1000
/** First and longest delay before another connection is opened, in milliseconds. */
const REOPEN_MS = { first: 250, longest: 30_000 }

/** Access to one channel of a database. */
export interface ChannelAccess {
  /** Subscribes on a connection of its own. */
  listen(subscriber: Subscriber): Promise<Subscription>
  /** Sends a notice through the pool. */
  send(payload: string): Promise<unknown>
}

/** Callbacks of a `MonitoredChannel`. */
export interface ChannelListener {
  /** Called for each notice. */
  onNotice(payload: string): void
  /** Notices arrive from now on. Those before may have been lost. */
  onWorking(): void
  /**
   * Notices do not arrive, until the next `onWorking`. Repeated at intervals.
   *
   * @param wasWorking - the first time: notices may have been lost
   */
  onSilent(wasWorking: boolean): void
}

/**
 * A channel of change notices whose silence is noticed. Every 5 seconds a test notice goes through
 * the pool. If the subscription does not receive it, its connection is half-open, or a pooler in
 * transaction mode stands in between. Then another connection is opened, later and later.
 */
export class MonitoredChannel {
  /** True while notices arrive. */
  isWorking = false
  private subscription: Subscription | undefined
  private test: { readonly payload: string, received: () => void } | undefined
  private timer: ReturnType<typeof setTimeout> | undefined
  private reopenMs = REOPEN_MS.first
  private isClosed = false

  constructor(
    private readonly access: ChannelAccess, private readonly listener: ChannelListener,
  ) {}

  /** Opens the connection and tests it. Resolves when it works, or is known not to. */
  async open(): Promise<void> {
    try {
      const subscription = await this.access.listen({
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

  /** Sends a test notice through the pool and waits for it on the connection. */
  private async sendTest(): Promise<'received' | 'silent' | 'unavailable'> {
    const payload = `?:${newId()}`
    const received = new Promise<true>((resolve) => {
      this.test = { payload, received: () => { resolve(true) } }
    })
    try {
      await this.access.send(payload)
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
    // The test notice of another process.
    else if (!payload.startsWith('?:')) this.listener.onNotice(payload)
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
    const wasWorking = this.isWorking
    this.isWorking = isWorking
    if (!isWorking) this.listener.onSilent(wasWorking)
    else if (!wasWorking) this.listener.onWorking()
  }

  private later(ms: number, work: () => Promise<void>): void {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => { void work() }, ms)
    this.timer.unref()
  }
}
