/**
 * The signal of one run. The AbortController is created when the signal is read, because creating
 * one costs a quarter of an accept, and most runs never read it.
 */
export class RunSignal {
  #controller: AbortController | undefined
  #reason: Error | undefined
  #listeners: ((reason: unknown) => void)[] | undefined

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#reason !== undefined) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  /** Calls `listener` when the run is aborted; at once if it was. */
  readonly onAbort = (listener: (reason: unknown) => void): void => {
    if (this.#reason === undefined) (this.#listeners ??= []).push(listener)
    else listener(this.#reason)
  }

  /** Stops the run. Later calls do nothing. */
  abort(reason: Error): void {
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.#controller?.abort(reason)
    for (const listener of this.#listeners ?? []) listener(reason)
  }
}
