import { randomBytes } from 'node:crypto'
import { checkNames } from '../../src/runtime/option-names.js'
import { readOptions, value, whole, type OptionTable } from '../../src/runtime/options.js'
import { BLOCK_BYTES, Blocks } from '../../src/runtime/text.js'
import {
  BLOB_PUT, BLOB_RANGE, blobRange, checkBlobKey, checkBlobLifetime, takeContent,
} from '../../src/stores/blob-rules.js'
import type { BlobInfo, BlobRange, Blobs, BlobPutOptions } from '../../src/stores/blobs.js'
import { StoreUnavailableError } from '../../src/stores/store.js'
import { ExpiryScanner, walk } from './expiry-scanner.js'

const MIB = 1024 * 1024
/** Maximum overhead of a blob in bytes, with a key of 512 characters. */
const OVERHEAD = 2048

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
 * Blobs in the memory of this process, outside the JavaScript heap. If `maxBytes` would be exceeded, removes
 * expired blobs; if that is not enough, `put` rejects with a `StoreUnavailableError` with the reason `full`.
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
  readonly #scanner = new ExpiryScanner(() => (
    walk(this.#blobs, ({ key }) => this.#live(key) === undefined)
  ))
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
    key: string, content: AsyncIterable<Uint8Array>, options: BlobPutOptions,
  ): Promise<BlobInfo> {
    this.#check(key)
    checkNames('MemoryBlobs: put', options, BLOB_PUT)
    const { ttlMs, signal } = options
    checkBlobLifetime(ttlMs)
    const blob = new Blob(key)
    try {
      await takeContent(content, signal, (chunk) => {
        this.#assertOpen()
        const blocks = Math.ceil((blob.content.size + chunk.byteLength) / BLOCK_BYTES)
        this.#reserve(blob, blocks * BLOCK_BYTES)
        blob.content.add(chunk)
      })
      this.#assertOpen()
      blob.content.shorten()
      this.#reserve(blob, blob.content.size + OVERHEAD)
    } catch (error) {
      this.#bytes -= blob.bytes
      throw error
    }
    // Created late, because a Worker has no random bytes while its module is loaded.
    this.#name ??= randomBytes(9).toString('base64url')
    blob.etag = `"${this.#name}-${(this.#written++).toString(36)}"`
    blob.expiresAt = this.#now() + ttlMs
    this.#drop(key)
    if (ttlMs > 0) {
      this.#blobs.set(key, blob)
      this.#scanner.start()
    } else this.#bytes -= blob.bytes
    return blob.info
  }

  async stat(key: string): Promise<BlobInfo | undefined> {
    this.#check(key)
    return this.#live(key)?.info
  }

  async open(key: string, range: BlobRange = {}): Promise<AsyncIterable<Uint8Array> | undefined> {
    this.#check(key)
    checkNames('MemoryBlobs: open', range, BLOB_RANGE)
    const blob = this.#live(key)
    if (!blob || (range.etag !== undefined && range.etag !== blob.etag)) return undefined
    const { start, end } = blobRange(range, blob.content.size)
    return this.#read(blob, start, end)
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

  /** Removes all blobs. Active readers get the rest of their content. */
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
    const blob = this.#blobs.get(key)
    if (blob === undefined) return
    this.#blobs.delete(key)
    blob.isDropped = true
    if (blob.readers === 0) this.#bytes -= blob.bytes
  }

  /** @param bytes - memory that the blob takes from now on */
  #reserve(blob: Blob, bytes: number): void {
    const added = bytes - blob.bytes
    const isFull = (): boolean => added > 0 && this.#bytes + added > this.maxBytes
    if (isFull()) for (const key of [...this.#blobs.keys()]) this.#live(key)
    if (isFull()) {
      throw new StoreUnavailableError('There is no space for more blobs', { reason: 'full' })
    }
    this.#bytes += added
    blob.bytes = bytes
  }

  /** Yields copies of the bytes, so that a reader cannot change the blob. */
  async *#read(
    blob: Blob, start: number, end: number,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    if (blob.isDropped) throw new StoreUnavailableError('The blob was removed before it was read')
    blob.readers++
    try {
      for (const piece of blob.content.pieces(start, end)) yield Uint8Array.from(piece)
    } finally {
      if (--blob.readers === 0 && blob.isDropped) this.#bytes -= blob.bytes
    }
  }
}

/**
 * A blob in memory. Its memory is released when it has been dropped and its last reader has ended.
 */
class Blob {
  readonly content = new Blocks()
  etag = ''
  /** Time of expiry in milliseconds, by the clock of the blobs. */
  expiresAt = 0
  /** Bytes that count towards `maxBytes`. */
  bytes = 0
  readers = 0
  isDropped = false

  constructor(readonly key: string) {}

  get info(): BlobInfo {
    return { size: this.content.size, etag: this.etag }
  }
}
