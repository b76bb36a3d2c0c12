import { channel } from 'node:diagnostics_channel'
import { isStoreUnavailable } from './store.js'

/**
 * Event on the diagnostics channel `longhaul:store`: one for each call of a store or of a task
 * engine on Redis or PostgreSQL.
 */
export interface StoreEvent {
  /**
   * `look`, `take` and `renew` are calls of a worker: it searches for what is due about every
   * second, takes runs and callbacks, and renews the leases of its runs.
   */
  readonly verb:
    | 'get' | 'create' | 'replace' | 'delete' | 'increment' | 'watch'
    | 'read' | 'change' | 'list' | 'counts' | 'now'
    | 'look' | 'take' | 'renew'
  /**
   * `full` and `unavailable` are reasons of a `StoreUnavailableError`. `misuse` is a `TypeError`.
   */
  readonly outcome: 'ok' | 'full' | 'unavailable' | 'misuse'
  /** Duration of the call in milliseconds. */
  readonly ms: number
}

const storeEvents = channel('longhaul:store')

/** Makes a call. If somebody subscribed to the channel, publishes its duration and outcome. */
export function observed<T>(verb: StoreEvent['verb'], call: () => Promise<T>): Promise<T> {
  return storeEvents.hasSubscribers ? timed(verb, call()) : call()
}

async function timed<T>(verb: StoreEvent['verb'], call: Promise<T>): Promise<T> {
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
