import { ClientError, isClientError } from './errors.js'
import { reasonOf } from './pause.js'

/** Lifetime of one request. Ends with the caller's signal, or if the server is silent too long. */
export class Scope {
  private readonly controller = new AbortController()
  private timer: ReturnType<typeof setTimeout> | undefined
  private silent = false
  private readonly stop = () => { this.controller.abort() }

  constructor(
    private readonly outer: AbortSignal | undefined, private readonly timeoutMs: number,
  ) {
    if (outer?.aborted) throw reasonOf(outer)
    outer?.addEventListener('abort', this.stop)
    this.touch()
  }

  get signal(): AbortSignal {
    return this.controller.signal
  }

  /** Restarts the timeout. Call it when data arrives. */
  touch(): void {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => {
      this.silent = true
      this.stop()
    }, this.timeoutMs)
  }

  /** Clears the timer and the listener on the caller's signal. */
  close(): void {
    clearTimeout(this.timer)
    this.outer?.removeEventListener('abort', this.stop)
  }

  /** Returns what to throw for `error`: the reason of the caller's signal, or a `ClientError`. */
  explain(error?: unknown): unknown {
    if (this.outer?.aborted) return reasonOf(this.outer)
    if (isClientError(error)) return error
    if (this.silent) {
      return new ClientError('timeout', `The server was silent for ${this.timeoutMs} ms.`)
    }
    const message = 'The server could not be reached, or the connection broke.'
    return new ClientError('network_error', message, { cause: error })
  }
}
