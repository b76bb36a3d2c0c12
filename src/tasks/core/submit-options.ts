import type { Transaction } from '../../stores/transaction.js'

/** Options of one task that is submitted. */
export interface SubmitOptions extends OwnedSubmitOptions {
  /**
   * The id of the owner, a non-empty string. Leave it out for a task of the host's own, which has
   * no owner and is not counted by `maxPerOwner`. `undefined` is a `TypeError`. If a client may be
   * anonymous, use `tasks.ownedBy(user?.id).submit(…)`.
   */
  readonly owner?: string
}

/** Options of one task whose owner is known. */
export interface OwnedSubmitOptions {
  /**
   * An id of your own: 1 to 128 of `A-Z a-z 0-9 . _ -`. A second submit with the same id starts no
   * second task.
   */
  readonly id?: string | undefined
  /** Delay before the first run, in milliseconds, up to 100 years. Default 0. */
  readonly delayMs?: number | undefined
  /**
   * Time before which the first run does not begin, instead of `delayMs`. A time in the past is now.
   * The clock of the engine decides: that of Redis or PostgreSQL, else that of this
   * process. Default: now.
   */
  readonly startAt?: Date | undefined
  /**
   * Order among the waiting tasks of one pool: 0 to 1,000,000. Tasks with a lower number start
   * first. Default: `priority` of the definition.
   */
  readonly priority?: number | undefined
  /** Passed to `run` as `context`. It is stored as JSON, of at most 65 536 characters. */
  readonly context?: unknown
  /**
   * URL that receives a signed POST when the task has ended. Requires `callbacks` of `createTasks`.
   */
  readonly callbackUrl?: string | undefined
  /**
   * An open transaction of yours, such as a client of `pg` after `BEGIN`. The task commits or rolls
   * back with it, and is due once it is committed. Before that, `get` and `wait` do not find the
   * task. Requires the engine of `postgres()`, on the same database. Default: none.
   */
  readonly transaction?: Transaction | undefined
}

/** The names of the options of `tasks.ownedBy(…).submit`. */
export const OWNED_SUBMIT = {
  id: 0, delayMs: 0, startAt: 0, priority: 0, context: 0, callbackUrl: 0, transaction: 0,
} satisfies Record<keyof OwnedSubmitOptions, 0>

/** The names of the options of `tasks.submit`. */
export const SUBMIT = { ...OWNED_SUBMIT, owner: 0 } satisfies Record<keyof SubmitOptions, 0>
