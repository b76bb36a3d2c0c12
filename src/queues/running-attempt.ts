import type { Attempt } from './queue.js'

/**
 * The attempt that a queue passes to `run`. The AbortController is created when the signal is read,
 * because most runs never read it.
 */
export class RunningAttempt implements Attempt {
  readonly attempt: number
  readonly lastAttempt: boolean
  #controller: AbortController | undefined
  #reason: Error | undefined
  readonly #listeners: ((reason: Error) => void)[] = []

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

  /** Reason of the abort, if the run was stopped. */
  get reason(): Error | undefined {
    return this.#reason
  }

  /** Calls `listener` when the attempt is aborted; at once if it already was. */
  onAbort(listener: (reason: Error) => void): void {
    if (this.#reason === undefined) this.#listeners.push(listener)
    else listener(this.#reason)
  }

  /** Stops the run. Later calls do nothing. */
  abort(reason: Error): void {
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.#controller?.abort(reason)
    for (const listener of this.#listeners) listener(reason)
  }
}
