/**
 * Lists unfinished tasks by the time of their next look, so that one whose job was lost is found
 * without a walk through all records. The times are kept by the clock of the index. An entry may
 * outlive its task: whoever looks removes it.
 *
 * An expected outcome is a return value. A rejected promise is a `StoreUnavailableError` and leaves
 * the outcome of a write open. Entries are well-formed text of 1 to 512 characters without U+0000.
 */
export interface TaskIndex {
  /**
   * Whether other processes see what this one writes. A queue that spans processes refuses an index
   * that does not.
   */
  readonly shared: boolean
  /**
   * Lists `entry` to be looked at in `afterMs` milliseconds (0 or more), whether it is listed or
   * not.
   */
  add(entry: string, afterMs: number): void | Promise<void>
  /**
   * Takes `entry` out, if it is there. A removal that fails is not reported: the entry is found,
   * and removed, by a later look.
   */
  remove(entry: string): void
  /**
   * Up to `limit` entries whose time has come, earliest first. Atomic: each entry that is given is
   * listed for another look in `againMs`, so that of many processes one looks at it, and it is
   * looked at again should that process die.
   */
  take(limit: number, againMs: number): string[] | Promise<string[]>
}
