import { channel } from 'node:diagnostics_channel'
import { LinkedList, type Linked } from '../runtime/collections.js'
import * as real from '../runtime/timers.js'
import { StoreUnavailableError, isStoreUnavailable } from './store.js'

/**
 * Number of ticks until a deadline. Counts ticks, not milliseconds, so that a process that was busy
 * itself does not blame the server.
 */
const TICKS = 10

/** Meaning of an error that a client rejected with. */
export interface Fault {
  /** True if the server itself reported the error, so it is reachable. */
  readonly answered: boolean
  /** Reason of the `StoreUnavailableError`. */
  readonly reason: 'full' | 'unavailable'
}

export interface BreakerOptions {
  /** Name of the server in messages, such as `Redis`. */
  readonly server: string
  /** Deadline of one call, in milliseconds. */
  readonly timeoutMs: number
  readonly faultOf: (error: unknown) => Fault
  /** Called after calls have timed out. */
  readonly onLate?: () => void
  /**
   * Each call has its own connection. A call that is late while others got a reply, such as
   * one that waits for a lock, then says nothing about the server. Default `false`.
   */
  readonly hasManyConnections?: boolean
}

interface Pending extends Linked<Pending> {
  /** Tick at which the call is late. */
  readonly due: number
  /** Number of replies before it began. */
  readonly answers: number
  readonly isProbe: boolean
  readonly reject: (error: Error) => void
  readonly cancel: (() => void) | undefined
  isOver: boolean
}

/**
 * Sets a deadline for every call to a server. After a call has timed out, further calls fail at
 * once, except one probe at a time, until the server replies again. So a request waits for one
 * deadline, not for one for each of its calls. One timer serves all calls.
 */
export class Breaker {
  /** In the order in which they were sent. */
  private readonly pending = new LinkedList<Pending>()
  private timer: ReturnType<typeof real.setTimeout> | undefined
  private ticks = 0
  private answers = 0
  private suspect = false
  private probing = false

  constructor(private readonly options: BreakerOptions) {}

  /**
   * Returns `read` of the reply of `work`. Rejects with a `StoreUnavailableError` if the call fails
   * or is late.
   *
   * @param cancel - called if the call is late
   */
  call<Reply, T>(
    work: () => Promise<Reply>, read: (reply: Reply) => T, cancel?: () => void,
  ): Promise<T> {
    const isProbe = this.suspect
    if (isProbe && this.probing) {
      const message = `${this.options.server} does not answer`
      return Promise.reject(new StoreUnavailableError(message))
    }
    return new Promise((resolve, reject) => {
      // Misuse throws here, before anything is waited for.
      const working = work()
      const call: Pending = {
        previous: undefined, next: undefined, due: this.ticks + TICKS + 1, answers: this.answers,
        isProbe, reject, cancel, isOver: false,
      }
      this.pending.push(call)
      if (isProbe) this.probing = true
      if (this.timer === undefined) this.arm()
      working.then((reply) => {
        this.end(call)
        this.answer()
        resolve(read(reply))
      }, (error: unknown) => {
        this.end(call)
        reject(this.toStoreError(error))
      })
    })
  }

  private arm(): void {
    const { server, timeoutMs, onLate, hasManyConnections } = this.options
    this.timer = real.setTimeout(() => {
      this.ticks++
      let late = false
      for (const call of this.pending) {
        if (call.due > this.ticks) break
        this.end(call)
        late = true
        if (!hasManyConnections || call.answers === this.answers) this.suspect = true
        const message = `${server} has not answered within ${timeoutMs} ms`
        call.reject(new StoreUnavailableError(message))
        call.cancel?.()
      }
      if (late) onLate?.()
      if (this.pending.size > 0) this.arm()
      else this.timer = undefined
    }, timeoutMs / TICKS)
    this.timer.unref()
  }

  private answer(): void {
    this.answers++
    this.suspect = false
  }

  private end(call: Pending): void {
    if (call.isOver) return
    call.isOver = true
    this.pending.remove(call)
    if (call.isProbe) this.probing = false
  }

  private toStoreError(error: unknown): Error {
    // Misuse says so itself.
    if (error instanceof TypeError || (error instanceof Error && isStoreUnavailable(error))) {
      return error
    }
    const { answered, reason } = this.options.faultOf(error)
    if (answered) this.answer()
    const message = error instanceof Error ? error.message : String(error)
    return new StoreUnavailableError(
      `${this.options.server} failed: ${message}`, { reason, cause: error },
    )
  }
}

/**
 * Event on the diagnostics channel `longhaul:store`: one for each call of a store or of a task
 * engine on Redis or PostgreSQL.
 */
export interface StoreEvent {
  /**
   * `look`, `take` and `renew` are calls of a worker: it searches for what is due about every
   * second, takes runs and callbacks, and renews the leases of its runs.
   */
  readonly verb:
    | 'get' | 'create' | 'replace' | 'delete' | 'increment' | 'watch'
    | 'read' | 'change' | 'list' | 'counts' | 'now'
    | 'look' | 'take' | 'renew'
  /**
   * `full` and `unavailable` are reasons of a `StoreUnavailableError`. `misuse` is a `TypeError`.
   */
  readonly outcome: 'ok' | 'full' | 'unavailable' | 'misuse'
  /** Duration of the call in milliseconds. */
  readonly ms: number
}

const storeEvents = channel('longhaul:store')

/** Makes a call. If somebody subscribed to the channel, publishes its duration and outcome. */
export function observed<T>(verb: StoreEvent['verb'], call: () => Promise<T>): Promise<T> {
  if (!storeEvents.hasSubscribers) return call()
  const began = performance.now()
  const publish = (outcome: StoreEvent['outcome']): void => {
    storeEvents.publish({ verb, outcome, ms: performance.now() - began } satisfies StoreEvent)
  }
  const calling = call()
  calling.then(() => { publish('ok') }, (error: unknown) => {
    publish(isStoreUnavailable(error) ? error.reason : 'misuse')
  })
  return calling
}

const FIRST_DELAY_MS = 100
const MAX_DELAY_MS = 2000
/** About five minutes in all: enough for a fail-over, or for a restart that reads a large log. */
const MAX_TRIES = 150

/** Repeats work. The work has to be right if an earlier try of it was made. */
export type Retry = <T>(work: () => Promise<T>) => Promise<T>

/**
 * Returns a function that retries work of a run while the store is unavailable, until `signal`
 * aborts.
 */
export function retryUntil(signal: AbortSignal): Retry {
  const retry = new StoreRetry(false)
  const stop = (): void => { retry.stop() }
  if (signal.aborted) stop()
  else signal.addEventListener('abort', stop, { once: true })
  return async (work) => {
    for (let tries = 1; ; tries++) {
      try {
        return await work()
      } catch (error) {
        await retry.backOff(error, tries)
      }
    }
  }
}

/**
 * Retries work on a store that is unavailable, for about five minutes, because the outcome of a run
 * is worth more than one lost call. `stop` ends the retries early, because a process that shuts
 * down does not have five minutes.
 */
export class StoreRetry {
  private readonly delays = new Set<() => void>()
  private stopped = false

  /**
   * @param shared - whether other processes share the store. A full store is retried only then,
   * because its operator can add memory; this process would wait for itself.
   */
  constructor(private readonly shared: boolean) {}

  /**
   * Resolves when it is time for the next try: after 0.1 s, 0.2 s, … 2 s, 2 s, …. Throws the error if
   * there is none. The work has to be right if an earlier try of it was made.
   */
  async backOff(error: unknown, tries: number): Promise<void> {
    if (this.stopped || tries === MAX_TRIES || !isStoreUnavailable(error)
      || (error.reason === 'full' && !this.shared)) {
      throw error
    }
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        this.delays.delete(done)
        resolve()
      }
      const timer = setTimeout(done, Math.min(FIRST_DELAY_MS * 2 ** (tries - 1), MAX_DELAY_MS)).unref()
      this.delays.add(done)
    })
  }

  /** Ends all delays. Each caller tries once more, and every later failure is final. */
  stop(): void {
    this.stopped = true
    for (const done of this.delays) done()
  }
}
