import { channel } from 'node:diagnostics_channel'
import { isStoreUnavailable } from './store.js'

/**
 * Event on the diagnostics channel `longhaul:store`: one for each call of a store over a network.
 */
export interface StoreEvent {
  readonly verb: 'get' | 'create' | 'replace' | 'delete' | 'increment' | 'watch'
  /**
   * `full` and `unavailable` are reasons of a `StoreUnavailableError`. `misuse` is a `TypeError`.
   */
  readonly outcome: 'ok' | 'full' | 'unavailable' | 'misuse'
  /** Duration of the call in milliseconds. */
  readonly ms: number
}

/** Diagnostics channel of store calls. Check `hasSubscribers` before calling `timed`. */
export const storeEvents = channel('longhaul:store')

/** Publishes duration and outcome of `call`. Settles as it does. */
export async function timed<T>(verb: StoreEvent['verb'], call: Promise<T>): Promise<T> {
  const began = performance.now()
  let outcome: StoreEvent['outcome'] = 'ok'
  try {
    return await call
  } catch (error) {
    outcome = isStoreUnavailable(error) ? error.reason : 'misuse'
    throw error
  } finally {
    storeEvents.publish({ verb, outcome, ms: performance.now() - began } satisfies StoreEvent)
  }
}
