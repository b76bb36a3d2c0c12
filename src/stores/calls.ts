import { channel } from 'node:diagnostics_channel'
import * as real from '../runtime/timers.js'
import { StoreUnavailableError, isStoreUnavailable } from './store.js'

export interface Fault {
  /** True if the server itself reported the error, so the server is reachable. */
  readonly hasReplied: boolean
  /**
   * True if the server will always reject this call: because of its values, or a missing table or
   * right.
   */
  readonly isPermanent?: boolean
  readonly reason: 'full' | 'unavailable'
}

export interface BreakerOptions {
  /** Name of the server in messages, such as `Redis`. */
  readonly server: string
  readonly timeoutMs: number
  readonly faultOf: (error: unknown) => Fault
  /** Called after a call has timed out. */
  readonly onLate?: () => void
  /** Returns the cause of a late call, if it is known. */
  readonly causeOfLate?: () => unknown
  /** `true`: a late call proves nothing if other calls got a reply. Default `false`. */
  readonly hasManyConnections?: boolean
}

/**
 * Limits the time of calls. After a late call, all calls fail at once, except one probe at a time.
 */
export class Breaker {
  private replies = 0
  private suspect = false
  private probing = false

  constructor(private readonly options: BreakerOptions) {}

  /** @param cancel - called if the call is late */
  call<Reply, T>(
    work: () => Promise<Reply>, read: (reply: Reply) => T, cancel?: () => void,
  ): Promise<T> {
    const { server, timeoutMs, hasManyConnections, onLate } = this.options
    const isProbe = this.suspect
    if (isProbe && this.probing) return Promise.reject(this.lateError(`${server} does not respond`))
    return new Promise((resolve, reject) => {
      // Misuse throws here.
      const working = work()
      const { replies } = this
      let isOver = false
      const end = (): void => {
        if (isOver) return
        isOver = true
        real.clearTimeout(timer)
        if (isProbe) this.probing = false
      }
      const giveUp = (): void => {
        end()
        if (!hasManyConnections || replies === this.replies) this.suspect = true
        onLate?.()
        reject(this.lateError(`${server} has not responded within ${timeoutMs} ms`))
        cancel?.()
      }
      // A process that was busy first reads what has arrived.
      let timer = real.setTimeout(() => {
        timer = real.setTimeout(giveUp, timeoutMs / 10).unref()
      }, timeoutMs).unref()
      if (isProbe) this.probing = true
      working.then((reply) => {
        end()
        this.noteReply()
        resolve(read(reply))
      }, (error: unknown) => {
        end()
        reject(this.toStoreError(error))
      })
    })
  }

  private lateError(message: string): Error {
    return new StoreUnavailableError(message, { cause: this.options.causeOfLate?.() })
  }

  private noteReply(): void {
    this.replies++
    this.suspect = false
  }

  private toStoreError(error: unknown): Error {
    if (error instanceof TypeError || (error instanceof Error && isStoreUnavailable(error))) {
      return error
    }
    const { hasReplied, isPermanent, reason } = this.options.faultOf(error)
    if (hasReplied) this.noteReply()
    if (isPermanent === true) {
      return new TypeError(`${this.options.server} rejected the call: ${reasonOf(error)}`, { cause: error })
    }
    return new StoreUnavailableError(
      `${this.options.server} failed: ${reasonOf(error)}`, { reason, cause: error },
    )
  }
}

/** Returns the message of an error, or its code: Node has no message if several addresses fail. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { message, code = error.name } = error as Error & { readonly code?: string }
  return message || code
}

/** Event on the diagnostics channel `longhaul:store`: a call to Redis or PostgreSQL. */
export interface StoreEvent {
  /** A worker calls `look` about every second, `take` for runs and callbacks, and `renew` for leases. */
  readonly verb:
    | 'get' | 'create' | 'replace' | 'delete' | 'increment' | 'watch'
    | 'read' | 'change' | 'list' | 'counts' | 'now' | 'probe'
    | 'look' | 'take' | 'renew'
  /** Reason of a `StoreUnavailableError`; `misuse` for a `TypeError`. */
  readonly outcome: 'ok' | 'full' | 'unavailable' | 'misuse'
  /** The error, unless the outcome is `ok`. Its `cause` may be the error of the driver. */
  readonly error?: unknown
  /** Duration of the call in milliseconds. */
  readonly ms: number
}

const storeEvents = channel('longhaul:store')

/** Makes a call, and publishes its duration and outcome to subscribers of the channel. */
export function observed<T>(verb: StoreEvent['verb'], call: () => Promise<T>): Promise<T> {
  if (!storeEvents.hasSubscribers) return call()
  const began = performance.now()
  const publish = (end: Pick<StoreEvent, 'outcome' | 'error'>): void => {
    storeEvents.publish({ verb, ...end, ms: performance.now() - began } satisfies StoreEvent)
  }
  const calling = call()
  calling.then(() => { publish({ outcome: 'ok' }) }, (error: unknown) => {
    publish({ outcome: isStoreUnavailable(error) ? error.reason : 'misuse', error })
  })
  return calling
}

const FIRST_DELAY_MS = 100
const MAX_DELAY_MS = 2000
/** About five minutes in all: enough for a fail-over, or for a restart that reads a large log. */
const MAX_TRIES = 150

/** Retries idempotent work. */
export type Retry = <T>(work: () => Promise<T>) => Promise<T>

/** Returns a function that retries work while the store is unavailable, until `signal` aborts. */
export function retryUntil(signal: AbortSignal): Retry {
  const retry = new StoreRetry(false, signal)
  return (work) => retry.run(work)
}

/** Retries work on a store that is unavailable, for about five minutes. */
export class StoreRetry {
  /**
   * @param shared - true retries a full store, because others may make space
   * @param signal - ends all delays: each call tries once more
   */
  constructor(private readonly shared: boolean, private readonly signal: AbortSignal) {}

  /** @param first - the first try, if it was begun */
  async run<T>(work: () => T | Promise<T>, first?: Promise<T>): Promise<T> {
    for (let tries = 1, trying = first; ; tries++, trying = undefined) {
      try {
        return await (trying ?? work())
      } catch (error) {
        await this.backOff(error, tries)
      }
    }
  }

  /** Waits for the next try. Throws the error if there is none. */
  async backOff(error: unknown, tries: number): Promise<void> {
    const { signal, shared } = this
    if (signal.aborted || tries === MAX_TRIES || !isStoreUnavailable(error)
      || (error.reason === 'full' && !shared)) {
      throw error
    }
    const delay = new Promise((resolve) => {
      real.setGlobalTimeout(resolve, Math.min(FIRST_DELAY_MS * 2 ** (tries - 1), MAX_DELAY_MS)).unref()
    })
    await real.unlessAborted(delay, signal).catch(() => undefined)
  }
}
