import timers from 'node:timers'
import { newId } from '../../../src/runtime/random-id.js'
import type { Subscription } from '../connections.js'
import type { JobDatabase } from './job-database.js'

// Captured at once: the server keeps real time, also under a test's fake timers.
const { setTimeout, clearTimeout } = timers

/** BullMQ's channel. The payload is the name of a queue that has a job. */
const CHANNEL = 'bullmq_jobs'

/** Interval of tests of the connection, in milliseconds. */
const BEAT_MS = 5000

/** Maximum time from sending a test notice to receiving it, in milliseconds. */
const PROBE_MS = 1000

/** Interval at which a worker looks for jobs while there are no notices, in milliseconds. */
const POLL_MS = 1000

/** First and longest delay before another connection is opened, in milliseconds. */
const REOPEN_MS = { first: 250, longest: 30_000 }

/**
 * Notices of new jobs for the worker of one queue. They come by LISTEN on a connection of its own.
 * Every 5 seconds a test notice goes through the pool. If the connection does not receive it, it is
 * half-open, or a pooler in transaction mode stands in between. Then the worker polls, and the
 * connection is opened again later.
 */
export class JobNotices {
  private subscription: Subscription | undefined
  private timer: ReturnType<typeof setTimeout> | undefined
  private polling: ReturnType<typeof setInterval> | undefined
  private probe: { readonly payload: string, heard: () => void } | undefined
  private reopenMs = REOPEN_MS.first
  private isClosed = false

  /** @param notify - called when there may be a job */
  constructor(
    private readonly database: JobDatabase, private readonly queue: string,
    private readonly notify: () => void,
  ) {
    void this.open()
  }

  close(): void {
    this.isClosed = true
    clearTimeout(this.timer)
    this.poll(false)
    this.subscription?.close()
    this.probe?.heard()
  }

  private async open(): Promise<void> {
    try {
      const subscription = await this.database.listen(CHANNEL, {
        onNotice: (payload) => { this.receive(payload) },
        onLost: () => { this.lose() },
      })
      this.subscription = subscription
      if (this.isClosed) return subscription.close()
      // Jobs may have come in between.
      this.notify()
      await this.test()
    } catch {
      this.lose()
    }
  }

  private async test(): Promise<void> {
    const { subscription } = this
    const outcome = await this.send()
    if (this.isClosed || this.subscription !== subscription) return
    if (outcome === 'silent') return this.lose()
    if (outcome === 'received') this.reopenMs = REOPEN_MS.first
    this.poll(outcome !== 'received')
    this.later(BEAT_MS, () => this.test())
  }

  /** Sends a test notice through the pool and waits for it on the connection. */
  private async send(): Promise<'received' | 'silent' | 'unavailable'> {
    const payload = `${this.queue}:${newId()}`
    const received = new Promise<true>((resolve) => {
      this.probe = { payload, heard: () => { resolve(true) } }
    })
    try {
      await this.database.query('SELECT pg_notify($1, $2)', [CHANNEL, payload])
      const late = new Promise<false>((resolve) => {
        setTimeout(() => { resolve(false) }, PROBE_MS).unref()
      })
      return await Promise.race([received, late]) ? 'received' : 'silent'
    } catch {
      return 'unavailable'
    } finally {
      this.probe = undefined
    }
  }

  private receive(payload: string): void {
    if (payload === this.queue) this.notify()
    else if (payload === this.probe?.payload) this.probe.heard()
  }

  /** The connection was lost or receives nothing. Polls, and opens another one later. */
  private lose(): void {
    this.subscription?.close()
    this.subscription = undefined
    if (this.isClosed) return
    this.poll(true)
    this.later(this.reopenMs, () => this.open())
    this.reopenMs = Math.min(this.reopenMs * 2, REOPEN_MS.longest)
  }

  private poll(wanted: boolean): void {
    if (wanted === (this.polling !== undefined)) return
    clearInterval(this.polling)
    this.polling = wanted ? setInterval(this.notify, POLL_MS).unref() : undefined
  }

  private later(ms: number, work: () => Promise<void>): void {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => { void work() }, ms)
    this.timer.unref()
  }
}
