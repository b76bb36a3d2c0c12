import type { TaskSnapshot } from './snapshot.js'
import { isFinalStatus } from '../../engine/task.js'
import type { Subscriptions } from './subscriptions.js'

/** Limits of a wait. */
export interface WaitOptions {
  /** Longest wait, in milliseconds. */
  readonly timeoutMs: number
  /** Ends the wait early. */
  readonly signal?: AbortSignal
}

/** The names of the options of a wait. */
export const WAIT = { timeoutMs: 0, signal: 0 } satisfies Record<keyof WaitOptions, 0>

/** Options of a wait inside this package. */
export interface VisibleWaitOptions extends WaitOptions {
  /** Condition that ends the wait. Default: the task is final. */
  readonly until?: (task: TaskSnapshot) => boolean
  /** Ends the wait if the id was used again for a task that the waiter must not see. */
  readonly isVisible: (task: TaskSnapshot) => boolean
}

/**
 * Waits until a task is final, or meets the condition, or the time is over. Returns the task as it
 * is then; `undefined` if there is none.
 *
 * @param keepAlive - whether the process stays alive for the wait
 */
export async function waitFor(
  subscriptions: Subscriptions, id: string, options: VisibleWaitOptions, keepAlive = false,
): Promise<TaskSnapshot | undefined> {
  const {
    timeoutMs,
    signal = new AbortController().signal,
    isVisible,
    until = (task) => isFinalStatus(task.state),
  } = options
  const deadline = performance.now() + timeoutMs
  const subscription = await subscriptions.subscribe(id, keepAlive)
  try {
    for (;;) {
      const left = deadline - performance.now()
      const isOver = left <= 0 || signal.aborted
      // The last record is read anew, because a notice may have been lost.
      const task = await (isOver ? subscription.now() : subscription.next(left, signal))
      if (!task || !isVisible(task)) return undefined
      if (isOver || until(task)) return task
    }
  } finally {
    subscription.close()
  }
}
