import type { Attempt } from './queue.js'

/**
 * Attempt that `run` receives. Creates its signal on first access, because most runs never read it.
 */
export class RunningAttempt implements Attempt {
  readonly attempt: number
  readonly lastAttempt: boolean
  #controller: AbortController | undefined
  #reason: Error | undefined

  constructor(attempt: number, lastAttempt: boolean) {
    this.attempt = attempt
    this.lastAttempt = lastAttempt
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#reason !== undefined) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  /** Reason for the abort, if the attempt was aborted. */
  get reason(): Error | undefined {
    return this.#reason
  }

  /** Aborts the attempt. */
  abort(reason: Error): void {
    this.#reason = reason
    this.#controller?.abort(reason)
  }
}
