import { afterMicrotasks, type Lasting } from './after-microtasks.js'
import { afterShort, SHORT_MS, type Short } from './after-short.js'

/**
 * Who else may stop a run: the attempt of a queue, a request. Its signal is made when it is read.
 */
export interface StopSource {
  readonly signal: AbortSignal
}

/** The abort reason of a run whose time is over. */
export const TIMED_OUT = new Error('The task ran longer than it may')

/**
 * Stops one run: when its task is cancelled, its time is over, or its queue or request says so. An
 * AbortController, a listener and a timer cost more than all the rest of a short run, so they are
 * made once the run asks for its signal, or has outlasted the short ones.
 */
export class Stop implements Lasting, Short {
  aborted = false
  reason: unknown
  private controller: AbortController | undefined
  private unwatch: (() => void) | undefined
  private watched = false
  private minded = false
  /** The run has ended. */
  over = false
  /** When the time is over, on `performance.now()`. */
  private deadline = Infinity
  private timer: ReturnType<typeof setTimeout> | undefined
  private graceMs = 0
  private onGraceOver: (() => void) | undefined

  constructor(private readonly source: StopSource) {}

  /** The signal for the run. From now on it follows its source. */
  get signal(): AbortSignal {
    if (!this.controller) {
      this.controller = new AbortController()
      this.watch()
      if (this.aborted) this.controller.abort(this.reason)
    }
    return this.controller.signal
  }

  /** Tells the run to stop; the first reason stands. */
  abort(reason: unknown): void {
    if (this.aborted || this.over) return
    this.aborted = true
    this.reason = reason
    clearTimeout(this.timer)
    if (this.onGraceOver) this.timer = setTimeout(this.onGraceOver, this.graceMs).unref()
    this.controller?.abort(reason)
  }

  /**
   * The run begins, and may take `timeoutMs`. `onGraceOver` is called when it goes on for `graceMs`
   * after it was told to stop.
   */
  begin(timeoutMs: number, graceMs: number, onGraceOver: () => void): void {
    this.deadline = performance.now() + timeoutMs
    this.graceMs = graceMs
    this.onGraceOver = onGraceOver
    if (this.watched || timeoutMs <= 2 * SHORT_MS) this.watch()
    else if (!this.minded) afterMicrotasks(this)
  }

  turnOver(): void {
    this.mind()
  }

  /** Follows the source, and the clock, once the run has outlasted the short ones. */
  mind(): void {
    if (this.over || this.minded) return
    this.minded = true
    afterShort(this)
  }

  outlast(): void {
    this.watch()
  }

  /** The run has ended: nothing is called any more. */
  end(): void {
    this.over = true
    if (this.timer) clearTimeout(this.timer)
    this.unwatch?.()
    // This may stay among the young ones for a moment, and the whole run must not hang on it.
    this.onGraceOver = undefined
  }

  /** Follows the source, and the clock once the run has begun. */
  watch(): void {
    if (this.over) return
    if (!this.watched) {
      this.watched = true
      this.follow(this.source.signal)
    }
    if (this.aborted || this.timer !== undefined || this.deadline === Infinity) return
    this.timer = setTimeout(() => { this.abort(TIMED_OUT) }, Math.max(this.deadline - performance.now(), 0)).unref()
  }

  private follow(signal: AbortSignal): void {
    if (signal.aborted) return this.abort(signal.reason)
    const stop = () => { this.abort(signal.reason) }
    signal.addEventListener('abort', stop, { once: true })
    this.unwatch = () => { signal.removeEventListener('abort', stop) }
  }
}
