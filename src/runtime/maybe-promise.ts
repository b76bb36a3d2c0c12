/** A value, or a promise of it. */
export type MaybePromise<T> = T | Promise<T>

/** Returns whether a value is still to come. */
export function isPending<T>(value: MaybePromise<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | undefined)?.then === 'function'
}

/** Calls `next` with a value: at once if it is there, else when the promise resolves. */
export function after<T, U>(value: MaybePromise<T>, next: (value: T) => MaybePromise<U>): MaybePromise<U> {
  return isPending(value) ? value.then(next) : next(value)
}
