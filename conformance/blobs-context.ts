import assert from 'node:assert/strict'
import type { BlobInfo, BlobRange, Blobs } from '../src/stores/blobs.js'
import { KeyedContext, type KeyedFixture } from './keyed-context.js'

/** Blobs for one test. They need not be empty, because keys are unique. */
export interface BlobsFixture extends KeyedFixture {
  readonly blobs: Blobs
  /** Second blobs on the same data, as in another process. Required if `blobs.shared`. */
  readonly second?: Blobs
  /** Maximum size of all blobs in bytes, if a test can reach it: at least 1 MiB. */
  readonly capacity?: number
}

/** Helpers of one test. */
export class BlobsContext extends KeyedContext<Blobs> {
  readonly blobs: Blobs
  readonly capacity: number | undefined

  constructor(
    fixture: BlobsFixture, options: { readonly timeoutMs: number, readonly toleranceMs: number },
  ) {
    super(fixture, fixture.blobs, fixture.second, options)
    this.blobs = fixture.blobs
    this.capacity = fixture.capacity
  }

  /** Writes a text (latin1). */
  put(text: string, key = this.key(), life = this.later): Promise<BlobInfo> {
    return this.blobs.put(key, chunks(text), life)
  }

  /** Returns the content of a blob as text (latin1), or `undefined` if there is none. */
  async text(key = this.key(), range?: BlobRange, blobs = this.blobs): Promise<string | undefined> {
    const content = await blobs.open(key, range)
    return content && collect(content)
  }

  /** Asserts that there is no blob at a key. */
  async absent(key = this.key()): Promise<void> {
    assert.equal(await this.blobs.stat(key), undefined)
    assert.equal(await this.blobs.open(key), undefined)
    assert.equal(await this.blobs.renew(key, 1000), undefined)
    assert.equal(await this.blobs.delete(key), false)
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
