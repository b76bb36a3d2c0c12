import { setTimeout as sleep } from 'node:timers/promises'
import type { TransactionStore } from '../../stores/store.js'
import type { TaskIndex } from '../../stores/task-index.js'
import { checkTransaction, type Transaction } from '../../stores/transaction.js'
import type { AcceptSettings } from './accept-task.js'

/** Time for which a key that another open transaction has acquired is waited for, in milliseconds. */
const ACQUIRE_MS = 1000
/** Time between two attempts to acquire a key, in milliseconds. */
const ACQUIRE_AGAIN_MS = 25

/** The store and the index inside a transaction of the application. */
export interface OpenTransaction {
  readonly store: TransactionStore
  readonly index: TaskIndex
}

/**
 * Prepares to accept tasks in a transaction of the application. Writes nothing.
 *
 * @throws {TypeError} `transaction` is none, is not open, or belongs to another database; or the
 * store or the index has no transactions.
 */
export async function openTransaction(
  { ledger: { store }, index }: Pick<AcceptSettings, 'ledger' | 'index'>, transaction: Transaction,
): Promise<OpenTransaction> {
  checkTransaction('submit', transaction)
  if (!store.within || !index?.within) {
    const which = store.within ? 'index' : 'store'
    throw new TypeError(
      `submit: the ${which} of these tasks has no transactions; use that of longhaul/postgres, `
        + 'or leave out the option transaction',
    )
  }
  return { store: await store.within(transaction), index: index.within(transaction) }
}

/**
 * Acquires a key for a transaction. Waits for a short time if another open transaction has it.
 * Returns `false` if that one is still open then.
 */
export async function acquireInTime(store: TransactionStore, key: string): Promise<boolean> {
  const deadline = performance.now() + ACQUIRE_MS
  while (!await store.acquire(key)) {
    if (performance.now() > deadline) return false
    await sleep(ACQUIRE_AGAIN_MS)
  }
  return true
}
