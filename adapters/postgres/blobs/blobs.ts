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
import { toLifetime } from '../sql.js'
import { blobStatements, type BlobStatements } from './statements.js'
import { BlobWriter, RENEW_MS } from './writer.js'

/** Maximum number of concurrent statements with chunks, so that connections stay free for tasks. */
const CONCURRENT_CHUNKS = 3
/** Number of attempts to renew a blob that others replace at the same time. */
const MAX_TRIES = 5
/** Maximum number of versions that one statement marks as removed. */
const EXPIRED_BATCH = 100
/** Maximum number of chunks that one statement deletes: 8 MiB. */
const CHUNK_BATCH = 32

interface BlobRow {
  readonly version: string
  readonly size: number
}

/**
 * Blobs in PostgreSQL 13 or later, in chunks of 256 KiB, made by `postgres()`. No connection is in use
 * while a client is slow. Each process deletes expired blobs about once a minute.
 */
export class PostgresBlobs implements Blobs {
  readonly shared = true
  private readonly query: Query
  private readonly sql: BlobStatements
  private readonly chunks = new SharedLimit(CONCURRENT_CHUNKS, CONCURRENT_CHUNKS)
  private readonly sweeper: Sweeper
  private isClosed = false

  /** @internal */
  constructor(private readonly database: Database) {
    this.query = database.query
    this.sql = blobStatements(database.schema)
    this.sweeper = new Sweeper([() => this.sweepBatch()])
  }

  async put(
    key: string, content: AsyncIterable<Uint8Array>, options: BlobPutOptions,
  ): Promise<BlobInfo> {
    this.check(key)
    checkNames('PostgresBlobs: put', options, BLOB_PUT)
    const { ttlMs, signal } = options
    checkBlobLifetime(ttlMs)
    const writer = new BlobWriter(this.query, this.transfer, this.sql, key)
    try {
      await takeContent(content, signal, (chunk) => {
        this.assertOpen()
        return writer.write(chunk)
      })
      this.assertOpen()
      return await writer.complete(ttlMs)
    } catch (error) {
      writer.discard().catch(() => undefined)
      throw error
    }
  }

  async stat(key: string): Promise<BlobInfo | undefined> {
    this.check(key)
    const [row] = await this.query<BlobRow>(this.sql.find, [key])
    return row && infoOf(row)
  }

  async open(key: string, range: BlobRange = {}): Promise<AsyncIterable<Uint8Array> | undefined> {
    this.check(key)
    checkNames('PostgresBlobs: open', range, BLOB_RANGE)
    const [row] = await this.query<BlobRow>(this.sql.find, [key])
    if (!row || (range.etag !== undefined && range.etag !== infoOf(row).etag)) return undefined
    const { start, end } = blobRange(range, Number(row.size))
    return this.read(row.version, start, end)
  }

  async renew(key: string, ttlMs: number): Promise<BlobInfo | undefined> {
    this.check(key)
    checkBlobLifetime(ttlMs)
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const [row] = await this.query<BlobRow & { readonly renewed: boolean }>(
        this.sql.renew, [key, toLifetime(ttlMs)],
      )
      if (!row || row.renewed) return row && infoOf(row)
      // A new blob has replaced the old one meanwhile.
    }
    throw new StoreUnavailableError('The blob was replaced each time that it was renewed')
  }

  async delete(key: string): Promise<boolean> {
    this.check(key)
    const [row] = await this.query<{ readonly live: boolean }>(this.sql.delete, [key])
    return row?.live === true
  }

  /** Deletes some expired blobs now. Resolves to `true` if more may be left. */
  async sweep(): Promise<boolean> {
    this.assertOpen()
    return this.sweepBatch()
  }

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
      const [row] = await this.transfer<{ readonly data: string }>(
        this.sql.read, [version, position, end - position],
      )
      const data = Buffer.from(row?.data ?? '', 'base64')
      if (data.byteLength === 0) throw removed()
      position += data.byteLength
      // The last chunk needs no lease: no other one follows.
      if (position < end && performance.now() - heldAt >= RENEW_MS) {
        heldAt = performance.now()
        if ((await this.query(this.sql.hold, [version])).length === 0) throw removed()
      }
      yield data
    }
  }

  private async sweepBatch(): Promise<boolean> {
    const expired = await this.query<{ readonly id: string, readonly key: string }>(
      this.sql.markRemoved, [EXPIRED_BATCH],
    )
    if (expired.length === 0) return false
    const versions = expired.map(({ id }) => id)
    // Its own statement, because it would otherwise lock a blob that is being replaced.
    await this.query(this.sql.deleteExpired, [expired.map(({ key }) => key), versions])
    const chunks = await this.transfer(this.sql.deleteChunks, [versions, CHUNK_BATCH])
    if (chunks.length === CHUNK_BATCH) return true
    await this.query(this.sql.deleteVersions, [versions])
    return expired.length === EXPIRED_BATCH
  }

  /** Runs a statement on chunks. The wait for its turn does not count towards its deadline. */
  private readonly transfer: Query = async (text, values) => {
    const place = this.chunks.open('')
    await place.acquire(1, new AbortController())
    try {
      return await this.database.transfer(text, values)
    } finally {
      place.release()
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

function infoOf({ version, size }: BlobRow): BlobInfo {
  return { size: Number(size), etag: `"${version}"` }
}

function removed(): StoreUnavailableError {
  return new StoreUnavailableError('The blob was removed before it was read')
}
