import { ClientError, isClientError } from './errors.js'
import { reasonOf } from './pause.js'

/**
 * The life of one request: it ends with the caller's signal, or when the server has been silent for
 * too long.
 */
export class Scope {
  private readonly controller = new AbortController()
  private timer: ReturnType<typeof setTimeout> | undefined
  private silent = false
  private readonly stop = () => { this.controller.abort() }

  constructor(private readonly outer: AbortSignal | undefined, private readonly timeoutMs: number) {
    if (outer?.aborted) throw reasonOf(outer)
    outer?.addEventListener('abort', this.stop)
    this.touch()
  }

  get signal(): AbortSignal {
    return this.controller.signal
  }

  /** Something came. */
  touch(): void {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => {
      this.silent = true
      this.stop()
    }, this.timeoutMs)
  }

  /** Lets go of the timer and the caller's signal. */
  close(): void {
    clearTimeout(this.timer)
    this.outer?.removeEventListener('abort', this.stop)
  }

  /** What to throw in the place of `error`: the caller's own reason, or why nothing came. */
  explain(error?: unknown): unknown {
    if (this.outer?.aborted) return reasonOf(this.outer)
    if (isClientError(error)) return error
    if (this.silent) return new ClientError('timeout', `The server was silent for ${this.timeoutMs} ms.`)
    return new ClientError('network_error', 'The server could not be reached, or the connection broke.', { cause: error })
  }
}
