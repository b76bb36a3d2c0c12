import type { BlobInfo } from '../../src/stores/blobs.js'

/** Blobs lie in blocks of this size, however small the chunks were that they came in. */
export const BLOCK = 64 * 1024

/** Collects the chunks of one blob. `reserve` is asked before each block is allocated. */
export class BlobWriter {
  readonly #reserve: (bytes: number) => void
  readonly #blocks: Uint8Array[] = []
  #used = 0
  /** What has been reserved. */
  bytes = 0

  constructor(reserve: (bytes: number) => void) {
    this.#reserve = reserve
  }

  get size(): number {
    return this.#blocks.length === 0 ? 0 : (this.#blocks.length - 1) * BLOCK + this.#used
  }

  write(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.byteLength;) {
      const block = this.#room()
      const part = chunk.subarray(at, at + BLOCK - this.#used)
      block.set(part, this.#used)
      this.#used += part.byteLength
      at += part.byteLength
    }
  }

  /** All blocks; the last one is cut to what it holds. */
  finish(): readonly Uint8Array[] {
    const last = this.#blocks.pop()
    if (last !== undefined) {
      this.#blocks.push(last.slice(0, this.#used))
      this.#reserve(this.#used - BLOCK)
      this.bytes += this.#used - BLOCK
    }
    return this.#blocks
  }

  #room(): Uint8Array {
    const last = this.#blocks.at(-1)
    if (last !== undefined && this.#used < BLOCK) return last
    this.#reserve(BLOCK)
    this.bytes += BLOCK
    const block = new Uint8Array(BLOCK)
    this.#blocks.push(block)
    this.#used = 0
    return block
  }
}

/**
 * A complete blob. Its memory is given back when it is gone and the last reader that has begun is
 * done.
 */
export class Blob {
  readonly info: BlobInfo
  /** On the clock of the blobs, in milliseconds. */
  readonly expiresAt: number
  readonly #blocks: readonly Uint8Array[]
  readonly #release: () => void
  #readers = 0
  #gone = false

  constructor(info: BlobInfo, expiresAt: number, blocks: readonly Uint8Array[], release: () => void) {
    this.info = info
    this.expiresAt = expiresAt
    this.#blocks = blocks
    this.#release = release
  }

  get gone(): boolean {
    return this.#gone
  }

  /** Nobody finds it any more. */
  drop(): void {
    if (this.#gone) return
    this.#gone = true
    if (this.#readers === 0) this.#release()
  }

  /**
   * Copies of the bytes, so that no reader can change them for others. `begin` may refuse the
   * reader.
   */
  async* read(start: number, end: number, begin: () => void): AsyncGenerator<Uint8Array, void, undefined> {
    begin()
    this.#readers++
    try {
      for (let at = start; at < end;) {
        const offset = at % BLOCK
        const block = this.#blocks[(at - offset) / BLOCK] as Uint8Array
        const chunk = block.slice(offset, offset + end - at)
        at += chunk.byteLength
        yield chunk
      }
    } finally {
      this.#readers--
      if (this.#gone && this.#readers === 0) this.#release()
    }
  }
}
