import type { Json } from '../runtime/json.js'
import { isName, MAX_CALLER, NAME_RULE } from '../runtime/names.js'

/**
 * Status of a stored task. The last three are final. `input_required`: a run has ended to wait for an
 * answer of a client.
 */
export type TaskStatus =
  'queued' | 'processing' | 'input_required' | 'completed' | 'failed' | 'cancelled'

/** Returns whether a task with this status runs no more, unless it is retried. */
export function isFinalStatus(status: TaskStatus): boolean {
  return status === 'completed' || status === 'failed' || status === 'cancelled'
}

/** Names one task. A later task with the same id has another `birth`. */
export interface TaskRef {
  /** 1 to 128 of `A-Z a-z 0-9 . _ -`. */
  readonly id: string
  /** Random string, new for each call of `create` that is no repetition of an earlier one. */
  readonly birth: string
}

/** One task as the engine keeps it, immutable. Times are milliseconds since 1970, by its clock. */
export interface StoredTask extends TaskRef {
  /** Idempotency key in its scope; `undefined` for a task without a key. */
  readonly key: string | undefined
  /** Id of the owner; `undefined` for a task without an owner. */
  readonly owner: string | undefined
  /** Caller that limits count the task for; `undefined` if no limit counts the task. */
  readonly caller: string | undefined
  /** Name of the definition. */
  readonly name: string
  readonly pool: string
  /** Order among the waiting tasks of a pool: 0 to 1,000,000. Lower numbers start first. */
  readonly priority: number
  readonly status: TaskStatus
  /** Number of changes that clients can see, from 1. Changes of checkpoints and leases do not count. */
  readonly version: number
  /** Number of the newest run. 0 at first. Never decreases. The fence of runs is their lease. */
  readonly run: number
  /** Number of runs that were not given back. */
  readonly attempt: number
  /** Runs in a row that ended with their worker, without a new checkpoint. */
  readonly crashes: number
  readonly createdAt: number
  /** Time before which the first run does not begin, if it was created for later. */
  readonly startAt: number | undefined
  /** Start of the first run. */
  readonly startedAt: number | undefined
  /** Start of the newest run. */
  readonly runStartedAt: number | undefined
  /** Time at which the task became final. */
  readonly finishedAt: number | undefined
  /** Time at which the task is deleted. */
  readonly expiresAt: number
  /**
   * Number of the newest attempt at the callback: the fence of callbacks. Each attempt increases
   * it. A change of the callback that is not the outcome of an attempt increases it as well.
   */
  readonly callbackRun: number
  /** Time of the next attempt at the callback; `undefined` if none is due. */
  readonly callbackAt: number | undefined
  /** Everything else that the core of tasks keeps. The engine stores it and does not read it. */
  readonly details: TaskDetails
  /** The result of a completed task, as JSON text. */
  readonly result: string | undefined
}

/** Plain JSON that belongs to the core of tasks. At most some kilobytes. */
export type TaskDetails = Readonly<Record<string, unknown>>

/**
 * A task that is created. Its names are well-formed strings without U+0000. For other names, an
 * engine rejects with the error that `nameFault` returns.
 */
export interface NewTask extends TaskRef {
  /** Idempotency key in its scope: 1 to 512 characters (UTF-16 units). Default: none. */
  readonly key?: string | undefined
  /**
   * 1 to 512 characters. The core writes an owner in a tenant as one string, which has U+001F between the two.
   * Default: the task has no owner.
   */
  readonly owner?: string | undefined
  /** 1 to 528 characters. Default: no limit counts the task. */
  readonly caller?: string | undefined
  /** Limit that counts the task until it is final. Default: none. A task without a caller has none. */
  readonly limit?: CallerLimit | undefined
  readonly name: string
  readonly pool: string
  readonly priority: number
  /** The input. The engine keeps it until the task is completed. */
  readonly input: Json
  readonly details: TaskDetails
  /**
   * Earliest start of the first run: a time by the clock of the engine, or a delay in milliseconds.
   * A time in the past is now. Default: now.
   */
  readonly start?: { readonly at: number } | { readonly delayMs: number } | undefined
  /** Time that an unfinished task is kept after its earliest start, in milliseconds. */
  readonly keepMs: number
  /** `true` if something outside of the engine has to be deleted with the task. Default `false`. */
  readonly hasFiles?: boolean
  /** Makes it the only unfinished task with a business key. Default: there may be others. */
  readonly unique?: Unique | undefined
}

/** Maximum length of an id, in characters. */
const MAX_ID = 128

/**
 * Returns the error of a new task with a name that an engine must reject: empty, too long, not
 * well-formed, or with U+0000. A server may reject it together with the tasks of others.
 *
 * @example
 * function check(task: NewTask): void {
 *   const fault = nameFault(task)
 *   if (fault) throw fault
 * }
 */
export function nameFault(task: NewTask): TypeError | undefined {
  const { id, birth, key, owner, caller, unique } = task
  if (!isName(id, MAX_ID) || !isName(birth, MAX_ID)) {
    return new TypeError(`The id and the birth of a task must have 1 to ${MAX_ID} characters`)
  }
  if (key !== undefined && !isName(key)) return fault('key')
  if (unique !== undefined && !isName(unique.key)) return fault('business key')
  if (owner !== undefined && !isName(owner)) return fault('owner')
  if (caller !== undefined && !isName(caller, MAX_CALLER)) return fault('caller')
  return undefined
}

function fault(name: 'key' | 'business key' | 'owner' | 'caller'): TypeError {
  return new TypeError(`The ${name} of a task must be ${NAME_RULE}`)
}

/** Business key that at most one unfinished task has. The task gives it up when it becomes final. */
export interface Unique {
  /** The key in its scope: 1 to 512 characters (UTF-16 units). */
  readonly key: string
  /**
   * Effect if an unfinished task has the key. `return`: the existing task stays unchanged.
   * `replace`: if the existing task has never begun, it gets the input, details, priority, pool,
   * start and time of the new task, and its next version. If it has begun, it stays unchanged.
   */
  readonly ifExists: 'return' | 'replace'
}

/**
 * Limit of the unfinished tasks of one caller in one group. A group consists of the tasks that were
 * created, or retried, under a limit with its name. A task without a limit is in no group.
 */
export interface CallerLimit {
  /** Name of the group: 0 to 64 of `A-Z a-z 0-9 . _ -`. */
  readonly group: string
  /** Maximum number of unfinished tasks, this one included: a whole number from 1. */
  readonly max: number
}

/** Condition of a change. If it does not hold, the engine changes nothing. */
export type Expected =
  /** The task has this version. */
  | { readonly version: number }
  /** The run with this lease has not ended, and no later run has begun. */
  | { readonly lease: string }
  /** This attempt at the callback is the newest one, and the task is final. */
  | { readonly callbackRun: number }

/**
 * Bytes of one task outside of the engine, and the maximum for all final tasks of its caller. Above
 * it, the caller loses its own oldest tasks with such bytes, but not the one that is changed.
 */
export interface FileShare {
  readonly bytes: number
  readonly max: number
}

/** Changes of one task, made in one step. An absent property stays as it is. */
export interface TaskChange {
  /**
   * `completed`, `failed` and `cancelled` end the run and its lease, free the place in the limit of
   * the caller, and set `finishedAt`. `completed` also removes input and checkpoint. `queued` ends
   * the run and makes the next one due after `delayMs`. `input_required` needs an expected lease, and is
   * the same as `queued`, except for its name in lists: `delayMs` is the time to wait for an answer. The
   * run counts as no attempt, and `crashes` is 0. The task has this status until another change, or until
   * the next run begins.
   */
  readonly status?: Exclude<TaskStatus, 'processing'>
  readonly details?: TaskDetails
  readonly result?: string | undefined
  /** Delay before the next run, in milliseconds, with `queued` or `input_required`. Default 0. */
  readonly delayMs?: number
  /**
   * With `status: 'queued'`: `true` if the run does not count as an attempt, because it could not begin
   * in this process. `crashes` stays. Default `false`.
   */
  readonly isGivenBack?: boolean
  /**
   * Limit that counts the task until it is final again, with `status: 'queued'` of a final task. That
   * change also removes `startAt`, `finishedAt` and `result`, and sets `crashes` to 0. Default: none.
   */
  readonly limit?: CallerLimit | undefined
  /** Pool of later runs. */
  readonly pool?: string
  /** Time for which the task is kept from now on, in milliseconds. */
  readonly keepMs?: number
  /**
   * Delay of the next attempt at the callback, in milliseconds; `null`: there is none. Attempts are made
   * while the task is final, or `input_required`; a begin of a run removes the next one. Unless
   * `callbackRun` is expected, the change also raises `callbackRun` by 1, so that an attempt that is
   * under way cannot end the callback that this change makes due.
   */
  readonly callbackMs?: number | null | undefined
  /**
   * New checkpoint; `null` removes it. Sets `crashes` to 0. If nothing else changes, `version`
   * stays.
   */
  readonly checkpoint?: string | null
  readonly hasFiles?: boolean
  /** Bytes that the task keeps outside of the engine once it is final. Default: as before, at first 0. */
  readonly files?: FileShare | undefined
  /** `true` if clients cannot see this change, so `version` stays. Default `false`. */
  readonly isHidden?: boolean
}

/** Returns a task as it is after its creation. */
export function createdTask(
  task: NewTask, createdAt: number, startAt: number | undefined, expiresAt: number,
): StoredTask {
  const { id, birth, key, owner, caller, name, pool, priority, details } = task
  return {
    id, birth, key, owner, caller, name, pool, priority, status: 'queued', version: 1, run: 0,
    attempt: 0, crashes: 0, createdAt, startAt, startedAt: undefined, runStartedAt: undefined,
    finishedAt: undefined, expiresAt, callbackRun: 0, callbackAt: undefined, details,
    result: undefined,
  }
}

export function isVisibleChange(change: TaskChange): boolean {
  if (change.isHidden === true) return false
  if (change.checkpoint === undefined) return true
  return Object.entries(change).some(([name, value]) => name !== 'checkpoint' && value !== undefined)
}

/** Outcome of `create`. */
export type Created =
  | { readonly outcome: 'created', readonly task: StoredTask }
  /** A task has this id, this key or this business key already. Nothing was created. */
  | { readonly outcome: 'exists', readonly task: StoredTask }
  /** The unfinished task with this business key, which had never begun, does this work instead. */
  | { readonly outcome: 'replaced', readonly task: StoredTask }
  /** The caller has reached the limit. Nothing was created. */
  | { readonly outcome: 'caller_full' }
  /**
   * The bounds of the engine are reached. Nothing was created. A server without space is a
   * `StoreUnavailableError` with the reason `full` instead.
   */
  | { readonly outcome: 'full' }

/** Outcome of `change`. */
export type Changed =
  | { readonly outcome: 'changed', readonly task: StoredTask }
  /** Another change came first. `task` is the task as it is now; `undefined` if it is gone. */
  | { readonly outcome: 'conflict', readonly task: StoredTask | undefined }
  /** A final task cannot wait again, because the caller has reached the limit. */
  | { readonly outcome: 'caller_full' }
  /** The bounds of the engine are reached. */
  | { readonly outcome: 'full' }
