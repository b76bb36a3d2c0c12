import { checkNames } from '../runtime/option-names.js'

/**
 * Storage contract: a key-value store with compare-and-set, expiry, counters and change notices.
 * Keeps counters (rate limits), the responses of idempotency keys of synchronous requests, and the
 * state of uploads. Tasks are in the task engine.
 *
 * A method returns a promise, or the outcome itself, as in memory. No method throws. An expected
 * outcome is a return value. A promise rejects with a `StoreUnavailableError` if the store failed.
 * The write may have taken effect, unless the reason is `full`. Misuse rejects with a `TypeError`.
 *
 * Calls pass durations (`ttlMs`), and only the store's clock decides when an entry expires. Expired
 * entries are never returned. A write with a `ttlMs` of 0 or less counts as written and expires at once.
 *
 * Keys (1 to 512 characters) and values (possibly empty) are well-formed strings without U+0000; others
 * are rejected with a `TypeError` (`entryFault`). Keys are compared by code units.
 */
export interface Store {
  /** True if other processes read the same entries. Engines that span processes require it. */
  readonly shared: boolean
  /** Returns the entry at `key`, or `undefined` if there is none or it has expired. */
  get(key: string): Entry | undefined | Promise<Entry | undefined>
  /** Writes an entry if there is none at `key`. Atomic. On conflict returns the existing entry. */
  create(
    key: string,
    value: string,
    options: WriteOptions,
  ): Created | Existing | Promise<Created | Existing>
  /**
   * Replaces an entry if it still has `revision`. Without `ttlMs` the entry keeps its expiry; `evictable`
   * and `caller` are replaced. Atomic. On conflict returns the current entry, if there is one.
   */
  replace(
    key: string,
    value: string,
    revision: Revision,
    options: ReplaceOptions,
  ): Replaced | Conflict | Promise<Replaced | Conflict>
  /** Deletes an entry, with `revision` only that one. Atomic. `true` if this call deleted it. */
  delete(key: string, revision?: Revision): boolean | Promise<boolean>
  /**
   * Adds `by` (an integer, possibly negative) to the counter at `key`. The counter starts at 0, and
   * again at 0 after its lifetime. The first call sets the lifetime. Atomic. Counters and entries
   * have separate keys. A store with a size limit may reset the counter that was unused for
   * longest.
   */
  increment(
    key: string,
    by: number,
    options: { readonly ttlMs: number },
  ): Counter | Promise<Counter>
  /**
   * Calls `listener` after the entry at `key` was written or deleted. A notice is a hint: it may be
   * lost, late or repeated, or come without a change. A notice follows every reconnect. A reader
   * therefore watches first, then reads.
   *
   * The watch is active once `watch` returns or resolves. Each call creates a separate watch. A
   * listener is never called during the write, nor after its unsubscribe or `close`. A listener
   * that throws does not affect others.
   */
  watch(key: string, listener: () => void): Unsubscribe | Promise<Unsubscribe>
  /**
   * Releases timers, watches and connections that the store opened. The application's client stays open. Every
   * later call except `close` rejects with a `StoreUnavailableError`.
   */
  close(): Promise<void>
}

/** Opaque identifier of one version of an entry. Never used twice for a key. */
export type Revision = string

/** One entry. */
export interface Entry {
  readonly value: string
  readonly revision: Revision
}

/** Options of a write. */
export interface WriteOptions {
  /** Lifetime in milliseconds from the write, by the store's clock. */
  readonly ttlMs: number
  /** Allows the store to remove the entry early when it needs space. Default `false`. */
  readonly evictable?: boolean | undefined
  /**
   * Caller that an evictable entry counts for, in number and bytes. If a caller has more than its share of
   * the store, the store soon removes that caller's own oldest evictable entries. Default: no caller.
   */
  readonly caller?: string | undefined
}

/** Options of `replace`. Without `ttlMs` the entry keeps its expiry. */
export interface ReplaceOptions extends Omit<WriteOptions, 'ttlMs'> {
  readonly ttlMs?: number | undefined
}

/** Outcome of `create`: the entry was written. */
export interface Created { readonly created: true; readonly revision: Revision }
/** Outcome of `create`: an entry existed, and nothing was written. */
export interface Existing { readonly created: false; readonly entry: Entry }
/** Outcome of `replace`: the entry was written. */
export interface Replaced { readonly replaced: true; readonly revision: Revision }
/** Outcome of `replace`: the entry has another revision or is gone, and nothing was written. */
export interface Conflict { readonly replaced: false; readonly entry: Entry | undefined }
/** Outcome of `increment`. `resetMs`: time until the counter starts again, in milliseconds. */
export interface Counter { readonly value: number; readonly resetMs: number }
/** Ends a watch. May be called twice. */
export type Unsubscribe = () => void

const BRAND = Symbol.for('longhaul.StoreUnavailableError')

/**
 * Error of a store that cannot serve now: unreachable, too slow, or full. The client gets a 503 with
 * `Retry-After`. Test for it with `isStoreUnavailable`, which works across copies of this package.
 */
export class StoreUnavailableError extends Error {
  override readonly name = 'StoreUnavailableError'
  // No field, so that bundles that only test for the class do not contain it.
  declare readonly [BRAND]: true
  /** `full`: no space for new entries. `unavailable`: any other failure. */
  readonly reason: 'unavailable' | 'full'
  constructor(message: string, options: {
    /** `full`: no space for new entries. Default `unavailable`. */
    reason?: 'unavailable' | 'full'
    /** The underlying error. Passed to `onError`, never to the client. */
    cause?: unknown
  } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    checkNames('StoreUnavailableError', options, { reason: 0, cause: 0 })
    this[BRAND] = true
    this.reason = options.reason ?? 'unavailable'
  }
}

/** Returns whether `error` is a `StoreUnavailableError` of any copy of this package. */
export function isStoreUnavailable(error: unknown): error is StoreUnavailableError {
  return typeof error === 'object' && error !== null && BRAND in error
}
