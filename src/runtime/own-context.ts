import { AsyncResource } from 'node:async_hooks'

/**
 * The async context (`AsyncLocalStorage`) in which it was created. Call functions that belong to no
 * request in it, because a timer, a promise or a listener may belong to the request of any user.
 *
 * @example
 * const context = new OwnContext()
 * context.run(() => console.log('Not in the context of a request'))
 */
export class OwnContext {
  readonly #origin = new AsyncResource('longhaul')

  /**
   * Calls `work` in this context. A context that `work` enters by `enterWith` ends with the call.
   */
  run<R>(work: () => R): R
  run<A, R>(work: (argument: A) => R, argument: A): R
  run<R>(work: (argument?: unknown) => R, argument?: unknown): R {
    return this.#origin.runInAsyncScope(callApart, undefined, work, argument) as R
  }
}

/** Node 20 and 22 let `enterWith` change the resource itself, so each call has its own resource. */
function callApart<A, R>(work: (argument: A) => R, argument: A): R {
  return new AsyncResource('longhaul').runInAsyncScope(work, undefined, argument)
}
