import type { Transaction } from './transaction.js'

/**
 * Index of tasks. Lists tasks by owner, status, name and time of creation, and finds unfinished
 * tasks whose job was lost. Neither reads all records.
 *
 * The index may be behind the records for a moment, so callers read the record of each listed task.
 * Times are kept by the clock of the index. An expected outcome is a return value. A rejected
 * promise is a `StoreUnavailableError` and leaves the outcome of a write open.
 *
 * Entries of checks are well-formed text of 1 to 512 characters without U+0000. So are owners. Ids
 * and names of tasks are of `A-Z a-z 0-9 . _ -`.
 */
export interface TaskIndex extends TaskChecks, TaskLists {
  /** True if other processes read the same index. A queue that spans processes requires it. */
  readonly shared: boolean
  /**
   * Returns the index inside a transaction that `Store.within` has checked. Absent if the store has
   * no `within`.
   */
  within?(transaction: Transaction): TransactionIndex
}

/**
 * Task index inside a transaction. Its calls reject with the error of the client. `add` takes a
 * negative time too, which puts the entry before those that are due already.
 */
export type TransactionIndex = Pick<TaskIndex, 'add' | 'put'>

/**
 * Entries of unfinished tasks by the time of their next check. An entry may outlive its task; the
 * process that checks it removes it.
 */
export interface TaskChecks {
  /**
   * Schedules the check of `entry` in `afterMs` milliseconds (0 or more). Replaces an earlier time.
   */
  add(entry: string, afterMs: number): void | Promise<void>
  /** Does the same as `add` if there is no such entry. Keeps the time of an existing one. */
  restore(entry: string, afterMs: number): void | Promise<void>
  /**
   * Removes `entry`, if present, within some 20 milliseconds, once all earlier calls of `putSoon`
   * were written. Failures are not reported, because a later check removes the entry.
   */
  remove(entry: string): void
  /**
   * Returns up to `limit` entries that are due, earliest first. Atomic. Schedules each of them
   * again in `againMs` milliseconds. Only one process therefore checks an entry, and another one
   * does so if that process dies.
   */
  take(limit: number, againMs: number): string[] | Promise<string[]>
}

/** Lists of tasks. A task never changes its owner, its name or its time of creation. */
export interface TaskLists {
  /**
   * Writes the entry of a task. Never replaces a newer one: one with a later `createdAt`, or the
   * same `createdAt` and a higher `version`. At the same version, keeps the later expiry.
   */
  put(task: ListedTask): void | Promise<void>
  /**
   * Does the same as `put`, but within some 20 milliseconds, together with others. Failures are not
   * reported.
   */
  putSoon(task: ListedTask): void
  /** Drops the entries of tasks, if each is still the one with this `createdAt`. */
  drop(tasks: readonly ListEntry[]): void | Promise<void>
  /**
   * Returns the entries of one page. The cost depends neither on the number of tasks nor on the
   * number of pages before. Includes what this process has put before. An entry that exists during
   * the reading of several pages is in exactly one of them.
   */
  list(query: ListQuery): ListEntry[] | Promise<ListEntry[]>
  /**
   * Returns ids of stored tasks whose entries may have been lost, from a slow scan of the store.
   * Each call continues where the last one ended, and begins again at the end.
   */
  unlisted(limit: number): Unlisted | Promise<Unlisted>
}

/** Status of a task in lists. */
export type ListedStatus =
  'scheduled' | 'queued' | 'processing' | 'completed' | 'failed' | 'cancelled'

/** All statuses. */
export const LISTED_STATUSES: readonly ListedStatus[] = [
  'scheduled', 'queued', 'processing', 'completed', 'failed', 'cancelled',
]

/** Prefix of the store keys of tasks. The rest of such a key is the id. */
export const TASK_KEY = 'task:'

/** Entry of a list. */
export interface ListEntry {
  readonly id: string
  /** Id of the owner; `undefined` for a task without an owner. */
  readonly owner: string | undefined
  /** Name of the definition. */
  readonly name: string
  readonly status: ListedStatus
  /** Milliseconds since 1970, a whole number. */
  readonly createdAt: number
}

/** Task as it is put into the lists. */
export interface ListedTask extends ListEntry {
  /** Version of the record: a whole number from 1 that grows with each change. */
  readonly version: number
  /** Remaining lifetime of the record in milliseconds. The entry goes soon after it. */
  readonly ttlMs: number
}

/** Query for one page. */
export interface ListQuery {
  /**
   * `all`: the tasks of all owners and those without an owner. Otherwise the tasks of one owner;
   * `{ owner: undefined }` are the tasks without an owner.
   */
  readonly of: 'all' | { readonly owner: string | undefined }
  /** Each at most once. Default: all statuses. */
  readonly statuses?: readonly ListedStatus[] | undefined
  /** Names of definitions, each at most once. Default: all names. */
  readonly names?: readonly string[] | undefined
  /** Earliest `createdAt`. Default: no limit. */
  readonly from?: number | undefined
  /** Time before which the tasks were created. Default: no limit. */
  readonly to?: number | undefined
  /** Order of creation. Tasks of one millisecond are ordered by id. */
  readonly order: 'newest' | 'oldest'
  /** Maximum number of entries, a whole number from 1. */
  readonly limit: number
  /** Last entry of the page before. It need not exist any more. Default: the first page. */
  readonly after?: ListPosition | undefined
}

/** Position in a list. */
export type ListPosition = Pick<ListEntry, 'createdAt' | 'id'>

/** Returns the order of two tasks: by time of creation, then by id. */
export function comparePositions(one: ListPosition, other: ListPosition): number {
  if (one.createdAt !== other.createdAt) return one.createdAt - other.createdAt
  return one.id < other.id ? -1 : one.id > other.id ? 1 : 0
}

/** Slice of the scan for tasks without an entry. */
export interface Unlisted {
  readonly ids: readonly string[]
  /** True if many entries are missing, so that the next slice should be read at once. */
  readonly isUrgent: boolean
}
