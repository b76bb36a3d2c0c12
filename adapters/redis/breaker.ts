import timers from 'node:timers'
import { StoreUnavailableError } from '../../src/stores/store.js'

// Taken at once: Redis keeps real time, also under a test's fake timers, and one of those would be
// the last when they go.
const { setTimeout } = timers

/**
 * Number of ticks until a deadline. Counts ticks, not milliseconds, so that a process that was busy
 * itself does not blame Redis.
 */
const TICKS = 10

/**
 * A pending call in a linked list. A `Set` with frequent changes would retain entries for too long.
 */
class Pending {
  before: Pending | undefined
  after: Pending | undefined
  over = false

  /** @param due - the tick at which the call is late */
  constructor(
    readonly due: number, readonly probe: boolean, readonly reject: (error: Error) => void,
  ) {}
}

/**
 * Sets a deadline for every call. After a call has timed out, further calls fail at once, except
 * one probe at a time, until Redis replies again. So a request waits for one deadline, not for one
 * for each of its calls. One timer serves all calls.
 */
export class Breaker {
  private first: Pending | undefined
  private last: Pending | undefined
  private timer: ReturnType<typeof setTimeout> | undefined
  private ticks = 0
  private suspect = false
  private probing = false

  /** @param onLate - called when calls have timed out */
  constructor(
    private readonly timeoutMs: number, private readonly onLate: () => void = () => undefined,
  ) {}

  /**
   * Returns `read` of the reply of `work`. Rejects with a `StoreUnavailableError` if the call fails
   * or is late.
   */
  call<Reply, T>(work: () => Promise<Reply>, read: (reply: Reply) => T): Promise<T> {
    const probe = this.suspect
    if (probe) {
      if (this.probing) return Promise.reject(new StoreUnavailableError('Redis does not answer'))
    }
    return new Promise((resolve, reject) => {
      // Misuse throws here, before anything is waited for.
      const working = work()
      const call = this.begin(new Pending(this.ticks + TICKS + 1, probe, reject))
      if (probe) this.probing = true
      if (this.timer === undefined) this.arm()
      working.then((reply) => {
        this.end(call)
        this.suspect = false
        resolve(read(reply))
      }, (error: unknown) => {
        this.end(call)
        // Redis said no: it is there.
        if (isReply(error)) this.suspect = false
        reject(toStoreError(error))
      })
    })
  }

  private arm(): void {
    this.timer = setTimeout(() => {
      this.ticks++
      let late = false
      // Calls are kept in the order in which they came.
      for (let call = this.first; call !== undefined && call.due <= this.ticks; call = this.first) {
        this.end(call)
        this.suspect = late = true
        const message = `Redis has not answered within ${String(this.timeoutMs)} ms`
        call.reject(new StoreUnavailableError(message))
      }
      if (late) this.onLate()
      if (this.first) this.arm()
      else this.timer = undefined
    }, this.timeoutMs / TICKS)
    this.timer.unref()
  }

  private begin(call: Pending): Pending {
    call.before = this.last
    if (this.last) this.last.after = call
    else this.first = call
    this.last = call
    return call
  }

  private end(call: Pending): void {
    if (call.over) return
    call.over = true
    const { before, after } = call
    if (before) before.after = after
    else this.first = after
    if (after) after.before = before
    else this.last = before
    call.before = call.after = undefined
    if (call.probe) this.probing = false
  }
}

function isReply(error: unknown): boolean {
  return error instanceof Error && error.name === 'ReplyError'
}

function toStoreError(error: unknown): Error {
  // Misuse says so itself.
  if (error instanceof StoreUnavailableError || error instanceof TypeError) return error
  const message = error instanceof Error ? error.message : String(error)
  const reason = isReply(error) && message.includes('OOM ') ? 'full' : 'unavailable'
  return new StoreUnavailableError(`Redis failed: ${message}`, { reason, cause: error })
}
