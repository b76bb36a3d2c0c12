import type { TaskRun } from '../../engine/engine.js'
import { RunSignal, WorkerClosingError } from '../../engine/runs.js'
import { MAX_TIMER_MS } from '../../runtime/options.js'
import { settles } from '../../runtime/timers.js'
import { shuttingDown } from './failure.js'

type StopSource = Pick<TaskRun, 'signal'> & Partial<Pick<TaskRun, 'onAbort'>>

interface Waiting {
  readonly giveUp: (error: Error) => void
}

function onTime(stop: Stop): void {
  stop.timeIsUp()
}

export const TIMED_OUT = new Error('The task ran longer than it may')

/** Time for which a run may continue after its signal has aborted, in milliseconds. */
const ABORT_GRACE_MS = 1000

/** Stops one run. */
export class Stop extends RunSignal {
  private ended = false
  private graceMs = ABORT_GRACE_MS
  private followed: { readonly signal: AbortSignal, readonly listener: () => void } | undefined
  private timer: ReturnType<typeof setTimeout> | undefined
  /** No closure in the field itself: dead runs would survive V8's minor collections (ADR 41). */
  private waiting: Waiting | undefined

  constructor(source: StopSource) {
    super()
    if (source.onAbort) source.onAbort((reason) => { this.abort(reason) })
    else this.follow(source.signal)
  }

  /** Aborts the run, which may continue for `graceMs`. Only the first reason counts. */
  override abort(reason: unknown, graceMs = ABORT_GRACE_MS): void {
    if (this.aborted || this.ended) return
    this.graceMs = graceMs
    if (this.waiting) this.startTimer(graceMs)
    super.abort(reason)
  }

  /** Waits for a run, which fails if it continues beyond its time and grace time. */
  waitFor<T, R>(
    run: PromiseLike<T>, timeoutMs: number,
    onValue: (value: T) => R, onError: (error: unknown) => R,
  ): Promise<R> {
    return new Promise((resolve) => {
      this.waiting = { giveUp: (error) => { resolve(onError(error)) } }
      this.startTimer(this.aborted ? this.graceMs : timeoutMs)
      // Wraps foreign thenables: their `then` may throw or settle twice.
      Promise.resolve(run).then(
        (value) => { resolve(onValue(value)) }, (error: unknown) => { resolve(onError(error)) },
      )
    })
  }

  end(): void {
    this.ended = true
    this.waiting = undefined
    clearTimeout(this.timer)
    this.followed?.signal.removeEventListener('abort', this.followed.listener)
  }

  private startTimer(ms: number): void {
    clearTimeout(this.timer)
    this.timer = setTimeout(onTime, ms, this).unref()
  }

  timeIsUp(): void {
    if (!this.aborted) this.abort(TIMED_OUT)
    else this.waiting?.giveUp(new Error('The run did not end after its signal had aborted'))
  }

  private follow(signal: AbortSignal): void {
    const listener = (): void => { this.abort(signal.reason) }
    if (signal.aborted) return listener()
    signal.addEventListener('abort', listener, { once: true })
    this.followed = { signal, listener }
  }
}

/** Time for aborted runs to end and for their responses, in milliseconds. */
const GRACE_MS = 2000

/** The active runs of synchronous requests. No engine knows them, so `close` waits for them here. */
export class DirectRuns {
  private readonly runs = new Map<Stop, Promise<unknown>>()
  private closed = false

  get size(): number {
    return this.runs.size
  }

  /** Performs a run. Throws 503 `shutting_down` once `close` was called. */
  async perform<T>(stop: Stop, run: () => Promise<T>): Promise<T> {
    if (this.closed) throw shuttingDown()
    const running = run()
    this.runs.set(stop, running)
    try {
      return await running
    } finally {
      this.runs.delete(stop)
    }
  }

  /** Lets active runs finish for up to `drainMs`, then aborts them and waits shortly. */
  async close(drainMs: number): Promise<void> {
    this.closed = true
    if (await this.end(drainMs)) return
    const reason = new WorkerClosingError()
    for (const stop of this.runs.keys()) stop.abort(reason)
    await this.end(GRACE_MS)
  }

  private end(ms: number): Promise<boolean> {
    return settles(Promise.allSettled(this.runs.values()), Math.min(ms, MAX_TIMER_MS))
  }
}
