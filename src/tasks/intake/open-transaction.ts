import type { Store, TransactionStore } from '../../stores/store.js'
import type { TaskIndex, TransactionIndex } from '../../stores/task-index.js'
import { checkTransaction, type Transaction } from '../../stores/transaction.js'
import type { AcceptSettings } from './accept-task.js'

/** The store and the index inside a transaction of the application. */
export interface OpenTransaction {
  readonly store: TransactionStore
  readonly index: TransactionIndex
}

type Places = Pick<AcceptSettings, 'ledger' | 'index'>

type WithTransactions<T extends Store | TaskIndex> = T & Required<Pick<T, 'within'>>

/**
 * Prepares to accept tasks in a transaction of the application. Writes nothing.
 *
 * @throws {TypeError} `transaction` is none, is not open, or belongs to another database; or the
 * store or the index has no transactions.
 */
export async function openTransaction(
  settings: Places, transaction: Transaction,
): Promise<OpenTransaction> {
  checkTransaction('submit', transaction)
  const { store, index } = requireTransactions('submit', settings)
  return { store: await store.within(transaction), index: index.within(transaction) }
}

/**
 * Returns the store and the index if both have transactions. `where` names the caller in the error.
 *
 * @throws {TypeError} One of them has none.
 */
export function requireTransactions(
  where: string, { ledger: { store }, index }: Places,
): { readonly store: WithTransactions<Store>, readonly index: WithTransactions<TaskIndex> } {
  if (hasTransactions(store) && index && hasTransactions(index)) return { store, index }
  const which = store.within ? 'index' : 'store'
  throw new TypeError(
    `${where}: the ${which} of these tasks has no transactions; use that of longhaul/postgres, `
      + 'or leave out the option transaction',
  )
}

function hasTransactions<T extends Store | TaskIndex>(place: T): place is WithTransactions<T> {
  return place.within !== undefined
}
