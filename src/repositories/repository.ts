import type { HttpError } from '../http/errors.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'

/**
 * Where a team's records are: their database code, behind as many of these methods as they have. A
 * collection and the bulk endpoints ask at construction for those that they need.
 *
 * `Item` is a record as it is shown, `Draft` what a client sends to create or replace one, `Change`
 * what it sends to change some of its fields, `Id` what names it.
 *
 * An expected refusal is an `HttpError`: `httpError('conflict', { details: [{ pointer: '/email',
 * message: '…' }] })` for a duplicate, say. A method for one record throws it; a method for many
 * returns it in the place of its item. Anything else that is thrown is a fault: it is masked to the
 * client and handed whole to the host's `onError`.
 */
export interface Repository<Item extends object, Draft = Partial<Item>, Change = Partial<Draft>, Id = string> {
  /** One page, in a stable order. */
  list?(page: PageRequest, call: Call): MaybePromise<Page<Item>>
  /** The record, or `undefined` when there is none. */
  get?(id: Id, call: Call): MaybePromise<Item | undefined>
  /** Writes a new record and returns it as it is now, with its id. */
  create?(draft: Draft, call: Call): MaybePromise<Item>
  /** Writes the whole record, and makes it when there is none. */
  replace?(id: Id, draft: Draft, call: Call): MaybePromise<{ readonly item: Item; readonly created: boolean }>
  /** Changes the fields that are named; `undefined` when there is no such record. */
  update?(id: Id, change: Change, call: Call): MaybePromise<Item | undefined>
  /** Removes the record; `false` when there is none. */
  delete?(id: Id, call: Call): MaybePromise<boolean>
  /**
   * Writes many records in one go: an outcome for each draft, in their order. Each is written or
   * refused on its own. When it throws, it has to be unknown only of this batch what was written;
   * inside a transaction nothing was.
   */
  createMany?(drafts: readonly Draft[], call: Call): MaybePromise<readonly Outcome<Item>[]>
  /** The same for changes; the outcome `undefined` says that there is no such record. */
  updateMany?(updates: readonly Update<Id, Change>[], call: Call): MaybePromise<readonly (Outcome<Item> | undefined)[]>
  /**
   * Calls `work` with a repository whose writes all count once `work` has resolved, and none of
   * them when it rejects; rejects with the same error then. A refusal of one record (a duplicate)
   * must leave `work` able to go on or to reject.
   */
  transaction?<Result>(work: (inside: this) => Promise<Result>, call: Call): Promise<Result>
}

/** A record that was written, or why it was refused. */
export type Outcome<Item> = Item | HttpError

/** A change of one record among many. */
export interface Update<Id, Change> {
  readonly id: Id
  readonly change: Change
}

/**
 * Which records a list asks for: from a position, or from behind the page that had this cursor as
 * its `next`.
 */
export interface PageRequest {
  readonly start: number
  readonly limit: number
  readonly cursor?: string
}

/** Some records in their order. */
export interface Page<Item> {
  readonly items: readonly Item[]
  /** How many there are in all, where the source counts. */
  readonly total?: number
  /**
   * An opaque cursor for what follows; left out at the end, or when the repository pages by
   * position.
   */
  readonly next?: string
}

/** The call that a repository serves. */
export interface Call {
  /**
   * Aborted when nobody waits any more: the client left, the time is over, the task was cancelled.
   */
  readonly signal: AbortSignal
  /**
   * What the host knows of the request: the user, the tenant; `undefined` inside a task unless its
   * input carries it.
   */
  readonly context: unknown
}
