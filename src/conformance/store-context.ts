import assert from 'node:assert/strict'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import type { ReplaceOptions, Revision, Store, WriteOptions } from '../stores/store.js'
import { eventually, inTime, pause } from './waiting.js'
import type { SuiteOptions } from './runner.js'

/** A store for one test. It need not be empty, because keys are unique. */
export interface StoreFixture {
  readonly store: Store
  /** Second store on the same data, as in another process. Required if `store.shared`. */
  readonly second?: Store
  /** Clock of the store in milliseconds, from any origin. Default: the monotonic clock. */
  readonly now?: () => number
  /** Moves the clock of the store forward. Default: the suite waits. */
  readonly advance?: (ms: number) => Promise<void> | void
  /** Cleans up after the test. Default: closes the stores. */
  readonly close?: () => Promise<void> | void
}

/** Options of `storeConformance`. */
export interface StoreConformanceOptions extends SuiteOptions {
  /**
   * Share of one owner in the stores of `factory`, in entries and bytes. Make it small: the suite
   * writes twice as much. 20 entries and 16,000 bytes will do. Default: shares are not tested.
   */
  readonly ownerShare?: OwnerShare
}

/** Limits of what one owner leaves behind in a store. */
export interface OwnerShare {
  /** Number of entries. */
  readonly entries: number
  /** Bytes of these entries. */
  readonly bytes: number
}

/** A watch of one key. */
interface Watched {
  /** Returns the number of notices so far. */
  readonly count: () => number
  readonly stop: () => void
  /** Returns a function that waits for a notice after this call. */
  readonly heard: (what: string) => () => Promise<void>
}

/** Helpers of one test. */
export class StoreContext {
  readonly store: Store
  /** Second store on the same data, or the store itself. */
  readonly second: Store
  readonly hasSecond: boolean
  readonly timeoutMs: number
  readonly toleranceMs: number
  readonly share: OwnerShare
  readonly #fixture: StoreFixture
  readonly #prefix = `conformance:${Math.random().toString(36).slice(2)}:`

  constructor(
    fixture: StoreFixture,
    {
      toleranceMs, timeoutMs, ownerShare = { entries: 0, bytes: 0 },
    }: StoreConformanceOptions & Pick<
      Required<StoreConformanceOptions>, 'toleranceMs' | 'timeoutMs'
    >,
  ) {
    this.share = ownerShare
    this.#fixture = fixture
    this.store = fixture.store
    this.second = fixture.second ?? fixture.store
    this.hasSecond = fixture.second !== undefined
    this.toleranceMs = toleranceMs
    this.timeoutMs = timeoutMs
  }

  /** Returns a key that only this test uses. */
  key(name = 'key'): string {
    return this.#prefix + name
  }

  now(): number {
    return this.#fixture.now?.() ?? performance.now()
  }

  /** Lifetime that is longer than any test. */
  readonly later = { ttlMs: 600_000 }

  /** Lifetime that is short enough to wait for. */
  get soon(): { readonly ttlMs: number } {
    return { ttlMs: 2 * this.toleranceMs + 20 }
  }

  /** Waits until everything written before this call with the lifetime `ttlMs` has expired. */
  async outlive({ ttlMs }: { readonly ttlMs: number }): Promise<void> {
    const wait = ttlMs + this.toleranceMs + 1
    if (this.#fixture.advance) await this.#fixture.advance(wait)
    else await pause(wait)
  }

  /**
   * Runs `body`, which requires that nothing has expired. Repeats it with a longer lifetime if it
   * failed after a possible expiry, because the machine was slow. Returns the key and the lifetime
   * used.
   */
  async whileLive(
    body: (key: string, life: { readonly ttlMs: number }) => Promise<void>,
  ): Promise<{ readonly key: string; readonly life: { readonly ttlMs: number } }> {
    for (let ms = 300; ; ms *= 5) {
      const life = { ttlMs: ms + 2 * this.toleranceMs }
      const begun = this.now()
      const key = this.key(`life-${ms}`)
      try {
        await body(key, life)
        return { key, life }
      } catch (error) {
        if (this.now() < begun + life.ttlMs - this.toleranceMs || ms > 10_000) throw error
      }
    }
  }

  /** Creates an entry at a free key and returns its revision. */
  async created(key: string, value: string, options: WriteOptions = this.later): Promise<Revision> {
    const outcome = await this.store.create(key, value, options)
    assert.ok(outcome.created, 'create() found an entry where none was')
    return outcome.revision
  }

  /** Replaces an entry, which must succeed, and returns its new revision. */
  async replaced(
    key: string, value: string, revision: Revision, options: ReplaceOptions = this.later,
    store = this.store,
  ): Promise<Revision> {
    const outcome = await store.replace(key, value, revision, options)
    assert.ok(outcome.replaced, 'replace() did not accept the current revision')
    return outcome.revision
  }

  /** Asserts that a revision is no longer the current one: neither replace nor delete accept it. */
  async outdated(key: string, revision: Revision): Promise<void> {
    const { replaced } = await this.store.replace(key, 'outdated', revision, this.later)
    assert.equal(replaced, false, `replace() took the revision ${JSON.stringify(revision)}`)
    const deleted = await this.store.delete(key, revision)
    assert.equal(deleted, false, `delete() took the revision ${JSON.stringify(revision)}`)
  }

  /** Adds to a counter, and returns its value. */
  async count(key: string, by = 1, store = this.store): Promise<number> {
    return (await store.increment(key, by, this.later)).value
  }

  /** Returns one of the stores: half of many concurrent callers use the second one. */
  side(index: number): Store {
    return index % 2 === 0 ? this.store : this.second
  }

  /** Watches a key, and counts the notices. */
  async watched(key = this.key()): Promise<Watched> {
    let count = 0
    const stop = await this.store.watch(key, () => { count++ })
    const heard = (what: string): (() => Promise<void>) => {
      const before = count
      return () => this.eventually(() => count > before, `the watch tells of the ${what}`)
    }
    return { count: () => count, stop, heard }
  }

  async value(key: string, store = this.store): Promise<string | undefined> {
    return (await store.get(key))?.value
  }

  eventually(check: () => boolean | Promise<boolean>, what: string): Promise<void> {
    return eventually(check, this.timeoutMs, what)
  }

  inTime<T>(promise: MaybePromise<T>, what: string): Promise<T> {
    return inTime(promise, this.timeoutMs, what)
  }

  /** Waits as long as an unexpected event would take. */
  quiet(): Promise<void> {
    return pause(this.toleranceMs)
  }

  async end(): Promise<void> {
    if (this.#fixture.close) return this.#fixture.close()
    await this.#fixture.store.close()
    await this.#fixture.second?.close()
  }
}
