import { isStoreUnavailable } from '../stores/store.js'

const FIRST_MS = 100
const TRIES = 6

/**
 * Does work on the store again (after 0.1 s, 0.2 s, … 1.6 s) while the store is unavailable: what a run
 * came to is worth more than one lost call. `work` has to be right when an earlier write of it landed.
 */
export function patiently<T>(work: () => Promise<T>): Promise<T> {
  return work().catch((error: unknown) => again(work, error))
}

async function again<T>(work: () => Promise<T>, first: unknown): Promise<T> {
  let error = first
  for (let tried = 1; tried < TRIES; tried++) {
    if (!isStoreUnavailable(error) || error.reason === 'full') throw error
    await new Promise((resolve) => { setTimeout(resolve, FIRST_MS * 2 ** (tried - 1)).unref() })
    try {
      return await work()
    } catch (next) {
      error = next
    }
  }
  throw error
}
