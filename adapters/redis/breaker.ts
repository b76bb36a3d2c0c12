import { StoreUnavailableError } from '../../src/stores/store.js'

/** A deadline has come after so many ticks. Ticks, not milliseconds: a process that was busy itself must not blame Redis. */
const TICKS = 10

interface Pending {
  /** The tick that is too late. */
  readonly due: number
  readonly probe: boolean
  readonly reject: (error: Error) => void
}

/**
 * One deadline around every call, and no queue behind a server that has stopped answering: after a call that ran out of time the
 * next ones fail at once, but for one probe at a time, until Redis says something again. A request so waits for
 * one deadline, not for one for each of its calls. One timer serves all calls.
 */
export class Breaker {
  private readonly pending = new Set<Pending>()
  private timer: ReturnType<typeof setTimeout> | undefined
  private ticks = 0
  private suspect = false
  private probing = false

  constructor(private readonly timeoutMs: number) {}

  /** What `read` makes of what `work` comes to; rejects with a `StoreUnavailableError` when it fails or is late. */
  call<Reply, T>(work: () => Promise<Reply>, read: (reply: Reply) => T): Promise<T> {
    const probe = this.suspect
    if (probe) {
      if (this.probing) return Promise.reject(new StoreUnavailableError('Redis does not answer'))
    }
    return new Promise((resolve, reject) => {
      // Misuse throws here, before anything is waited for.
      const working = work()
      const call: Pending = { due: this.ticks + TICKS + 1, probe, reject }
      this.pending.add(call)
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
      for (const call of this.pending) {
        // Calls are kept in the order in which they came.
        if (call.due > this.ticks) break
        this.end(call)
        this.suspect = true
        call.reject(new StoreUnavailableError(`Redis has not answered within ${String(this.timeoutMs)} ms`))
      }
      if (this.pending.size > 0) this.arm()
      else this.timer = undefined
    }, this.timeoutMs / TICKS)
    this.timer.unref()
  }

  private end(call: Pending): void {
    if (this.pending.delete(call) && call.probe) this.probing = false
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
