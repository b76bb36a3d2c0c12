import { channel } from 'node:diagnostics_channel'
import { isStoreUnavailable } from './store.js'

/** What `diagnostics_channel` `longhaul:store` tells of each call of a store over a network. */
export interface StoreEvent {
  readonly verb: 'get' | 'create' | 'replace' | 'delete' | 'increment' | 'watch'
  /** `full` and `unavailable` are the reasons of a `StoreUnavailableError`. */
  readonly outcome: 'ok' | 'full' | 'unavailable' | 'misuse'
  /** How long the caller waited, in milliseconds. */
  readonly ms: number
}

/** Whoever makes calls asks for `hasSubscribers` first. */
export const storeEvents = channel('longhaul:store')

/** Tells how long `call` takes and what comes of it; settles as it does. */
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
