import { randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { checkNames } from '../../src/runtime/option-names.js'
import { flag, func, readOptions, timer, whole, type OptionTable } from '../../src/runtime/options.js'
import {
  BLOB_PUT, BLOB_RANGE, blobRange, checkBlobKey, checkBlobLifetime, takeContent,
} from '../../src/stores/blob-rules.js'
import type { BlobInfo, BlobPutOptions, BlobRange, Blobs } from '../../src/stores/blobs.js'
import { StoreUnavailableError } from '../../src/stores/store.js'
import {
  blobHeader, fileOfKey, HEADER_BYTES, infoOf, openBlob, readBlob, renewFile, sweepFolder, writeAll,
  writeHeader,
} from './blob-file.js'
import {
  countedBytes, countedBytesOf, FolderClock, FolderSpace, partialName, type Reservation,
} from './folder-space.js'
import type { Chunks } from './read.js'
import { checkFolder } from './safe-folder.js'

const FULL = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

/** Options of `FolderBlobs`. */
export interface FolderBlobsOptions {
  /**
   * True if all processes that use these blobs see this folder. Default: false.
   *
   * Required with an engine that several processes share: `redis()` or `postgres()`.
   */
  readonly shared?: boolean
  /**
   * Maximum size of all blobs in the folder in bytes, 4 KiB for each included. Use the same value
   * in all processes that share the folder. Default: no limit.
   */
  readonly maxBytes?: number
  /** Milliseconds between two sweeps for expired blobs, 100 or more. Default: one minute. */
  readonly sweepMs?: number
  /** Clock in milliseconds since 1970, for tests. Default: the clock of the file system. */
  readonly now?: () => number
}

const FOLDER_BLOBS = {
  shared: flag({ default: false }),
  maxBytes: whole({ min: 1, infinity: true, default: Infinity }),
  sweepMs: timer({ min: 100, default: 60_000 }),
  now: func(),
} satisfies OptionTable<FolderBlobsOptions>

/**
 * Blobs as files in a folder, which is created if necessary, readable for this user only. A crash
 * leaves no incomplete blob. Files are not synced: a power failure may lose the last ones.
 *
 * An existing folder must belong to this user or to root, and only they and groups of this process
 * may write to it. It may not be a symbolic link. On Windows, permissions are not checked.
 *
 * If `maxBytes` would be exceeded even without expired blobs, or the disk is full, `put` rejects
 * with a `StoreUnavailableError` with the reason `full`. No blob is removed before it expires.
 *
 * With several processes, `maxBytes` is approximate. A process sees the writes of others when it
 * reads the folder: before its first write, every `sweepMs`, and above three quarters of `maxBytes`
 * about every two seconds. Between two readings, the processes together may exceed `maxBytes`.
 * @example
 * const blobs = new FolderBlobs('/var/lib/app/blobs', { maxBytes: 100 * 1024 ** 3 })
 */
export class FolderBlobs implements Blobs {
  readonly shared: boolean
  readonly #folder: string
  readonly #clock: FolderClock
  readonly #space: FolderSpace
  readonly #timer: ReturnType<typeof setInterval>
  #sweeping: Promise<void> | undefined
  #closed = false

  /**
   * @throws {TypeError} The folder cannot be created, another user may write to it or replace it,
   * or an option is unknown or out of range.
   */
  constructor(folder: string, options: FolderBlobsOptions = {}) {
    const { shared, maxBytes, sweepMs, now } = readOptions('FolderBlobs', options, FOLDER_BLOBS)
    this.#folder = resolve(folder)
    this.shared = shared
    this.#clock = new FolderClock(this.#folder, now)
    this.#space = new FolderSpace(maxBytes, () => this.#clock.now(), () => (
      // What cannot be removed counts.
      this.sweep().catch(() => undefined)
    ))
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    } catch (cause) {
      throw new TypeError(
        `FolderBlobs: ${this.#folder} cannot be created; name a folder that this process may write to`,
        { cause },
      )
    }
    checkFolder(this.#folder)
    this.#timer = setInterval(() => void this.sweep().catch(() => undefined), sweepMs)
    this.#timer.unref()
  }

  async put(
    key: string, content: AsyncIterable<Uint8Array>, options: BlobPutOptions,
  ): Promise<BlobInfo> {
    this.#check(key)
    checkNames('FolderBlobs: put', options, BLOB_PUT)
    const { ttlMs } = options
    checkBlobLifetime(ttlMs)
    const name = partialName()
    const partial = join(this.#folder, name)
    const tag = randomBytes(16)
    const space = this.#space.reserve(name)
    try {
      const size = await this.#write(partial, { key, tag, content, options }, space)
      const path = this.#path(key)
      const replaced = await disk(countedBytesOf(path))
      if (ttlMs > 0) {
        await disk(rename(partial, path))
        space.complete(replaced)
      } else {
        await disk(rm(path, { force: true }))
        this.#space.removed(replaced)
      }
      return infoOf(tag, size)
    } finally {
      // After the rename this file does not exist.
      await rm(partial, { force: true }).catch(() => undefined)
      space.end()
    }
  }

  async stat(key: string): Promise<BlobInfo | undefined> {
    this.#check(key)
    const header = await disk(blobHeader(this.#path(key)))
    if (header === undefined || header.expiresAt <= await disk(this.#clock.now())) return undefined
    return header.info
  }

  async open(key: string, range: BlobRange = {}): Promise<AsyncIterable<Uint8Array> | undefined> {
    checkNames('FolderBlobs: open', range, BLOB_RANGE)
    const info = await this.stat(key)
    if (info === undefined || (range.etag !== undefined && range.etag !== info.etag)) {
      return undefined
    }
    const { start, end } = blobRange(range, info.size)
    return this.#read(this.#path(key), info.etag, start, end)
  }

  async renew(key: string, ttlMs: number): Promise<BlobInfo | undefined> {
    this.#check(key)
    checkBlobLifetime(ttlMs)
    return disk(renewFile(this.#path(key), ttlMs, this.#clock))
  }

  async delete(key: string): Promise<boolean> {
    const info = await this.stat(key)
    if (info === undefined) return false
    try {
      await rm(this.#path(key))
      this.#space.removed(countedBytes(HEADER_BYTES + info.size))
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
      throw failed(error)
    }
  }

  /**
   * Removes expired blobs now. Also runs every `sweepMs`. Skips files that it cannot remove, and at
   * its end rejects with the first error.
   */
  async sweep(): Promise<void> {
    this.#assertOpen()
    this.#sweeping ??= disk(this.#sweepAll()).finally(() => { this.#sweeping = undefined })
    await this.#sweeping
  }

  /** Stops sweeping. Files stay, and active readers get the rest of their content. */
  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#timer)
    await this.#sweeping?.catch(() => undefined)
  }

  async #sweepAll(): Promise<void> {
    const failures: unknown[] = []
    await this.#space.measure(async () => sweepFolder(this.#folder, await this.#clock.now(), {
      isStopped: () => this.#closed,
      isReserved: (name) => this.#space.isReserved(name),
      onFailure: (error) => { if (failures.length === 0) failures.push(error) },
    }))
    if (failures.length > 0) throw failures[0]
  }

  async #write(
    path: string, { key, tag, content, options: { ttlMs, signal } }: NewFile, space: Reservation,
  ): Promise<number> {
    const handle = await disk(open(path, 'wx', 0o600))
    try {
      let size = 0
      await takeContent(content, signal, async (chunk) => {
        this.#assertOpen()
        await disk(space.add(chunk.byteLength))
        await disk(writeAll(handle, chunk, HEADER_BYTES + size))
        size += chunk.byteLength
      })
      this.#assertOpen()
      await disk(space.add(countedBytes(HEADER_BYTES)))
      const expiresAt = (await disk(this.#clock.now())) + ttlMs
      await disk(writeAll(handle, writeHeader(key, tag, size, expiresAt), 0))
      return size
    } finally {
      await handle.close()
    }
  }

  async *#read(path: string, etag: string, start: number, end: number): Chunks {
    const blob = await disk(openBlob(path))
    if (blob === undefined) throw new StoreUnavailableError('The blob was removed before it was read')
    try {
      if (blob.info.etag !== etag) {
        throw new StoreUnavailableError('The blob was replaced before it was read')
      }
      yield* readBlob(blob, start, end)
    } catch (error) {
      throw failed(error)
    } finally {
      await blob.handle.close()
    }
  }

  #check(key: string): void {
    this.#assertOpen()
    checkBlobKey(key)
  }

  #assertOpen(): void {
    if (this.#closed) throw new StoreUnavailableError('The blobs are closed')
  }

  #path(key: string): string {
    return join(this.#folder, fileOfKey(key))
  }
}

interface NewFile {
  readonly key: string
  /** Random bytes: the entity tag. */
  readonly tag: Uint8Array
  readonly content: AsyncIterable<Uint8Array>
  readonly options: BlobPutOptions
}

async function disk<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw failed(error)
  }
}

function failed(error: unknown): StoreUnavailableError {
  if (error instanceof StoreUnavailableError) return error
  const full = FULL.has((error as NodeJS.ErrnoException).code ?? '')
  return new StoreUnavailableError(
    full ? 'There is no space for more blobs' : 'The folder of the blobs failed',
    { reason: full ? 'full' : 'unavailable', cause: error },
  )
}
