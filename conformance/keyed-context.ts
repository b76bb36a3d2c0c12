import { pause, Waits } from './wait.js'
import type { MaybePromise } from '../src/runtime/maybe-promise.js'

/** Parts of the fixtures of stores and blobs. They need not be empty, because keys are unique. */
export interface KeyedFixture {
  /** Clock of the data in milliseconds, from any origin. Default: the monotonic clock. */
  readonly now?: () => number
  /** Moves this clock forward. Default: the suite waits. */
  readonly advance?: (ms: number) => MaybePromise<void>
  /** Cleans up after the test. Default: closes what the test uses. */
  readonly close?: () => MaybePromise<void>
}

interface Life {
  readonly ttlMs: number
}

/** Keys and lifetimes of one test. */
export class KeyedContext<Data extends { close(): MaybePromise<void> }> extends Waits {
  /** The same data in another process, or `data` itself. */
  readonly second: Data
  /** Lifetime that is longer than any test. */
  readonly later = { ttlMs: 600_000 }
  /** Lifetime that is short enough to wait for. */
  readonly short = { ttlMs: 2 * this.toleranceMs + 20 }
  readonly #prefix = `conformance:${Math.random().toString(36).slice(2)}:`

  constructor(
    readonly fixture: KeyedFixture,
    readonly data: Data,
    other: Data | undefined,
    { timeoutMs, toleranceMs }: { readonly timeoutMs: number, readonly toleranceMs: number },
  ) {
    super(timeoutMs, toleranceMs)
    this.second = other ?? data
  }

  /** Returns a key that only this test uses. */
  key(name = 'key'): string {
    return this.#prefix + name
  }

  /** Waits until everything that was written before this call with this lifetime has expired. */
  async outlive({ ttlMs }: Life): Promise<void> {
    const wait = ttlMs + this.toleranceMs + 1
    await (this.fixture.advance ? this.fixture.advance(wait) : pause(wait))
  }

  /**
   * Runs `body`, which requires that nothing has expired. Repeats it with a longer lifetime if it
   * failed after a possible expiry, because the machine was slow.
   */
  async whileLive<T>(
    body: (key: string, life: Life) => Promise<T>,
  ): Promise<{ readonly result: T, readonly key: string, readonly life: Life }> {
    const now = this.fixture.now ?? (() => performance.now())
    for (let ms = 300; ; ms *= 5) {
      const life = { ttlMs: ms + 2 * this.toleranceMs }
      const expiry = now() + life.ttlMs
      const key = this.key(`life-${ms}`)
      try {
        return { result: await body(key, life), key, life }
      } catch (error) {
        if (now() < expiry - this.toleranceMs || ms > 10_000) throw error
      }
    }
  }

  /** Checks that there is a second process if, and only if, the data are shared. */
  async end(): Promise<void> {
    if (this.fixture.close) return this.fixture.close()
    await this.data.close()
    if (this.second !== this.data) await this.second.close()
  }
}
