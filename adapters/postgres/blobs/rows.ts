import { randomUUID } from 'node:crypto'
import { StoreUnavailableError } from '../../../src/stores/store.js'
import type { Query } from '../connections.js'
import { blobStatements, type BlobStatements } from './statements.js'

/** Maximum lifetime in milliseconds: 285 years. Later times could exceed the range of a date. */
const MAX_TTL_MS = 9_000_000_000_000
/** Maximum number of versions that one statement marks as removed. */
const EXPIRED_BATCH = 100
/** Maximum number of chunks that one statement deletes: 8 MiB. */
const CHUNK_BATCH = 32

/** Number of attempts to renew a blob that others replace at the same time. */
const MAX_TRIES = 5

/** A complete blob that has not expired. */
export interface BlobRow {
  /** Id of the version. Random, because it is the entity tag too. */
  readonly version: string
  /** Size in bytes. */
  readonly size: number
}

/** A part of a blob. */
export interface BlobPart {
  readonly key: string
  readonly version: string
  /** Position of the first byte of `data`. If it is 0, the statement creates the version. */
  readonly position: number
  readonly data: Uint8Array
}

/** The statements of blobs as methods. Each is atomic, and commits by itself. */
export class BlobRows {
  private readonly sql: BlobStatements

  /**
   * @param transfer - runs the statements that read, write or delete chunks
   * @param schema - quoted as an identifier
   */
  constructor(
    private readonly query: Query, private readonly transfer: Query, schema: string,
  ) {
    this.sql = blobStatements(schema)
  }

  /** Returns the id of a new version. */
  newVersion(): string {
    return randomUUID()
  }

  /** Returns a blob, unless there is none or it has expired. */
  async find(key: string): Promise<BlobRow | undefined> {
    const [row] = await this.query<BlobRow>(this.sql.find, [key])
    return row
  }

  /** Writes a part that is not the last one. Returns false if the version was removed. */
  async append({ key, version, position, data }: BlobPart): Promise<boolean> {
    const values = [version, position, data]
    const rows = position === 0
      ? await this.transfer(this.sql.appendFirst, [...values, key])
      : await this.transfer(this.sql.append, values)
    return rows.length > 0
  }

  /**
   * Writes the last part and makes the blob visible in place of the old one. Returns false if the
   * version was removed.
   */
  async complete({ key, version, position, data }: BlobPart, ttlMs: number): Promise<boolean> {
    const size = position + data.byteLength
    const rows = await this.transfer(
      position === 0 ? this.sql.completeWhole : this.sql.complete,
      [key, version, size, lifetime(ttlMs), position, data],
    )
    return rows.length > 0
  }

  /**
   * Returns the bytes of one chunk from `position` on, at most `length` of them. Returns
   * `undefined` if the version was removed.
   */
  async read(version: string, position: number, length: number): Promise<Uint8Array | undefined> {
    const [row] = await this.transfer<{ readonly data: string }>(
      this.sql.read, [version, position, length],
    )
    return row && Buffer.from(row.data, 'base64')
  }

  /**
   * Makes a blob live for at least `ttlMs` from now. Returns `undefined` if there is none or it has
   * expired.
   */
  async renew(key: string, ttlMs: number): Promise<BlobRow | undefined> {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const [row] = await this.query<BlobRow & { readonly renewed: boolean }>(
        this.sql.renew, [key, lifetime(ttlMs)],
      )
      if (!row || row.renewed) return row
      // A new blob replaced the old one while this statement ran, so the next statement sees it.
    }
    throw new StoreUnavailableError('The blob was replaced each time that it was renewed')
  }

  /** Extends the leases of versions. Returns the number of those that were not removed. */
  async hold(versions: readonly string[]): Promise<number> {
    return (await this.query(this.sql.hold, [versions])).length
  }

  /** Deletes a blob. Returns true if it had not expired. */
  async delete(key: string): Promise<boolean> {
    const [row] = await this.query<{ readonly live: boolean }>(this.sql.delete, [key])
    return row?.live === true
  }

  /** Ends the lease of a version that will not be completed. */
  async discard(version: string): Promise<void> {
    await this.query(this.sql.discard, [version])
  }

  /** Removes some expired versions, or parts of them. Returns true if more may be left. */
  async sweep(): Promise<boolean> {
    const expired = await this.query<{ readonly id: string, readonly key: string }>(
      this.sql.markRemoved, [EXPIRED_BATCH],
    )
    if (expired.length === 0) return false
    const versions = expired.map(({ id }) => id)
    // A statement of its own, because it would otherwise lock a blob that is being replaced.
    await this.query(this.sql.deleteExpired, [expired.map(({ key }) => key), versions])
    const chunks = await this.transfer(this.sql.deleteChunks, [versions, CHUNK_BATCH])
    if (chunks.length === CHUNK_BATCH) return true
    await this.query(this.sql.deleteVersions, [versions])
    return expired.length === EXPIRED_BATCH
  }
}

/** Returns a lifetime in milliseconds that PostgreSQL can add to a date. */
function lifetime(ttlMs: number): number {
  return Math.max(Math.min(ttlMs, MAX_TTL_MS), -1)
}
