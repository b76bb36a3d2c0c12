import type { Transaction } from '../../stores/transaction.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import { acceptInTransaction } from './accept-in-transaction.js'
import { acceptTask, type Accepted, type AcceptSettings } from './accept-task.js'
import { CommitWatch } from './commit-watch.js'
import { NewTask } from './new-task.js'
import {
  openTransaction, requireTransactions, type OpenTransaction,
} from './open-transaction.js'
import { startOf } from './start-time.js'
import { UnfinishedTasks } from './unfinished-tasks.js'
import type { AcceptOptions } from './submit-options.js'

/** Accepts tasks whose input and callback URL were validated. */
export class Intake {
  /** Enqueues tasks when the transactions commit in which they were accepted. */
  readonly commits: CommitWatch
  /** The default of `maxPerOwner`. */
  readonly unfinished: UnfinishedTasks

  constructor(readonly settings: AcceptSettings) {
    this.unfinished = new UnfinishedTasks(settings.ledger)
    this.commits = new CommitWatch(settings)
    // Prepares the tables before a transaction of the application holds the last connection.
    if (settings.ledger.store.within) void settings.ledger.isReachable()
  }

  /**
   * Throws a `TypeError` if tasks cannot be accepted in a transaction. `where` names the caller.
   */
  requireTransactions(where: string): void {
    requireTransactions(where, this.settings)
  }

  /** Prepares to accept tasks in a transaction of the application. See `openTransaction`. */
  open(transaction: Transaction): Promise<OpenTransaction> {
    return openTransaction(this.settings, transaction)
  }

  /** Accepts one task. See `acceptTask` and `acceptInTransaction`. */
  async accept(
    definition: AnyTaskDefinition, input: unknown, options: AcceptOptions,
    transaction?: OpenTransaction,
  ): Promise<Accepted> {
    const { settings, commits } = this
    const start = options.start ?? await startOf(settings.queue, options)
    const task = new NewTask(definition, input, { ...options, start }, settings.pendingMs)
    const accept = () => (
      transaction === undefined
        ? acceptTask(settings, task)
        : acceptInTransaction({ ...settings, commits }, transaction, task)
    )
    const { counted, isRequest } = options
    return isRequest && counted !== undefined && definition.maxPerOwner === undefined
      ? this.unfinished.count(counted, { id: task.id, mayExist: isKnown(options) }, accept)
      : accept()
  }
}

/** Returns whether a task of this id may exist already. */
function isKnown({ id, isNewId }: AcceptOptions): boolean {
  return id !== undefined && isNewId !== true
}
