import type { MaybePromise } from '../wire/maybe-promise.js'

export type { MaybePromise }

export function isPending<T>(value: MaybePromise<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | undefined)?.then === 'function'
}

/** Calls `next` with a value: at once, or when its promise resolves. */
export function after<T, U>(
  value: MaybePromise<T>, next: (value: T) => MaybePromise<U>,
): MaybePromise<U> {
  return isPending(value) ? value.then(next) : next(value)
}

/** Does work one after the other. */
export class Sequence {
  private last: Promise<unknown> = Promise.resolve()

  /** Does work once all earlier work has ended, or failed. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const done = this.last.then(work)
    this.last = done.catch(() => undefined)
    return done
  }
}
