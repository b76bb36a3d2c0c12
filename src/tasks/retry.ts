import type { MaybePromise } from '../http/exchange.js'
import { isStoreUnavailable } from '../stores/store.js'

const FIRST_MS = 100
const LONGEST_MS = 2000
/** Some five minutes: as long as a fail-over, or a restart that has a large log to read. */
const TRIES = 150

/**
 * Does work on the store again (after 0.1 s, 0.2 s, … 2 s, 2 s, …) for some five minutes while the store is unavailable: what
 * a run came to is worth more than one lost call, and a run that could not be written down has not failed. `work` has to
 * be right when an earlier write of it landed.
 */
export async function patiently<T>(work: () => MaybePromise<T>): Promise<T> {
  for (let tried = 1; ; tried++) {
    try {
      return await work()
    } catch (error) {
      await pauseAfter(error, tried)
    }
  }
}

/**
 * Resolves when it is time for the next try; throws the error when there is none. That a store is full is waited for where it is `shared`:
 * whoever looks after it makes room. In memory only this process could, and it would wait for itself.
 */
export async function pauseAfter(error: unknown, tried: number, shared = false): Promise<void> {
  if (tried === TRIES || !isStoreUnavailable(error) || (error.reason === 'full' && !shared)) throw error
  await new Promise((resolve) => { setTimeout(resolve, Math.min(FIRST_MS * 2 ** (tried - 1), LONGEST_MS)).unref() })
}
