import type { MaybePromise } from '../runtime/maybe-promise.js'
import type { Json } from '../runtime/json.js'
import type {
  Changed, Created, Expected, NewTask, StoredTask, TaskChange, TaskRef, TaskStatus,
} from './task.js'

/**
 * Keeps tasks, changes each of them atomically, and starts work that is due.
 *
 * A task is one aggregate: its input, its idempotency key, its place in the limit of its caller,
 * its runs, its checkpoint and its callback are stored and deleted with it. Every call makes one
 * change, or none: a process that dies during a call leaves nothing to clean up.
 *
 * An expected outcome is a return value. A rejection is a `TypeError` if the engine never takes the
 * call, which has changed nothing; calls of others at the same time are not affected. Any other
 * rejection is a `StoreUnavailableError`: the engine failed within 5 seconds, and the change may have
 * been made. A repeated call gets the outcome of the first
 * one: `create` finds its own task by `birth`, and a change whose expectation no longer holds returns
 * the task as it is now.
 *
 * An expired task does not exist for any call.
 */
export interface TaskEngine {
  /** `true` if other processes see the same tasks. */
  readonly shared: boolean
  /** `true` if tasks survive the process. */
  readonly durable: boolean
  /** `true` if `create` takes a transaction of the application. */
  readonly hasTransactions: boolean
  /**
   * Creates a task unless its id, its key or its business key is taken. Two calls with one key at the
   * same time make one task. A repetition of a call (same `birth`) gets `created`.
   */
  create(task: NewTask, options?: CreateOptions): MaybePromise<Created>
  /** Reads a task. */
  read(id: string): MaybePromise<StoredTask | undefined>
  /** Reads the task that has an idempotency key. */
  readByKey(key: string): MaybePromise<StoredTask | undefined>
  /** Makes a change if the task is still the one of `ref` and the expectation holds. */
  change(ref: TaskRef, expected: Expected, change: TaskChange): MaybePromise<Changed>
  /**
   * Deletes a final task at its version. Returns the task if it has another version, or is not final;
   * `undefined` if it no longer exists, because this or another call has deleted it.
   */
  delete(ref: TaskRef, version: number): MaybePromise<StoredTask | undefined>
  /**
   * Begins to start work that is due in this process. Called at most once. Calls the handlers in
   * the async context (`AsyncLocalStorage`) of this call, never in that of another one.
   */
  work(options: WorkOptions, handlers: WorkHandlers): void
  /**
   * Calls `listener` soon after a change of a task that clients can see. A call may be lost, or come
   * without a change. Resolves once the watch is active.
   */
  watch(id: string, listener: () => void): MaybePromise<() => void>
  /**
   * Returns a `StoreUnavailableError` with `cause` if an error of a transaction of the application says
   * that the connection to the engine was lost, or not made; otherwise the error itself. Default: the
   * error itself.
   */
  transactionError?(error: unknown): unknown
  /** Returns the tasks of one page. The cost does not depend on the number of tasks. */
  list(query: TaskQuery): MaybePromise<readonly StoredTask[]>
  /** Counts the unfinished tasks of a pool. */
  counts(pool: string): MaybePromise<PoolCounts>
  /**
   * Pauses a pool in all processes, or ends the pause. Nothing begins in a paused pool; what runs,
   * continues. The pause is as durable as the tasks. Each worker tells its `places` within a
   * second, so that synchronous requests obey the pause too.
   */
  setPaused(pool: string, isPaused: boolean): MaybePromise<void>
  /** Returns the names of the paused pools, by code unit. */
  pausedPools(): MaybePromise<readonly string[]>
  /** Returns the time of the engine's clock, in milliseconds since 1970. */
  now(): MaybePromise<number>
  /**
   * Rejects with a `StoreUnavailableError` if `create` would: the server does not respond, is
   * read-only, or is full. For readiness probes. Default: `now()`.
   */
  probe?(): MaybePromise<unknown>
  /**
   * Starts nothing more, waits up to `drainMs` milliseconds for runs and callbacks, then aborts the
   * signals of the runs with a `WorkerClosingError` and waits shortly. An engine that is not
   * durable runs waiting tasks in the drain time, and then calls `abandon` for each unfinished
   * task, and for each whose callback is due now or later. The other calls work as before.
   */
  close(options: { readonly drainMs: number }): Promise<void>
}

/** Options of `create`. */
export interface CreateOptions {
  /**
   * Open transaction of the application in which the task is written. After a commit the task is
   * due; after a rollback it does not exist. Rejects with the error of the client. Default: none.
   */
  readonly transaction?: Transaction | undefined
}

/** Options of `work`. */
export interface WorkOptions {
  /** The places for runs of each pool that this process works for. */
  readonly places: Places
  /** Maximum number of callbacks that are sent at the same time. 0: none. */
  readonly callbacks: number
  /** Limits of what runs, by pool. Default: no limits. */
  readonly limits?: ReadonlyMap<string, RunLimits> | undefined
}

/**
 * Limits of the runs of a pool over all processes. The worker that begins a run obeys its own limits,
 * so those of a new version of the application hold for waiting tasks too.
 *
 * Limits count running tasks: a run that was ended, or whose lease is found to be over, has freed
 * its place. While the running tasks of a caller take its whole share, its other tasks are held: a
 * held task has no turn, and delays no other caller. When a run of the caller ends, its next held
 * task, by priority and age, is ready again with a new turn. Tasks without a caller count for no
 * share.
 */
export interface RunLimits {
  /** Maximum number of runs at the same time, from 1. Default: no limit. */
  readonly maxRunning?: number | undefined
  /** Maximum number of runs that begin within any `ms` milliseconds. Default: no limit. */
  readonly startsPer?: StartsPer | undefined
  /** Maximum number of runs of one caller at the same time, from 1. Default: no limit. */
  readonly maxPerCaller?: number | undefined
  /**
   * Maximum number of concurrent runs of one caller by the name of the tasks, in addition to
   * `maxPerCaller`. Default: no limits.
   */
  readonly maxPerCallerOf?: ReadonlyMap<string, number> | undefined
}

/** Rate at which runs of a pool may begin, over all processes. */
export interface StartsPer {
  /** Maximum number of runs that begin in a window: 1 to 10,000. */
  readonly count: number
  /** Length of each window, in milliseconds: 1 to 86,400,000. */
  readonly ms: number
}

/**
 * Handlers of due work. They never reject. The handler `run` ends the run by a `change` before its
 * promise resolves. If it does not, the task runs again when the lease has ended.
 */
export interface WorkHandlers {
  /** Performs a run, which has begun. */
  readonly run: (run: TaskRun) => Promise<void>
  /**
   * Makes an attempt at the callback. It is called again after a minute, unless it changes the
   * callback of the task.
   */
  readonly callback: (task: StoredTask) => Promise<void>
  /**
   * Deletes all that a task with `hasFiles` has outside of the engine, because the task has
   * expired, was deleted, or its caller is over its share. Resolves to `false` if that failed: then
   * it is called again later. Called for at most 10 tasks at the same time.
   */
  readonly remove: (task: StoredTask) => Promise<boolean>
  /**
   * Ends a task, or its callback, because the process ends. Only engines that are not durable call
   * it.
   */
  readonly abandon: (task: StoredTask) => MaybePromise<void>
  /**
   * Reports that the engine finds or takes no work, once for each outage: again only after it worked in
   * between. Only engines that use a server call it.
   */
  readonly outage?: (error: unknown) => void
}

/** A run that has begun: `task.run` is its number, and the status is `processing`. */
export interface TaskRun {
  readonly task: StoredTask
  /** Random token of this begin, which each change for the run expects. */
  readonly lease: string
  readonly input: Json
  /** The newest checkpoint of an earlier run. */
  readonly checkpoint: string | undefined
  /** The task before this run, if the worker of the run before died or lost its lease. */
  readonly crashed: StoredTask | undefined
  /**
   * Aborts with a `RunReplacedError` when the task has ended, is gone or has a later run, or when
   * the lease ended before it could be renewed; with a `WorkerClosingError` when the process closes.
   */
  readonly signal: AbortSignal
  /**
   * Calls `listener` when `signal` aborts, or at once if it has aborted. Does not create the
   * signal.
   */
  onAbort(listener: (reason: unknown) => void): void
}

/** Status in lists. `scheduled`: the task is queued, and its `startAt` is in the future. */
export type ListedStatus = 'scheduled' | TaskStatus

/** All statuses. */
export const LISTED_STATUSES: readonly ListedStatus[] = [
  'scheduled', 'queued', 'processing', 'input_required', 'completed', 'failed', 'cancelled',
]

/** Query for one page. */
export interface TaskQuery {
  /**
   * `all`: the tasks of all owners and those without an owner. Otherwise the tasks of one owner;
   * `{ owner: undefined }` are the tasks without an owner. `{ caller }`: the tasks of one caller, whose
   * name begins with `tenant `, so that an index may leave out all others.
   */
  readonly of: 'all' | { readonly owner: string | undefined } | { readonly caller: string }
  /** Each at most once. Default: all statuses. */
  readonly statuses?: readonly ListedStatus[] | undefined
  /** Names of definitions, each at most once. Default: all names. */
  readonly names?: readonly string[] | undefined
  /** Earliest `createdAt`. Default: no limit. */
  readonly from?: number | undefined
  /** Time before which the tasks were created. Default: no limit. */
  readonly to?: number | undefined
  /** Order of creation. Tasks of one millisecond are ordered by id (by code unit). */
  readonly order: 'newest' | 'oldest'
  /** Maximum number of tasks: 1 to 1000. */
  readonly limit: number
  /** Position of the last task of the page before. Default: the first page. */
  readonly after?: ListPosition | undefined
  /**
   * Properties that the engine does not read, because together they may be large: `details` is then
   * `{}`, and `result` is `undefined`. Default: none.
   */
  readonly omit?: readonly ('details' | 'result')[] | undefined
}

/** Returns the error of a second worker. `factory` made the engine. */
export function hasWorker(factory: 'memory' | 'postgres' | 'redis' | 'sqlite'): Error {
  return new Error('createTasks: this engine has a worker already, because work() was called before. '
    + `Each createTasks needs its own engine: call ${factory}() again`)
}

/** Numbers of unfinished tasks. */
export interface PoolCounts {
  readonly running: number
  /** Tasks that are due and wait for a run. */
  readonly waiting: number
  /** Tasks that wait for their start, for their next attempt, or for an answer. */
  readonly delayed: number
  /** Time since the oldest waiting task became due, in milliseconds. Absent if none waits. */
  readonly oldestWaitingMs?: number
}

/** Position of a task in a list. */
export interface ListPosition {
  readonly createdAt: number
  readonly id: string
}

/** Returns the order of two tasks: by time of creation, then by id. */
export function comparePositions(one: ListPosition, other: ListPosition): number {
  if (one.createdAt !== other.createdAt) return one.createdAt - other.createdAt
  return one.id < other.id ? -1 : one.id > other.id ? 1 : 0
}

/**
 * An open transaction of the application, on one connection. A client of `pg` after `BEGIN` is one.
 * The guide has a few lines for each of Drizzle, Kysely, Knex and Prisma.
 */
export interface Transaction {
  /**
   * Runs one statement, with `values` for `$1`, `$2` and so on. Each statement ends before the next
   * one begins.
   */
  query(text: string, values: unknown[]): Promise<{ readonly rows: unknown[] }>
}

/**
 * Checks that a value can be a transaction. Only the database knows whether a transaction is open.
 *
 * @throws {TypeError} The value has no function `query`.
 */
export function checkTransaction(where: string, transaction: unknown): void {
  const { query } = Object(transaction) as { readonly query?: unknown }
  if (typeof query === 'function') return
  throw new TypeError(
    `${where}: transaction must have a function query(text, values) that resolves to { rows }, `
      + 'such as a client of pg; docs/guide/query-builders.md has those of Drizzle, Kysely, Knex and Prisma',
  )
}

/** Places for runs of one process by pool, for queued tasks and synchronous requests. */
export class Places {
  private readonly free = new Map<string, number>()
  private readonly paused = new Set<string>()
  private listener: ((pool: string) => void) | undefined

  /** @param pools - the number of places of each pool that this process works for, from 1 */
  constructor(readonly pools: ReadonlyMap<string, number>) {
    for (const [pool, count] of pools) this.free.set(pool, count)
  }

  /** Calls `listener` after a place of a pool has become free. One listener: the engine. */
  onFree(listener: (pool: string) => void): void {
    this.listener = listener
  }

  /** Returns the number of free places of a pool: none while it is paused. */
  freeIn(pool: string): number {
    return this.paused.size > 0 && this.paused.has(pool) ? 0 : this.free.get(pool) ?? 0
  }

  /** Acquires a place if one is free. */
  tryAcquire(pool: string): boolean {
    const free = this.freeIn(pool)
    if (free <= 0) return false
    this.free.set(pool, free - 1)
    return true
  }

  /** Releases a place, and calls the listener. */
  release(pool: string): void {
    this.free.set(pool, (this.free.get(pool) ?? 0) + 1)
    this.listener?.(pool)
  }

  /** Notes which pools are paused. Calls the listener for each whose pause has ended. */
  setPaused(pools: readonly string[]): void {
    if (pools.length === 0 && this.paused.size === 0) return
    const ended = [...this.paused].filter((pool) => !pools.includes(pool))
    this.paused.clear()
    for (const pool of pools) this.paused.add(pool)
    for (const pool of ended) this.listener?.(pool)
  }
}
