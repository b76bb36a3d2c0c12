import timers from 'node:timers'
import { MAX_TIMER_MS } from './options.js'

/** The timers of Node, captured when the package is loaded, so that fake timers of tests do not affect them. */
export const { clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate } = timers
const { setTimeout: start } = timers

/**
 * Calls `callback` with `of` after `ms` milliseconds. `Infinity`: never, as long as the process lives.
 * The function of Node would call it at once for more than 2^31 - 1. Fake timers do not affect it.
 */
export function setTimeout<T>(callback: (of: T) => void, ms?: number, of?: T): NodeJS.Timeout {
  return startLong(start, callback, ms, of)
}

/**
 * Starts a timer of `globalThis`, which fake timers of tests replace. Otherwise like `setTimeout`.
 */
export function setGlobalTimeout<T>(
  callback: (of: T) => void, ms?: number, of?: T,
): NodeJS.Timeout {
  return startLong(globalThis.setTimeout, callback, ms, of)
}

function startLong<T>(
  start: typeof globalThis.setTimeout, callback: (of: T) => void, ms = 0, of?: T,
): NodeJS.Timeout {
  if (!(ms > MAX_TIMER_MS)) {
    return of === undefined ? start(callback as () => void, ms) : start(callback, ms, of)
  }
  let steps = Math.ceil(ms / MAX_TIMER_MS)
  const timer = start(() => {
    if (--steps > 0) timer.refresh()
    else callback(of as T)
  }, ms === Infinity ? MAX_TIMER_MS : ms / steps)
  return timer
}

/** Settles as `work` does. Rejects with the error of `onLate` if `work` takes more than `ms` ms. */
export function within<T>(work: Promise<T>, ms: number, onLate: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => { reject(onLate()) }, ms).unref()
    work.then(resolve, reject).finally(() => { clearTimeout(timer) })
  })
}

/** Resolves to `true` if `work` settles within `ms` milliseconds. Keeps the process alive. */
export async function settles(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => { resolve(false) }, ms)
  })
  const settled = await Promise.race([work.then(() => true, () => true), late])
  clearTimeout(timer)
  return settled
}

/** Settles as `work` does, or rejects with the reason of `signal` as soon as that aborts. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => { reject(signal.reason as Error) }
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
    work.then(resolve, reject).finally(() => { signal.removeEventListener('abort', stop) })
  })
}

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
  /** Notes that work has begun. A manual clock stands still until the returned function is called. */
  readonly hold?: () => () => void
}

/** Read once, because the global is a slow getter in Node. */
const { performance } = globalThis

export const systemClock: Clock = {
  now: () => performance.now(),
  schedule: (delayMs, callback) => {
    // Fake timers replace the global ones together with `performance`.
    const timer = setGlobalTimeout(callback, delayMs)
    timer.unref()
    return () => { globalThis.clearTimeout(timer) }
  },
}

/** Yields to the event loop once. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => { setImmediate(resolve) })
}

/** Time after which work yields to the event loop, in milliseconds. */
const TURN_MS = 10

/** Lets a loop yield to the event loop: `if (turns.due) await turns.next()`. */
export class Turns {
  private began = performance.now()

  get due(): boolean {
    return performance.now() - this.began >= TURN_MS
  }

  async next(): Promise<void> {
    await nextTurn()
    this.began = performance.now()
  }
}
