import { randomUUID } from 'node:crypto'
import { StoreUnavailableError } from '../../../src/stores/store.js'
import type { Query } from '../connections.js'
import { expiry, toLifetime } from '../sql.js'

/** Minutes for which a lease protects a version. Its readers and writers renew it. */
const LEASE = "interval '15 minutes'"
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

export interface BlobPart {
  readonly key: string
  readonly version: string
  /** Offset of the first byte of `data`. If it is 0, the statement creates the version. */
  readonly position: number
  readonly data: Uint8Array
}

/**
 * The statements of blobs as methods. Each is atomic, and commits by itself.
 *
 * A blob is a row of `blobs`, which names a version. The bytes of a version are rows of
 * `blob_chunks`, which never change. A new blob is a new version, and one statement makes it
 * visible. Readers and writers hold a lease on a version. A version is removed after it has expired
 * and its lease has ended. `is_removed` is set before its first chunk is deleted, and is final: no
 * later statement extends the lease, appends or completes.
 */
export class BlobRows {
  private readonly sql: Statements

  /**
   * @param transfer - runs the statements that read, write or delete chunks
   * @param schema - quoted as an identifier
   */
  constructor(
    private readonly query: Query, private readonly transfer: Query, schema: string,
  ) {
    const [blobs, versions, chunks] = ['blobs', 'blob_versions', 'blob_chunks'].map((table) => (
      `${schema}.${table}`
    )) as [string, string, string]
    this.sql = {
      ...writing(blobs, versions, chunks), ...reading(blobs, versions, chunks),
      ...sweeping(blobs, versions, chunks),
    }
  }

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
      [key, version, size, toLifetime(ttlMs), position, data],
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
        this.sql.renew, [key, toLifetime(ttlMs)],
      )
      if (!row || row.renewed) return row
      // A new blob replaced the old one while this statement ran, so the next statement sees it.
    }
    throw new StoreUnavailableError('The blob was replaced each time that it was renewed')
  }

  /** Extends the lease of a version. Returns false if it was removed. */
  async hold(version: string): Promise<boolean> {
    return (await this.query(this.sql.hold, [version])).length > 0
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

type Statements = ReturnType<typeof writing> & ReturnType<typeof reading>
  & ReturnType<typeof sweeping>

/** Values: version, position, data; for the first chunk also the key. */
function writing(blobs: string, versions: string, chunks: string) {
  const leased = `clock_timestamp() + ${LEASE}`
  const append = (version: string): string => `WITH version AS (
  ${version} RETURNING id
)
INSERT INTO ${chunks} (version, position, data)
SELECT id, $2::bigint, $3::bytea FROM version RETURNING 1`
  /**
   * Values: key, version, size, lifetime, position, data. The old blob is locked before the new one
   * replaces it. If two writers complete at the same moment, the version of the one that lost may
   * stay until it expires.
   */
  const complete = (version: string): string => `WITH version AS (
  ${version} RETURNING id, expires_at
), chunk AS (
  INSERT INTO ${chunks} (version, position, data)
  SELECT id, $5::bigint, $6::bytea FROM version WHERE octet_length($6::bytea) > 0
), old AS (
  SELECT version FROM ${blobs} WHERE key = $1 FOR UPDATE
), written AS (
  INSERT INTO ${blobs} (key, version, size, expires_at)
  SELECT $1, id, $3::bigint, expires_at FROM version, (SELECT count(*) FROM old) AS locked
  ON CONFLICT (key) DO UPDATE
  SET version = excluded.version, size = excluded.size, expires_at = excluded.expires_at
  RETURNING 1
), replaced AS (
  UPDATE ${versions} SET expires_at = clock_timestamp() FROM old, written WHERE id = old.version
)
SELECT 1 FROM written`
  return {
    appendFirst: append(`INSERT INTO ${versions} (id, key, expires_at, lease_until)
  VALUES ($1::uuid, $4, clock_timestamp(), ${leased})`),
    append: append(`UPDATE ${versions} SET lease_until = ${leased}
  WHERE id = $1::uuid AND NOT is_removed`),
    completeWhole: complete(`INSERT INTO ${versions} (id, key, expires_at, lease_until)
  VALUES ($2::uuid, $1, ${expiry('$4')}, '-infinity')`),
    complete: complete(`UPDATE ${versions} SET expires_at = ${expiry('$4')}, lease_until = '-infinity'
  WHERE id = $2::uuid AND NOT is_removed`),
    discard: `UPDATE ${versions} SET lease_until = '-infinity' WHERE id = $1`,
  }
}

function reading(blobs: string, versions: string, chunks: string) {
  return {
    find: `SELECT version, size::float8 AS size FROM ${blobs}
WHERE key = $1 AND expires_at > clock_timestamp()`,
    // As base64, which is a third shorter than the hexadecimal digits that clients get by default.
    read: `SELECT
  encode(substring(data FROM ($2::bigint - position + 1)::integer FOR $3::integer), 'base64') AS data
FROM ${chunks} WHERE version = $1 AND position <= $2::bigint ORDER BY position DESC LIMIT 1`,
    hold: `UPDATE ${versions} SET lease_until = clock_timestamp() + ${LEASE}
WHERE id = $1 AND NOT is_removed RETURNING 1`,
    // Locks the blob before its version, as the statements below do. A version that a sweep has
    // marked as removed is not renewed.
    renew: `WITH blob AS (
  SELECT version, size FROM ${blobs} WHERE key = $1 AND expires_at > clock_timestamp() FOR UPDATE
), version AS (
  UPDATE ${versions} AS old SET expires_at = greatest(old.expires_at, ${expiry('$2')})
  FROM blob WHERE old.id = blob.version AND NOT old.is_removed RETURNING old.id, old.expires_at
), renewed AS (
  UPDATE ${blobs} AS old SET expires_at = version.expires_at
  FROM version WHERE old.key = $1 AND old.version = version.id RETURNING 1
)
SELECT version, size::float8 AS size, EXISTS (SELECT FROM renewed) AS renewed FROM blob`,
  }
}

function sweeping(blobs: string, versions: string, chunks: string) {
  return {
    delete: `WITH deleted AS (
  DELETE FROM ${blobs} WHERE key = $1 RETURNING version, expires_at > clock_timestamp() AS live
), expired AS (
  UPDATE ${versions} SET expires_at = clock_timestamp() FROM deleted WHERE id = deleted.version
)
SELECT live FROM deleted`,
    markRemoved: `WITH expired AS (
  SELECT id, key, is_removed FROM ${versions}
  WHERE expires_at <= clock_timestamp() AND (is_removed OR lease_until <= clock_timestamp())
  ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
), marked AS (
  UPDATE ${versions} AS version SET is_removed = true FROM expired
  WHERE version.id = expired.id AND NOT expired.is_removed
)
SELECT id, key FROM expired`,
    // A blob that another transaction has locked keeps its version, so the next sweep finds both.
    deleteExpired: `DELETE FROM ${blobs} WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM ${blobs} WHERE key = ANY($1::text[]) AND version = ANY($2::uuid[])
  ORDER BY key FOR UPDATE SKIP LOCKED
))`,
    deleteChunks: `DELETE FROM ${chunks} WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM ${chunks} WHERE version = ANY($1::uuid[]) LIMIT $2
)) RETURNING 1`,
    deleteVersions: `DELETE FROM ${versions} AS version WHERE id = ANY($1::uuid[])
AND NOT EXISTS (SELECT FROM ${chunks} WHERE version = version.id)
AND NOT EXISTS (SELECT FROM ${blobs} AS blob WHERE blob.key = version.key AND blob.version = version.id)`,
  }
}
