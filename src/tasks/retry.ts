import type { MaybePromise } from '../http/exchange.js'
import { isStoreUnavailable } from '../stores/store.js'

const FIRST_MS = 100
const TRIES = 6

/**
 * Does work on the store again (after 0.1 s, 0.2 s, … 1.6 s) while the store is unavailable: what a run
 * came to is worth more than one lost call. `work` has to be right when an earlier write of it landed.
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

/** Resolves when it is time for the next try; throws the error when there is none. */
export async function pauseAfter(error: unknown, tried: number): Promise<void> {
  if (tried === TRIES || !isStoreUnavailable(error) || error.reason === 'full') throw error
  await new Promise((resolve) => { setTimeout(resolve, FIRST_MS * 2 ** (tried - 1)).unref() })
}
