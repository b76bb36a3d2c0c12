import { type BlobRange, type Blobs } from '../stores/blobs.js'
import { eventually, inTime, pause } from './waiting.js'
import type { SuiteOptions } from './runner.js'

/** Blobs for one test. They need not be empty, because keys are unique. */
export interface BlobsFixture {
  readonly blobs: Blobs
  /** Second blobs on the same data, as in another process. Required if `blobs.shared`. */
  readonly second?: Blobs
  /** Clock of the blobs in milliseconds, if it is not real time. */
  readonly now?: () => number
  /** Moves the clock of the blobs forward. Default: the suite waits. */
  readonly advance?: (ms: number) => Promise<void> | void
  /** Maximum size of all blobs in bytes, if a test can reach it: at least 1 MiB. */
  readonly capacity?: number
  /** Cleans up after the test. Default: closes the blobs. */
  readonly close?: () => Promise<void> | void
}

/** Helpers of one test. */
export class BlobsContext {
  readonly blobs: Blobs
  /** Second blobs on the same data, or the blobs themselves. */
  readonly second: Blobs
  readonly hasSecond: boolean
  readonly capacity: number | undefined
  readonly #toleranceMs: number
  readonly #timeoutMs: number
  readonly #fixture: BlobsFixture
  readonly #prefix = `conformance:${Math.random().toString(36).slice(2)}:`

  constructor(
    fixture: BlobsFixture,
    { toleranceMs, timeoutMs }: Pick<Required<SuiteOptions>, 'toleranceMs' | 'timeoutMs'>,
  ) {
    this.#fixture = fixture
    this.blobs = fixture.blobs
    this.second = fixture.second ?? fixture.blobs
    this.hasSecond = fixture.second !== undefined
    this.capacity = fixture.capacity
    this.#toleranceMs = toleranceMs
    this.#timeoutMs = timeoutMs
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

  /** Waits until everything written before this call with the lifetime `ttlMs` has expired. */
  async outlive({ ttlMs }: { readonly ttlMs: number }): Promise<void> {
    const wait = ttlMs + this.#toleranceMs + 1
    if (this.#fixture.advance) await this.#fixture.advance(wait)
    else await pause(wait)
  }

  /**
   * Runs `body`, which requires that a blob has not expired. Repeats it with a longer lifetime if
   * it failed after a possible expiry, because the machine was slow.
   */
  async beforeExpiry<T>(
    body: (life: { readonly ttlMs: number }, key: string) => Promise<T>,
  ): Promise<{
    readonly result: T
    readonly life: { readonly ttlMs: number }
    readonly key: string
  }> {
    for (const ms of [300, 1500, 6000, 24_000]) {
      const life = { ttlMs: ms + 2 * this.#toleranceMs }
      const expiry = this.now() + life.ttlMs
      const key = this.key(`life-${ms}`)
      try {
        return { result: await body(life, key), life, key }
      } catch (error) {
        if (this.now() < expiry - this.#toleranceMs || ms === 24_000) throw error
      }
    }
    throw new Error('there is a life that is long enough, or a failure')
  }

  /** Returns the content of a blob as text (latin1), or `undefined` if there is none. */
  async text(key: string, range?: BlobRange, blobs = this.blobs): Promise<string | undefined> {
    const content = await blobs.open(key, range)
    return content && collect(content)
  }

  eventually(check: () => boolean | Promise<boolean>, what: string): Promise<void> {
    return eventually(check, this.#timeoutMs, what)
  }

  inTime<T>(promise: Promise<T>, what: string): Promise<T> {
    return inTime(promise, this.#timeoutMs, what)
  }

  async end(): Promise<void> {
    if (this.#fixture.close) return this.#fixture.close()
    await this.#fixture.blobs.close()
    await this.#fixture.second?.close()
  }
}

/** Yields one chunk for each text. */
export async function* chunks(...texts: string[]): AsyncGenerator<Uint8Array, void, undefined> {
  for (const text of texts) yield Buffer.from(text, 'latin1')
}

/** Yields `count` bytes of a pattern, in chunks of `size`. */
export async function* bytes(
  count: number,
  size = 100_000,
): AsyncGenerator<Uint8Array, void, undefined> {
  for (let at = 0; at < count; at += size) {
    yield Uint8Array.from({ length: Math.min(size, count - at) }, (_, index) => byteAt(at + index))
  }
}

/** Returns the byte of `bytes` at a position. */
export function byteAt(position: number): number {
  return (position * 31 + (position >> 8) * 7 + (position >> 16)) & 0xff
}

/** Reads all content as text (latin1). */
export async function collect(content: AsyncIterable<Uint8Array>): Promise<string> {
  const all: Uint8Array[] = []
  for await (const chunk of content) all.push(chunk)
  return Buffer.concat(all).toString('latin1')
}
