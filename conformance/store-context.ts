import assert from 'node:assert/strict'
import type { ReplaceOptions, Revision, Store, WriteOptions } from '../src/stores/store.js'
import { KeyedContext, type KeyedFixture } from './keyed-context.js'
import type { SuiteOptions } from './runner.js'

/** A store for one test. It need not be empty, because keys are unique. */
export interface StoreFixture extends KeyedFixture {
  readonly store: Store
  /** Second store on the same data, as in another process. Required if `store.shared`. */
  readonly second?: Store
}

/** Options of `storeConformance`. */
export interface StoreConformanceOptions extends SuiteOptions {
  /**
   * Share of one caller in the stores of `factory`, in entries and bytes. Make it small: the suite
   * writes twice as much. 20 entries and 16,000 bytes are enough. Default: shares are not tested.
   */
  readonly callerShare?: CallerShare
}

/** Limits of the evictable entries of one caller. */
export interface CallerShare {
  /** Number of entries. */
  readonly entries: number
  /** Bytes of these entries. */
  readonly bytes: number
}

/** Helpers of one test. */
export class StoreContext extends KeyedContext<Store> {
  readonly store: Store
  readonly share: CallerShare

  constructor(
    fixture: StoreFixture,
    options: StoreConformanceOptions & { readonly timeoutMs: number, readonly toleranceMs: number },
  ) {
    super(fixture, fixture.store, fixture.second, options)
    this.store = fixture.store
    this.share = options.callerShare ?? { entries: 0, bytes: 0 }
  }

  /** Creates an entry at a free key and returns its revision. */
  async created(
    key: string, value: string, options: WriteOptions = this.later, store = this.store,
  ): Promise<Revision> {
    const outcome = await store.create(key, value, options)
    assert.ok(outcome.created, 'create() found an entry at a free key')
    return outcome.revision
  }

  /** Replaces an entry, which must succeed, and returns its new revision. */
  async replaced(
    key: string, value: string, revision: Revision, options: ReplaceOptions = this.later,
  ): Promise<Revision> {
    const outcome = await this.store.replace(key, value, revision, options)
    assert.ok(outcome.replaced, 'replace() did not accept the current revision')
    return outcome.revision
  }

  /** Asserts that a revision is not the current one: neither replace nor delete accepts it. */
  async outdated(key: string, revision: Revision): Promise<void> {
    const { replaced } = await this.store.replace(key, 'outdated', revision, this.later)
    assert.equal(replaced, false, `replace() accepted the revision ${JSON.stringify(revision)}`)
    const deleted = await this.store.delete(key, revision)
    assert.equal(deleted, false, `delete() accepted the revision ${JSON.stringify(revision)}`)
  }

  /** Asserts that there is no entry at a key. */
  async absent(key: string, message?: string): Promise<void> {
    assert.equal(await this.store.get(key), undefined, message)
  }

  /** Adds to a counter, and returns its value. */
  async count(key: string, by = 1, store = this.store): Promise<number> {
    return (await store.increment(key, by, this.later)).value
  }

  /** Returns one of the stores: half of many concurrent callers use the second one. */
  side(index: number): Store {
    return index % 2 === 0 ? this.store : this.second
  }

  async value(key: string, store = this.store): Promise<string | undefined> {
    return (await store.get(key))?.value
  }
}
