import { WorkerClosingError } from '../../engine/stop-reasons.js'
import { MAX_TIMER } from '../definition/bounds.js'
import { shuttingDown } from '../record/not-accepted.js'
import type { Stop } from './stop.js'

/** Time for aborted runs to end and be answered, in milliseconds. */
const GRACE_MS = 2000

/**
 * The active runs of direct answers. No engine knows them, so a process that shuts down waits for
 * them here.
 */
export class DirectRuns {
  private readonly stops = new Set<Stop>()
  private closed = false
  private onIdle: (() => void) | undefined

  get size(): number {
    return this.stops.size
  }

  /** Adds a run that is about to begin. Throws 503 `shutting_down` once `close` was called. */
  add(stop: Stop): void {
    if (this.closed) throw shuttingDown()
    this.stops.add(stop)
  }

  /** Removes a run that has ended. */
  remove(stop: Stop): void {
    this.stops.delete(stop)
    if (this.size === 0) this.onIdle?.()
  }

  /**
   * Lets active runs finish for up to `drainMs`, then aborts them. Resolves when no run is left, or
   * soon after the abort.
   */
  async close(drainMs: number): Promise<void> {
    this.closed = true
    await this.idle(drainMs)
    const reason = new WorkerClosingError()
    for (const stop of this.stops) stop.abort(reason)
    await this.idle(GRACE_MS)
  }

  /** The timer keeps the process alive, so that the process drains completely. */
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
