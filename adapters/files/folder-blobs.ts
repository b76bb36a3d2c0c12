import { randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { checkNames } from '../../src/runtime/option-names.js'
import {
  BLOB_PUT, BLOB_RANGE, blobRange, checkBlobKey, checkBlobLifetime, takeContent,
} from '../../src/stores/blob-rules.js'
import type { BlobInfo, BlobPutOptions, BlobRange, Blobs } from '../../src/stores/blobs.js'
import { StoreUnavailableError } from '../../src/stores/store.js'
import { blobHeader, openBlob, readBlob, writeAll } from './blob-file.js'
import { renewFile } from './blob-renewal.js'
import { fileOfKey, HEADER_BYTES, infoOf, writeHeader } from './blob-header.js'
import { partialName, sweepFolder } from './blob-sweep.js'
import { FolderClock } from './folder-clock.js'

const KNOWN = { shared: 0, sweepMs: 0, now: 0 } satisfies Record<keyof FolderBlobsOptions, 0>
const FULL = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

/** Options of `FolderBlobs`. */
export interface FolderBlobsOptions {
  /**
   * True if all processes that use these blobs see this folder, on one machine or on a shared file
   * system. A queue that spans processes requires it. Default: false.
   */
  readonly shared?: boolean
  /** Milliseconds between two sweeps for expired blobs, 100 or more. Default: one minute. */
  readonly sweepMs?: number
  /**
   * Clock in milliseconds since 1970. For tests. Default: the clock of the file system, which all
   * processes share.
   */
  readonly now?: () => number
}

/**
 * Blobs as files in a folder. Creates the folder if necessary, readable for this user only. A blob
 * gets its name by a rename when it is complete, so a crash leaves no incomplete blob. Files are
 * not synced: a power failure may lose the last ones. A full disk rejects with the reason `full`.
 * The folder has no size limit of its own.
 *
 * @example
 * const blobs = new FolderBlobs('/var/lib/app/blobs')
 */
export class FolderBlobs implements Blobs {
  readonly shared: boolean
  readonly #folder: string
  readonly #clock: FolderClock
  readonly #timer: ReturnType<typeof setInterval>
  #sweeping: Promise<void> | undefined
  #closed = false

  /** @throws {TypeError} The folder cannot be created, or an option is unknown or out of range. */
  constructor(folder: string, options: FolderBlobsOptions = {}) {
    checkNames('FolderBlobs', options, KNOWN)
    const { shared = false, sweepMs = 60_000, now } = options
    this.#folder = resolve(folder)
    this.shared = shared
    this.#clock = new FolderClock(this.#folder, now)
    if (!Number.isFinite(sweepMs) || sweepMs < 100 || sweepMs > 2 ** 31 - 1) {
      throw new TypeError(
        `FolderBlobs: sweepMs must be a number of milliseconds from 100 to 2^31 - 1, not ${String(sweepMs)}`,
      )
    }
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    } catch (cause) {
      throw new TypeError(
        `FolderBlobs: ${
          this.#folder
        } cannot be created; name a folder that this process may write to`,
        { cause },
      )
    }
    this.#timer = setInterval(() => void this.sweep().catch(() => undefined), sweepMs)
    this.#timer.unref()
  }

  async put(
    key: string,
    content: AsyncIterable<Uint8Array>,
    options: BlobPutOptions,
  ): Promise<BlobInfo> {
    this.#check(key)
    checkNames('FolderBlobs: put', options, BLOB_PUT)
    const { ttlMs, signal } = options
    checkBlobLifetime(ttlMs)
    const partial = join(this.#folder, partialName())
    const tag = randomBytes(16)
    try {
      const size = await this.#write(partial, key, tag, content, ttlMs, signal)
      const path = this.#path(key)
      if (ttlMs > 0) await disk(rename(partial, path))
      else await disk(rm(path, { force: true }))
      return infoOf(tag, size)
    } finally {
      // After the rename this file does not exist.
      await rm(partial, { force: true }).catch(() => undefined)
    }
  }

  async stat(key: string): Promise<BlobInfo | undefined> {
    this.#check(key)
    const header = await disk(blobHeader(this.#path(key)))
    return header !== undefined && header.expiresAt > (await disk(this.#clock.now()))
      ? header.info
      : undefined
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
    if ((await this.stat(key)) === undefined) return false
    try {
      await rm(this.#path(key))
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
      throw failed(error)
    }
  }

  /** Removes expired blobs now. Also runs every `sweepMs`. */
  async sweep(): Promise<void> {
    this.#assertOpen()
    this.#sweeping ??= disk(
      this.#clock.now().then((now) => sweepFolder(this.#folder, now, () => this.#closed)),
    ).finally(() => {
      this.#sweeping = undefined
    })
    await this.#sweeping
  }

  /** Stops sweeping. Files stay, and running readers get the rest of theirs. */
  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#timer)
    await this.#sweeping?.catch(() => undefined)
  }

  async #write(
    path: string,
    key: string,
    tag: Uint8Array,
    content: AsyncIterable<Uint8Array>,
    ttlMs: number,
    signal: AbortSignal | undefined,
  ): Promise<number> {
    const handle = await disk(open(path, 'wx', 0o600))
    try {
      let size = 0
      await takeContent(content, signal, async (chunk) => {
        this.#assertOpen()
        await disk(writeAll(handle, chunk, HEADER_BYTES + size))
        size += chunk.byteLength
      })
      this.#assertOpen()
      const expiresAt = (await disk(this.#clock.now())) + ttlMs
      await disk(writeAll(handle, writeHeader(key, tag, size, expiresAt), 0))
      return size
    } finally {
      await handle.close()
    }
  }

  async *#read(
    path: string,
    etag: string,
    start: number,
    end: number,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const blob = await disk(openBlob(path))
    if (blob === undefined) throw new StoreUnavailableError('The blob went before it was read')
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
    {
      reason: full ? 'full' : 'unavailable',
      cause: error,
    },
  )
}
