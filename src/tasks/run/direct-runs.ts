import { httpError, type HttpError } from '../../http/errors.js'
import { QueueClosingError } from '../../queues/queue.js'
import { ShortLivedMap } from '../../queues/short-lived-map.js'
import { MAX_TIMER } from '../definition/bounds.js'
import type { Stop } from './stop.js'

/**
 * How long runs that were told to stop have to end and be answered. Those that do not listen lose
 * their place after half of it.
 */
const GRACE_MS = 2000

/**
 * The runs of direct answers: no queue knows them, and a process that stops has to wait for them
 * all the same.
 */
export class DirectRuns {
  private readonly stops = new ShortLivedMap<Stop, Stop>()
  private closed = false
  private onIdle: (() => void) | undefined

  get size(): number {
    return this.stops.size
  }

  /** A run is about to begin. Throws 503 `shutting_down` once `close` was called. */
  enter(stop: Stop): void {
    if (this.closed) throw shuttingDown()
    this.stops.set(stop, stop)
  }

  /** It has ended, and what there is to write of it is written. */
  leave(stop: Stop): void {
    this.stops.delete(stop)
    if (this.size === 0) this.onIdle?.()
  }

  /**
   * Lets what runs finish for up to `drainMs`, then aborts it. Resolves when nothing is left, or
   * soon after the abort.
   */
  async close(drainMs: number): Promise<void> {
    this.closed = true
    await this.idle(drainMs)
    const reason = new QueueClosingError()
    for (const stop of this.stops.values()) stop.abort(reason)
    await this.idle(GRACE_MS)
  }

  /** Its timer holds the process: without it a drain could be cut short. */
  private idle(ms: number): Promise<void> | undefined {
    if (this.size === 0) return undefined
    return new Promise((resolve) => {
      const timer = setTimeout(this.onIdle = () => {
        clearTimeout(timer)
        resolve()
      }, Math.min(ms, MAX_TIMER))
    })
  }
}

/** What is refused because this process stops. */
export function shuttingDown(): HttpError {
  return httpError('shutting_down', { headers: { 'retry-after': '5' } })
}
