import { checkNames } from '../../../src/runtime/option-names.js'
import { SharedLimit } from '../../../src/runtime/shared-limit.js'
import {
  BLOB_PUT, BLOB_RANGE, blobRange, checkBlobKey, checkBlobLifetime, takeContent,
} from '../../../src/stores/blob-rules.js'
import type { BlobInfo, BlobPutOptions, BlobRange, Blobs } from '../../../src/stores/blobs.js'
import { StoreUnavailableError } from '../../../src/stores/store.js'
import type { Query } from '../connections.js'
import type { Database } from '../database.js'
import { Sweeper } from '../expiry.js'
import { BlobRows } from './rows.js'
import { BlobWriter, infoOf } from './writer.js'

/**
 * Maximum number of statements of one process that transfer or delete chunks at the same time. The
 * other connections of the pool stay free for tasks.
 */
const CONCURRENT_CHUNKS = 3
/** Interval at which a reader renews its lease, in milliseconds. The lease lasts for 15 minutes. */
const RENEW_MS = 60_000
const UNLIMITED = { get signal() { return new AbortController().signal } }

/**
 * Blobs in PostgreSQL 13 or later, in chunks of 256 KiB. Made by `postgres()`. A connection is in
 * use for one chunk only, never while a client is slow. Each process deletes expired blobs about
 * once a minute, in small batches. A full disk rejects with the reason `full`.
 */
export class PostgresBlobs implements Blobs {
  readonly shared: boolean
  private readonly rows: BlobRows
  private readonly sweeper: Sweeper
  private isClosed = false

  /** @internal */
  constructor(database: Database) {
    const places = new SharedLimit(CONCURRENT_CHUNKS, CONCURRENT_CHUNKS)
    // A wait here does not count towards the deadline of the statement.
    const transfer: Query = async (text, values) => {
      const place = places.open('')
      await place.acquire(1, UNLIMITED)
      try {
        return await database.transfer(text, values)
      } finally {
        place.release()
      }
    }
    this.shared = database.shared
    this.rows = new BlobRows(database.query, transfer, database.schema)
    this.sweeper = new Sweeper([() => this.rows.sweep()])
  }

  async put(
    key: string, content: AsyncIterable<Uint8Array>, options: BlobPutOptions,
  ): Promise<BlobInfo> {
    this.check(key)
    checkNames('PostgresBlobs: put', options, BLOB_PUT)
    const { ttlMs, signal } = options
    checkBlobLifetime(ttlMs)
    const writer = new BlobWriter(this.rows, key)
    try {
      await takeContent(content, signal, (chunk) => {
        this.assertOpen()
        return writer.write(chunk)
      })
      this.assertOpen()
      return await writer.complete(ttlMs)
    } catch (error) {
      // If this fails too, the lease ends by itself.
      writer.discard().catch(() => undefined)
      throw error
    }
  }

  async stat(key: string): Promise<BlobInfo | undefined> {
    this.check(key)
    const row = await this.rows.find(key)
    return row && infoOf(row)
  }

  async open(key: string, range: BlobRange = {}): Promise<AsyncIterable<Uint8Array> | undefined> {
    this.check(key)
    checkNames('PostgresBlobs: open', range, BLOB_RANGE)
    const row = await this.rows.find(key)
    if (!row || (range.etag !== undefined && range.etag !== infoOf(row).etag)) return undefined
    const { start, end } = blobRange(range, row.size)
    return this.read(row.version, start, end)
  }

  async renew(key: string, ttlMs: number): Promise<BlobInfo | undefined> {
    this.check(key)
    checkBlobLifetime(ttlMs)
    const row = await this.rows.renew(key, ttlMs)
    return row && infoOf(row)
  }

  async delete(key: string): Promise<boolean> {
    this.check(key)
    return this.rows.delete(key)
  }

  /** Deletes some expired blobs now. Resolves to `true` if more may be left. */
  async sweep(): Promise<boolean> {
    this.assertOpen()
    return this.rows.sweep()
  }

  /** Stops sweeping. Blobs stay, and the application closes its pool. */
  async close(): Promise<void> {
    this.isClosed = true
    this.sweeper.close()
  }

  private async *read(
    version: string, start: number, end: number,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    let heldAt = -Infinity
    for (let position = start; position < end;) {
      this.assertOpen()
      const data = await this.rows.read(version, position, end - position)
      if (data === undefined || data.byteLength === 0) throw removed()
      position += data.byteLength
      // The last chunk needs no lease: no other one follows.
      if (position < end && performance.now() - heldAt >= RENEW_MS) {
        heldAt = performance.now()
        if (!await this.rows.hold(version)) throw removed()
      }
      yield data
    }
  }

  private check(key: string): void {
    this.assertOpen()
    checkBlobKey(key)
  }

  private assertOpen(): void {
    if (this.isClosed) throw new StoreUnavailableError('The blobs are closed')
  }
}

function removed(): StoreUnavailableError {
  return new StoreUnavailableError('The blob was removed before it was read')
}
