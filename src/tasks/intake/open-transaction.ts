import type { TransactionStore } from '../../stores/store.js'
import type { TransactionIndex } from '../../stores/task-index.js'
import { checkTransaction, type Transaction } from '../../stores/transaction.js'
import type { AcceptSettings } from './accept-task.js'

/** The store and the index inside a transaction of the application. */
export interface OpenTransaction {
  readonly store: TransactionStore
  readonly index: TransactionIndex
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
