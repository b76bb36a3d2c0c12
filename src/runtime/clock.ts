/** The time and the timers of an engine. Tests replace it to move time forward themselves. */
export interface Clock {
  /** Returns milliseconds from an arbitrary start. Never goes back. */
  now(): number
  /**
   * Calls `callback` once, `delayMs` milliseconds from now. A waiting timer does not keep the
   * process alive.
   *
   * @param delayMs - at most 2^31 - 1
   * @returns a function that cancels the call
   */
  schedule(delayMs: number, callback: () => void): () => void
  /**
   * Notes that work has begun. Absent from a clock that moves by itself. A manual clock stands
   * still until the returned function is called.
   */
  readonly hold?: () => () => void
}

/** Read once: the global is a getter in Node, and takes longer than the call. */
const { performance } = globalThis

/** The monotonic clock of the process. */
export const systemClock: Clock = {
  now: () => performance.now(),
  schedule: (delayMs, callback) => {
    const timer = setTimeout(callback, delayMs)
    timer.unref()
    return () => { clearTimeout(timer) }
  },
}
