import type { TransactionStore } from './store.js'

/**
 * Time for which a key that another open transaction has acquired is waited for, in milliseconds.
 */
const ACQUIRE_MS = 1000
/** Time between two attempts to acquire a key, in milliseconds. */
const RETRY_MS = 25

/**
 * Acquires a key for a transaction. Waits for a short time if another open transaction has it.
 * Returns `false` if that one is still open then.
 */
export async function acquireInTime(store: TransactionStore, key: string): Promise<boolean> {
  const deadline = performance.now() + ACQUIRE_MS
  while (!await store.acquire(key)) {
    if (performance.now() > deadline) return false
    await new Promise((resolve) => { setTimeout(resolve, RETRY_MS) })
  }
  return true
}
