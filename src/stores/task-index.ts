import type { Transaction } from './transaction.js'

/**
 * Index of unfinished tasks by the time of their next check. Finds tasks whose job was lost without
 * reading all records. Times are kept by the clock of the index. An entry may outlive its task; the
 * process that checks it removes it.
 *
 * An expected outcome is a return value. A rejected promise is a `StoreUnavailableError` and leaves
 * the outcome of a write open. Entries are well-formed text of 1 to 512 characters without U+0000.
 */
export interface TaskIndex {
  /** True if other processes read the same index. A queue that spans processes requires it. */
  readonly shared: boolean
  /**
   * Schedules the check of `entry` in `afterMs` milliseconds (0 or more). Replaces an earlier time.
   */
  add(entry: string, afterMs: number): void | Promise<void>
  /**
   * Removes `entry`, if present. Failures are not reported, because a later check removes the
   * entry.
   */
  remove(entry: string): void
  /**
   * Returns up to `limit` entries that are due, earliest first. Atomic. Schedules each of them
   * again in `againMs` milliseconds. Only one process therefore checks an entry, and another one
   * does so if that process dies.
   */
  take(limit: number, againMs: number): string[] | Promise<string[]>
  /**
   * Returns the same index inside a transaction that `Store.within` has checked. Absent if the store
   * has no `within`. Its `add` is called; it rejects with the error of the client.
   */
  within?(transaction: Transaction): TaskIndex
}
