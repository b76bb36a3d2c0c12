/**
 * The one storage contract: a key-value store with compare-and-set, expiry, counters and change
 * notice. Tasks, idempotency claims, rate limits and callbacks are all built on it.
 *
 * Every verb gives a promise, or its outcome at once where that is at hand, as in memory: callers
 * that can go on without a promise do so. No verb throws. An expected outcome is a return value. A
 * rejected promise means that the store itself failed, is a `StoreUnavailableError`, and says
 * nothing about whether a write landed, except that with the reason `full` nothing changed. Misuse
 * (a time that is not finite, a counter that is no safe integer) rejects with a `TypeError`.
 *
 * Time belongs to the store. Callers pass durations (`ttlMs`), and only the store's clock decides
 * when an entry expires, so a process whose clock is wrong changes no lifetime. No reader sees an
 * expired entry. A write whose `ttlMs` is 0 or less counts as written and expires at once.
 *
 * Keys (1 to 512 characters) and values (empty ones too) are any well-formed text without U+0000.
 * Keys differ when one code unit differs.
 */
export interface Store {
  /**
   * Whether other processes see what this one writes. Engines that span processes refuse a store
   * that does not.
   */
  readonly shared: boolean
  /** The live entry at `key`, or `undefined` when there is none or it has expired. */
  get(key: string): Entry | undefined | Promise<Entry | undefined>
  /** Writes only when no live entry is there. Atomic; on conflict the winner's entry comes back. */
  create(key: string, value: string, options: CreateOptions): Created | Existing | Promise<Created | Existing>
  /**
   * Writes only when the live entry still has `revision`. Without `ttlMs` the entry keeps its
   * expiry; `evictable` is taken as given. Atomic; on conflict what is there now comes back:
   * `undefined` for none or an expired one.
   */
  replace(key: string, value: string, revision: Revision, options: ReplaceOptions): Replaced | Conflict | Promise<Replaced | Conflict>
  /**
   * Removes the live entry; with `revision` only when it still has that one. Atomic. `true` when
   * this call removed it.
   */
  delete(key: string, revision?: Revision): boolean | Promise<boolean>
  /**
   * Adds `by` (an integer, may be negative) to the counter at `key`, which starts at 0. The first
   * writer sets the lifetime; later ones do not change it; after it the counter starts anew.
   * Atomic. Counters have a key space of their own. A bounded store may let the longest unused one
   * start anew.
   */
  increment(key: string, by: number, options: { readonly ttlMs: number }): Counter | Promise<Counter>
  /**
   * Calls `listener` after the entry at `key` was written or deleted. A hint: a notice may be lost,
   * late or repeated, and one comes after every reconnect, so a reader watches first, then reads.
   * The watch is active once there is an outcome. Each call is a watch of its own, also with the
   * same listener. A listener is never called inside the call that writes, nor after its
   * unsubscribe or `close`. One that throws harms nobody else.
   */
  watch(key: string, listener: () => void): Unsubscribe | Promise<Unsubscribe>
  /**
   * Lets go of timers, watchers and connections of its own; the caller's client stays open. Every
   * later call rejects with a `StoreUnavailableError`, except `close`, which may be called again.
   */
  close(): Promise<void>
}

/**
 * Names one version of an entry. Opaque; never used twice for one key, not even after the key was
 * deleted or expired.
 */
export type Revision = string

/** One entry. `value` is text, so that no two callers can share an object. */
export interface Entry {
  readonly value: string
  readonly revision: Revision
}

/** How long a new entry lives, and whether it may go earlier. */
export interface WriteOptions {
  /** Lifetime in milliseconds, from the moment of the write by the store's clock. */
  readonly ttlMs: number
  /**
   * Whether the store may drop the entry early when it needs room (a finished task, say). `{ with:
   * key }`: only together with the entry at `key` or once that one is gone. The entry at `key` has
   * to say `true` or `false` itself. Default `false`.
   */
  readonly evictable?: Evictable | undefined
}

/** Options of `create`. */
export interface CreateOptions extends WriteOptions {
  /**
   * `false`: nobody watches the key, because it is new and random. The store may then omit the
   * notice of this write; later writes give notice as usual. Default `true`.
   */
  readonly notify?: boolean | undefined
}

/** Whether an entry may go before it expires. */
export type Evictable = boolean | { readonly with: string }

/** As `WriteOptions`; without `ttlMs` the entry keeps its expiry. */
export interface ReplaceOptions extends Omit<WriteOptions, 'ttlMs'> {
  readonly ttlMs?: number | undefined
}

/** The entry was written. */
export interface Created { readonly created: true; readonly revision: Revision }
/** A live entry was there already; nothing was written. */
export interface Existing { readonly created: false; readonly entry: Entry }
/** The entry was written. */
export interface Replaced { readonly replaced: true; readonly revision: Revision }
/** The entry has another revision, or is gone (`undefined`); nothing was written. */
export interface Conflict { readonly replaced: false; readonly entry: Entry | undefined }
/**
 * A counter after it was changed. `resetMs`: milliseconds until it starts anew, by the store's
 * clock.
 */
export interface Counter { readonly value: number; readonly resetMs: number }
/** Ends a watch. Calling it twice is harmless. */
export type Unsubscribe = () => void

const BRAND = Symbol.for('longhaul.StoreUnavailableError')

/**
 * The store can't serve now: unreachable, too slow, or full. Answered as 503 with `Retry-After`.
 * Recognise it by `isStoreUnavailable`, which works across copies of this package.
 */
export class StoreUnavailableError extends Error {
  override readonly name = 'StoreUnavailableError'
  // Not a field: who only recognises the class would have it in the bundle.
  declare readonly [BRAND]: true
  /** `full`: there is no room for new entries. `unavailable`: everything else. */
  readonly reason: 'unavailable' | 'full'
  constructor(message: string, options: { reason?: 'unavailable' | 'full'; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    for (const name in options) {
      if (name !== 'reason' && name !== 'cause') throw new TypeError(`StoreUnavailableError: there is no option "${name}". The options are reason and cause.`)
    }
    this[BRAND] = true
    this.reason = options.reason ?? 'unavailable'
  }
}

/** Whether `error` is a `StoreUnavailableError` of any copy of this package. */
export function isStoreUnavailable(error: unknown): error is StoreUnavailableError {
  return typeof error === 'object' && error !== null && BRAND in error
}
