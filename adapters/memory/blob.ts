import type { BlobInfo } from '../../src/stores/blobs.js'

/**
 * Block size in bytes. Blobs are stored in blocks, regardless of the size of the chunks that were
 * written.
 */
export const BLOCK = 64 * 1024

/** Collects the chunks of one blob. Calls `reserve` before it allocates a block. */
export class BlobWriter {
  readonly #reserve: (bytes: number) => void
  readonly #blocks: Uint8Array[] = []
  #used = 0
  /** Number of bytes reserved. */
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

  /** Returns all blocks. Shortens the last one to its content. */
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
 * A complete blob. Its memory is released when it has been dropped and its last reader has ended.
 */
export class Blob {
  readonly info: BlobInfo
  /** Time of expiry in milliseconds, by the clock of the blobs. */
  expiresAt: number
  readonly #blocks: readonly Uint8Array[]
  readonly #release: () => void
  #readers = 0
  #gone = false

  constructor(
    info: BlobInfo,
    expiresAt: number,
    blocks: readonly Uint8Array[],
    release: () => void,
  ) {
    this.info = info
    this.expiresAt = expiresAt
    this.#blocks = blocks
    this.#release = release
  }

  get gone(): boolean {
    return this.#gone
  }

  /** Marks the blob as removed. New readers cannot find it. */
  drop(): void {
    if (this.#gone) return
    this.#gone = true
    if (this.#readers === 0) this.#release()
  }

  /**
   * Yields copies of the bytes, so that a reader cannot change the blob. `begin` may throw to
   * reject the reader.
   */
  async *read(
    start: number,
    end: number,
    begin: () => void,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    begin()
    this.#readers++
    try {
      for (let at = start; at < end; ) {
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
