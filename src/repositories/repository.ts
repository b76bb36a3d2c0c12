import type { MaybePromise } from '../runtime/maybe-promise.js'

/**
 * Access to the records of an application. Implement the methods that your database code supports.
 * Collections and bulk endpoints check at construction that the methods they need exist.
 *
 * `Item` is a record as clients see it. `Draft` is the input that creates or replaces one. `Change`
 * is the input that changes some properties. `Id` identifies a record.
 *
 * An expected rejection is an `HttpError`, such as `httpError('conflict', { details: [{ pointer:
 * '/email', message: '…' }] })` for a duplicate. A method for one record throws it. A method for
 * many records returns it in place of the record. Any other error is masked for the client and
 * passed to `onError`.
 *
 * The value returned for a record has one meaning in all methods. `undefined` and `null` mean that
 * there is no such record. An `Error` is its failure. A result of `Promise.allSettled` is a failure
 * or a value. Any other object is the record. Everything else is a `TypeError`: a number of rows,
 * `true`, an array, a promise that is not awaited, the result object of a database driver.
 *
 * An `HttpError` with status 503 or 429 that a method throws says that the call wrote nothing. A
 * bulk task then makes the call again in its next attempt.
 */
export interface Repository<
  Item extends object,
  Draft = Partial<Item>,
  Change = Partial<Draft>,
  Id = string,
> {
  /** Returns one page of records, in a stable order. */
  list?(page: PageRequest, call: Call): MaybePromise<Page<Item>>
  /** Returns a record, or `undefined` or `null` if there is none. */
  get?(id: Id, call: Call): MaybePromise<Item | null | undefined>
  /** Writes a new record and returns it, with its id. */
  create?(draft: Draft, call: Call): MaybePromise<Item>
  /** Replaces a record, or creates it if there is none. */
  replace?(
    id: Id,
    draft: Draft,
    call: Call,
  ): MaybePromise<{ readonly item: Item; readonly created: boolean }>
  /**
   * Changes the given properties and returns the record. Returns `undefined` or `null` if there is no
   * such record.
   */
  update?(id: Id, change: Change, call: Call): MaybePromise<Item | null | undefined>
  /**
   * Deletes a record. Returns `true` or the deleted record; `false`, `undefined` or `null` if there
   * is none.
   */
  delete?(id: Id, call: Call): MaybePromise<boolean | Item | null | undefined>
  /**
   * Creates many records and returns an outcome for each draft, in order. Each record is written or
   * rejected by itself. If the method throws, only the outcomes of this batch are unknown; inside a
   * transaction nothing was written. A 503 or 429 says that nothing was written.
   */
  createMany?(drafts: readonly Draft[], call: Call): MaybePromise<readonly Outcome<Item>[]>
  /**
   * Changes many records and returns an outcome for each update, in order. `undefined` and `null`
   * mean that there is no such record.
   */
  updateMany?(
    updates: readonly Update<Id, Change>[],
    call: Call,
  ): MaybePromise<readonly (Outcome<Item> | null | undefined)[]>
  /**
   * Runs `work` with a repository in a transaction. Commits when `work` resolves. If `work`
   * rejects, rolls back and rejects with the same error. After a rejected record, such as a
   * duplicate, `work` must be able to continue.
   */
  transaction?<Result>(work: (inside: this) => Promise<Result>, call: Call): Promise<Result>
}

/**
 * Outcome of one record of many: the written record, the error that rejects it, or a result of
 * `Promise.allSettled` with one of these. An `Error` that is no `HttpError` is masked for the client.
 */
export type Outcome<Item> = Item | Error | PromiseSettledResult<unknown>

/** Change of one record in a batch. */
export interface Update<Id, Change> {
  readonly id: Id
  readonly change: Change
}

/** Request for one page: from a position, or after the page that returned this cursor as `next`. */
export interface PageRequest {
  readonly start: number
  readonly limit: number
  readonly cursor?: string
}

/** One page of records. */
export interface Page<Item> {
  readonly items: readonly Item[]
  /** Total number of records, if the repository counts them. */
  readonly total?: number | null
  /**
   * Opaque cursor of the next page. Absent or `null` on the last page, or if the repository pages
   * by position.
   */
  readonly next?: string | null
}

/** Context of a repository call. */
export interface Call {
  /** Aborts if the client disconnects, the time limit is reached, or the task is cancelled. */
  readonly signal: AbortSignal
  /**
   * Context of the request, such as user and tenant. In a bulk endpoint with `background`: the
   * value that `context` of `taskEndpoints` returns, also for a synchronous request.
   */
  readonly context: unknown
  /**
   * Owner of the items of a bulk endpoint with `background`: the value that `owner` of
   * `taskEndpoints` returns, also for a synchronous request. Absent elsewhere.
   */
  readonly owner?: string | undefined
  /** Tenant of that owner, if there is one. */
  readonly tenant?: string | undefined
  /** Id of the bulk task that makes the call. Absent outside of bulk tasks. */
  readonly taskId?: string | undefined
  /**
   * Returns the position of a bulk task after this call, as text. Store it in the transaction that
   * writes the records, and return it from `resume` of `bulkCreate` or `bulkUpdate`. Replace only
   * `previous` by it: then each item is written once, even if a suspended process continues after
   * another one has begun. Absent outside of bulk tasks.
   *
   * `createMany` and `updateMany` have it if the batch is not atomic. `transaction` has it if the
   * batch is atomic: call it without outcomes, after `work` has resolved.
   * @param outcomes - what `createMany` or `updateMany` is going to return
   */
  readonly cursor?: ((outcomes?: readonly (object | null | undefined)[]) => string) | undefined
  /**
   * The cursor that is stored as far as this run of a bulk task knows: the one of its last call, or
   * the one that `resume` has returned. `undefined` before the first call. If another cursor is
   * stored, another run has continued the task: write nothing, and throw
   * `httpError('attempt_replaced')`.
   */
  readonly previous?: string | undefined
}

/** An object that may be a record: neither a list nor a promise. */
export type RecordObject = object & {
  readonly then?: never
  readonly [Symbol.iterator]?: never
}
