import type { MaybePromise } from '../runtime/maybe-promise.js'
import type {
  Entry, ReplaceOptions, Revision, Store, Unsubscribe, WriteOptions,
} from './store.js'
import type { Watchable } from './watched.js'

/** Returned by an update that leaves the entry as it is. */
export const UNCHANGED = Symbol('unchanged')

/** Entries of one kind. */
export interface RecordKind<T> {
  /**
   * Returns the lifetime and the caller of an entry with this value. Without `ttlMs` a write keeps the
   * expiry of the entry, and a new entry needs options of its own.
   */
  readonly options: (value: T) => ReplaceOptions
  /** Default: JSON. */
  readonly encode?: (value: T) => string
  readonly decode?: (text: string) => T
}

/**
 * One entry of a store that several processes change by compare-and-set. One user at a time may use
 * an object of this class.
 *
 * A write may take effect although its reply is lost. So a write that finds its own text in the
 * entry has succeeded, and two writers must not mean different changes by the same text. A token of
 * the writer in the value ensures this.
 */
export class StoredRecord<T> implements Watchable<T | undefined> {
  /** The value that was read or written last; `undefined` if there was no entry. */
  value: T | undefined
  /** `undefined`: there is no entry. */
  private revision: Revision | undefined
  /** False before the first read, and after a failure, because a write may have taken effect. */
  private isKnown = false

  constructor(
    private readonly store: Store, readonly key: string, private readonly kind: RecordKind<T>,
  ) {}

  async read(): Promise<T | undefined> {
    this.note(await this.store.get(this.key))
    return this.value
  }

  /** Creates the entry. Returns `false` if the entry exists, with its value in `value`. */
  create(value: T, options = this.kind.options(value)): Promise<boolean> {
    this.note(undefined)
    return this.write(value, options)
  }

  /**
   * Writes a value in place of the one that was read or written last. Returns `false` if the entry
   * has changed or is gone. `value` is then the value that the entry has now.
   */
  async write(value: T, options = this.kind.options(value)): Promise<boolean> {
    const { store, key, revision, kind } = this
    const text = kind.encode ? kind.encode(value) : JSON.stringify(value)
    this.isKnown = false
    const outcome = await (revision === undefined
      ? store.create(key, text, options as WriteOptions)
      : store.replace(key, text, revision, options))
    if (!('revision' in outcome) && outcome.entry?.value !== text) {
      this.note(outcome.entry)
      return false
    }
    this.isKnown = true
    this.value = value
    this.revision = 'revision' in outcome ? outcome.revision : outcome.entry?.revision
    return true
  }

  /** Deletes the entry that was read or written last. Returns `false` if it has changed. */
  async delete(): Promise<boolean> {
    const { store, key, revision } = this
    this.isKnown = false
    if (revision !== undefined && !await store.delete(key, revision)) {
      return await this.read() === undefined
    }
    this.note(undefined)
    return true
  }

  /**
   * Changes the entry, even if others change it at the same time. Calls `update` with the current
   * value, and again after each conflict. It returns the next value, `undefined` to delete the
   * entry, or `UNCHANGED`. An error of `update` ends the change.
   *
   * A call that has failed may be repeated. It reads the entry first, so `update` must recognise a value
   * that has its change already.
   */
  async change(
    update: (value: T | undefined) => MaybePromise<T | undefined | typeof UNCHANGED>,
  ): Promise<void> {
    if (!this.isKnown) await this.read()
    for (;;) {
      const next = await update(this.value)
      if (next === UNCHANGED) return
      if (await (next === undefined ? this.delete() : this.write(next))) return
    }
  }

  watch(listener: () => void): MaybePromise<Unsubscribe> {
    return this.store.watch(this.key, listener)
  }

  private note(entry: Entry | undefined): void {
    const { decode } = this.kind
    this.isKnown = true
    this.revision = entry?.revision
    this.value = entry && (decode ? decode(entry.value) : JSON.parse(entry.value) as T)
  }
}
