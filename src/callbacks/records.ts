import { isStoreUnavailable } from '../stores/store.js'
import { CALLBACK_JOB, type CallbackHost } from '../tasks/record/callbacks.js'
import { isFinal } from '../tasks/record/state.js'
import { reportError } from '../tasks/record/report-error.js'
import type { CallbackState } from '../tasks/record/callback-state.js'
import type { TaskRecord } from '../tasks/record/record.js'
import type { Delivery } from './delivery.js'

/** Reads and writes the state of callbacks in the records of tasks. */
export class CallbackRecords {
  constructor(private readonly host: Pick<CallbackHost, 'ledger' | 'onError'>) {}

  /**
   * Returns whether the record shows that this attempt was made, or that the task was retried.
   * Returns `false` without a record, so that the attempt is made.
   */
  async isAttemptDone({ taskId, createdAt, job, attempt }: Delivery): Promise<boolean> {
    const { ledger } = this.host
    const held = await ledger.loadWithRetry(taskId)
    if (held?.record.createdAt !== createdAt) return false
    // The callback of the new end replaces this one.
    if (held.record.job !== job) return true
    if (!held.record.callback) return false
    return held.record.callback.state !== 'pending' || held.record.callback.attempts >= attempt
  }

  /** Saves the outcome of an attempt, unless the record is gone or has a later outcome. */
  async saveOutcome(
    { taskId, job, attempt }: Delivery,
    what: Omit<CallbackState, 'url'>,
  ): Promise<void> {
    const { ledger } = this.host
    try {
      const held = await ledger.loadWithRetry(taskId)
      if (!held) return
      await ledger.moveWithRetry(
        held,
        (record) =>
          record.job === job &&
          isFinal(record.state) &&
          record.callback?.state === 'pending' &&
          record.callback.attempts < attempt
            ? { callback: { url: record.callback.url, ...what } }
            : undefined,
      )
    } catch (error) {
      // A full store does not justify repeating the request.
      if (!isStoreUnavailable(error) || error.reason !== 'full') throw error
      reportError(this.host, error, { taskId, name: CALLBACK_JOB }, attempt)
    }
  }

  /**
   * Sets the callback of an ended task to `pending` again. Returns `undefined` if the task has not
   * ended or has no callback, or if the callback is `pending` and `unlessPending` is `true`.
   */
  async reopen(id: string, unlessPending: boolean): Promise<TaskRecord | undefined> {
    const { ledger } = this.host
    const held = await ledger.load(id)
    const now =
      held &&
      (await ledger.move(held, ({ state, callback }) =>
        callback && isFinal(state) && !(unlessPending && callback.state === 'pending')
          ? {
            callback: {
              url: callback.url,
              state: 'pending',
              attempts: callback.attempts,
              lastStatus: callback.lastStatus,
            },
          }
          : undefined,
      ))
    return now?.moved ? now.record : undefined
  }
}
