import { isPending } from './around.js'
import type { MaybePromise } from './exchange.js'

/** Goes on with a value, without a promise where it is at hand. What `next` throws is thrown then, else it is a rejection. */
export function after<T, U>(value: MaybePromise<T>, next: (value: T) => MaybePromise<U>): MaybePromise<U> {
  return isPending(value) ? value.then(next) : next(value)
}
