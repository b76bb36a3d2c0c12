import { randomBytes } from 'node:crypto'
import { checkNames } from '../../src/runtime/option-names.js'
import {
  BLOB_PUT, BLOB_RANGE, blobRange, checkBlobKey, checkBlobLifetime, takeContent,
} from '../../src/stores/blob-rules.js'
import type { BlobInfo, BlobRange, Blobs, BlobPutOptions } from '../../src/stores/blobs.js'
import { StoreUnavailableError } from '../../src/stores/store.js'
import { Blob, BlobWriter } from './blob.js'
import { wholeNumber } from './limits.js'
import { ExpiryScanner } from './expiry-scanner.js'

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

/** Names of the options. */
export const MEMORY_BLOBS = { maxBytes: 0, now: 0 } satisfies Record<keyof MemoryBlobsOptions, 0>

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
    checkNames('MemoryBlobs', options, MEMORY_BLOBS)
    this.maxBytes = wholeNumber(
      'maxBytes',
      options.maxBytes ?? 256 * MIB,
      1,
      Number.MAX_SAFE_INTEGER,
    )
    this.#now = options.now ?? (() => performance.now())
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
