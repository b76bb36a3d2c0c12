import { randomBytes } from 'node:crypto'
import { checkNames } from '../../src/runtime/option-names.js'
import { readOptions, value, whole, type OptionTable } from '../../src/runtime/options.js'
import {
  BLOB_PUT, BLOB_RANGE, blobRange, checkBlobKey, checkBlobLifetime, takeContent,
} from '../../src/stores/blob-rules.js'
import type { BlobInfo, BlobRange, Blobs, BlobPutOptions } from '../../src/stores/blobs.js'
import { StoreUnavailableError } from '../../src/stores/store.js'
import { ExpiryScanner } from './expiry-scanner.js'

const MIB = 1024 * 1024
/** Maximum overhead of a blob in bytes, with a key of 512 characters. */
const OVERHEAD = 2048
/**
 * Block size in bytes. Blobs are stored in blocks, regardless of the size of the chunks that were
 * written.
 */
const BLOCK = 64 * 1024

/** Options of `MemoryBlobs`. */
export interface MemoryBlobsOptions {
  /**
   * Maximum size of all blobs in bytes, including those being written or read. Each blob counts 2
   * KiB in addition. Default: 256 MiB.
   */
  readonly maxBytes?: number
  /** Clock in milliseconds, from any origin. For tests. Default: `performance.now`. */
  readonly now?: () => number
}

const MEMORY_BLOBS = {
  maxBytes: whole({ min: 1, default: 256 * MIB }), now: value(),
} satisfies OptionTable<MemoryBlobsOptions>

/**
 * Blobs in the memory of this process, outside the JavaScript heap. If `maxBytes` would be
 * exceeded, removes expired blobs. If that is not enough, `put` rejects with a
 * `StoreUnavailableError` with the reason `full`. Blobs are never removed before they expire.
 *
 * Readers never see an expired blob. Its memory is released within a second, or with the first
 * write that needs it.
 *
 * @example
 * const blobs = new MemoryBlobs({ maxBytes: 64 * 1024 * 1024 })
 */
export class MemoryBlobs implements Blobs {
  readonly shared = false
  /** Maximum number of bytes of all blobs. */
  readonly maxBytes: number
  readonly #blobs = new Map<string, Blob>()
  readonly #now: () => number
  readonly #scanner = new ExpiryScanner(() => this.#walk())
  /** Random id of this store. Makes entity tags unique across stores. */
  #name: string | undefined
  #written = 0
  #bytes = 0
  #closed = false

  /** @throws {TypeError} An option is unknown or out of range. */
  constructor(options: MemoryBlobsOptions = {}) {
    const { maxBytes, now } = readOptions('MemoryBlobs', options, MEMORY_BLOBS)
    this.maxBytes = maxBytes
    this.#now = now ?? (() => performance.now())
  }

  /** Returns the number of blobs and the bytes that `maxBytes` limits. */
  usage(): { blobs: number; bytes: number } {
    return { blobs: this.#blobs.size, bytes: this.#bytes }
  }

  async put(
    key: string,
    content: AsyncIterable<Uint8Array>,
    options: BlobPutOptions,
  ): Promise<BlobInfo> {
    this.#check(key)
    checkNames('MemoryBlobs: put', options, BLOB_PUT)
    const { ttlMs, signal } = options
    checkBlobLifetime(ttlMs)
    const writer = new BlobWriter((bytes) => {
      this.#reserve(bytes)
    })
    let held = 0
    try {
      await takeContent(content, signal, (chunk) => {
        this.#assertOpen()
        writer.write(chunk)
      })
      this.#assertOpen()
      this.#reserve(OVERHEAD)
      held = OVERHEAD
      const { size } = writer
      const blocks = writer.finish()
      // Created late, because a Worker has no random bytes while its module is loaded.
      this.#name ??= randomBytes(9).toString('base64url')
      const info = { size, etag: `"${this.#name}-${(this.#written++).toString(36)}"` }
      const bytes = held + writer.bytes
      this.#drop(key)
      const blob = new Blob(info, this.#now() + ttlMs, blocks, () => {
        this.#bytes -= bytes
      })
      if (ttlMs > 0) {
        this.#blobs.set(key, blob)
        this.#scanner.start()
      } else blob.drop()
      return info
    } catch (error) {
      this.#bytes -= held + writer.bytes
      throw error
    }
  }

  async stat(key: string): Promise<BlobInfo | undefined> {
    this.#check(key)
    return this.#live(key)?.info
  }

  async open(key: string, range: BlobRange = {}): Promise<AsyncIterable<Uint8Array> | undefined> {
    this.#check(key)
    checkNames('MemoryBlobs: open', range, BLOB_RANGE)
    const blob = this.#live(key)
    if (blob === undefined || (range.etag !== undefined && range.etag !== blob.info.etag)) {
      return undefined
    }
    const { start, end } = blobRange(range, blob.info.size)
    return blob.read(start, end, () => {
      if (blob.gone) throw new StoreUnavailableError('The blob went before it was read')
    })
  }

  async renew(key: string, ttlMs: number): Promise<BlobInfo | undefined> {
    this.#check(key)
    checkBlobLifetime(ttlMs)
    const blob = this.#live(key)
    if (blob) blob.expiresAt = Math.max(blob.expiresAt, this.#now() + ttlMs)
    return blob?.info
  }

  async delete(key: string): Promise<boolean> {
    this.#check(key)
    if (this.#live(key) === undefined) return false
    this.#drop(key)
    return true
  }

  /** Removes all blobs. Running readers get the rest of theirs. */
  async close(): Promise<void> {
    this.#closed = true
    this.#scanner.stop()
    for (const key of [...this.#blobs.keys()]) this.#drop(key)
  }

  #check(key: string): void {
    this.#assertOpen()
    checkBlobKey(key)
  }

  #assertOpen(): void {
    if (this.#closed) throw new StoreUnavailableError('The blobs are closed')
  }

  #live(key: string): Blob | undefined {
    const blob = this.#blobs.get(key)
    if (blob === undefined || blob.expiresAt > this.#now()) return blob
    this.#drop(key)
    return undefined
  }

  #drop(key: string): void {
    this.#blobs.get(key)?.drop()
    this.#blobs.delete(key)
  }

  #reserve(bytes: number): void {
    if (bytes > 0 && this.#bytes + bytes > this.maxBytes) {
      for (const key of [...this.#blobs.keys()]) this.#live(key)
      if (this.#bytes + bytes > this.maxBytes) {
        throw new StoreUnavailableError('There is no space for more blobs', { reason: 'full' })
      }
    }
    this.#bytes += bytes
  }

  /** Visits every blob. Yields `true` if the blob was removed. */
  *#walk(): Generator<boolean> {
    for (const key of this.#blobs.keys()) yield this.#live(key) === undefined
  }
}

/** Collects the chunks of one blob. Calls `reserve` before it allocates a block. */
class BlobWriter {
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
class Blob {
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
