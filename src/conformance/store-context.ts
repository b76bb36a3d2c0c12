import assert from 'node:assert/strict'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { type Revision, type Store, type WriteOptions } from '../stores/store.js'
import { eventually, inTime, pause } from './waiting.js'

/**
 * What a store's tests are run on: a fresh one for each test. It need not be empty, keys are
 * unique.
 */
export interface StoreFixture {
  readonly store: Store
  /**
   * A second store on the same data, as another process would have it. Required when
   * `store.shared`.
   */
  readonly second?: Store
  /** The store's clock, in milliseconds; only differences count. Default: the monotonic clock. */
  readonly now?: () => number
  /** Moves the store's clock forward at once. Without it the suite waits. */
  readonly advance?: (ms: number) => Promise<void> | void
  /** Cleans up after the test. Default: closes the stores. */
  readonly close?: () => Promise<void> | void
}

/** How the store suite is run. */
export interface StoreConformanceOptions {
  /** Title of the suite. Default `Store conformance`. */
  readonly title?: string
  /** Milliseconds by which the store's clock may be off, and that a call may take. Default 50. */
  readonly toleranceMs?: number
  /** Milliseconds after which what has to happen counts as not happening. Default 5000. */
  readonly timeoutMs?: number
}

/** One test's tools. */
export class StoreContext {
  readonly store: Store
  /** The second view on the data, or the store itself. */
  readonly second: Store
  readonly hasSecond: boolean
  readonly timeoutMs: number
  readonly toleranceMs: number
  readonly #fixture: StoreFixture
  readonly #prefix = `conformance:${Math.random().toString(36).slice(2)}:`

  constructor(fixture: StoreFixture, { toleranceMs = 50, timeoutMs = 5000 }: StoreConformanceOptions) {
    this.#fixture = fixture
    this.store = fixture.store
    this.second = fixture.second ?? fixture.store
    this.hasSecond = fixture.second !== undefined
    this.toleranceMs = toleranceMs
    this.timeoutMs = timeoutMs
  }

  /** A key that only this test has. */
  key(name = 'key'): string {
    return this.#prefix + name
  }

  now(): number {
    return this.#fixture.now?.() ?? performance.now()
  }

  /** A lifetime that no test outlasts. */
  readonly later = { ttlMs: 600_000 }

  /** A lifetime that a test can wait for. */
  get soon(): { readonly ttlMs: number } {
    return { ttlMs: 2 * this.toleranceMs + 20 }
  }

  /** Waits until what was written before this call with the lifetime `ttlMs` has expired. */
  async outlive({ ttlMs }: { readonly ttlMs: number }): Promise<void> {
    const wait = ttlMs + this.toleranceMs + 1
    if (this.#fixture.advance) await this.#fixture.advance(wait)
    else await pause(wait)
  }

  /**
   * Runs `body`, which relies on nothing having expired yet, again with more time when it failed
   * and the machine was so slow that the expiry may have come. Gives the key and the lifetime that
   * it used.
   */
  async whileLive(
    body: (key: string, life: { readonly ttlMs: number }) => Promise<void>,
  ): Promise<{ readonly key: string, readonly life: { readonly ttlMs: number } }> {
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

  /** Creates an entry where none is, and gives its revision. */
  async created(key: string, value: string, options: WriteOptions = this.later): Promise<Revision> {
    const outcome = await this.store.create(key, value, options)
    assert.ok(outcome.created, 'create() found an entry where none was')
    return outcome.revision
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

  /** Time in which what should not happen would have. */
  quiet(): Promise<void> {
    return pause(this.toleranceMs)
  }

  async end(): Promise<void> {
    if (this.#fixture.close) return this.#fixture.close()
    await this.#fixture.store.close()
    await this.#fixture.second?.close()
  }
}
