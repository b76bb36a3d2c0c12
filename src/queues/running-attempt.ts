import type { Attempt } from './queue.js'

/** What `run` gets. The signal is made when it is asked for: most runs never look at it. */
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

  /** Why it was stopped, if it was. */
  get reason(): Error | undefined {
    return this.#reason
  }

  /** Tells the run to stop. */
  abort(reason: Error): void {
    this.#reason = reason
    this.#controller?.abort(reason)
  }
}
