import { expiry } from '../sql.js'

/** End of a lease that begins now. */
const LEASED = "clock_timestamp() + interval '15 minutes'"

export type BlobStatements = ReturnType<typeof blobStatements>

/**
 * A blob is a row of `blobs`, which names a version. The bytes of a version are rows of `blob_chunks`,
 * which never change. One statement makes a new version visible. Readers and writers renew a lease on
 * their version. A version is removed once it has expired and its lease has ended. `is_removed` is set
 * before the first chunk is deleted: no later statement extends the lease, appends or completes.
 */
export function blobStatements(schema: string) {
  return { ...writeStatements(schema), ...readStatements(schema), ...sweepStatements(schema) }
}

/** Statements that write the bytes of a version, and make it visible. */
function writeStatements(schema: string) {
  const blobs = `${schema}.blobs`
  const versions = `${schema}.blob_versions`
  const chunks = `${schema}.blob_chunks`
  /** Values are version, position and data. For the first chunk the key follows. */
  const append = (version: string): string => `WITH version AS (
  ${version} RETURNING id
)
INSERT INTO ${chunks} (version, position, data)
SELECT id, $2::bigint, $3::bytea FROM version RETURNING 1`
  /**
   * Values: key, version, size, lifetime, position, data. Locks the old blob first. If two writers
   * complete at once, the version of the slower writer may stay until it expires.
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
  VALUES ($1::uuid, $4, clock_timestamp(), ${LEASED})`),
    append: append(`UPDATE ${versions} SET lease_until = ${LEASED}
  WHERE id = $1::uuid AND NOT is_removed`),
    completeWhole: complete(`INSERT INTO ${versions} (id, key, expires_at, lease_until)
  VALUES ($2::uuid, $1, ${expiry('$4')}, '-infinity')`),
    complete: complete(`UPDATE ${versions} SET expires_at = ${expiry('$4')}, lease_until = '-infinity'
  WHERE id = $2::uuid AND NOT is_removed`),
    discard: `UPDATE ${versions} SET lease_until = '-infinity' WHERE id = $1`,
  }
}

/** Statements that find, read, renew and delete a blob. */
function readStatements(schema: string) {
  const blobs = `${schema}.blobs`
  const versions = `${schema}.blob_versions`
  const chunks = `${schema}.blob_chunks`
  return {
    find: `SELECT version::text AS version, size::float8 AS size FROM ${blobs}
WHERE key = $1 AND expires_at > clock_timestamp()`,
    // As base64, which is shorter than the hexadecimal digits that clients get by default.
    read: `SELECT
  encode(substring(data FROM ($2::bigint - position + 1)::integer FOR $3::integer), 'base64') AS data
FROM ${chunks} WHERE version = $1 AND position <= $2::bigint ORDER BY position DESC LIMIT 1`,
    hold: `UPDATE ${versions} SET lease_until = ${LEASED}
WHERE id = $1 AND NOT is_removed RETURNING 1`,
    // Locks the blob before its version, as the statements below do.
    renew: `WITH blob AS (
  SELECT version, size FROM ${blobs} WHERE key = $1 AND expires_at > clock_timestamp() FOR UPDATE
), version AS (
  UPDATE ${versions} AS old SET expires_at = greatest(old.expires_at, ${expiry('$2')})
  FROM blob WHERE old.id = blob.version AND NOT old.is_removed RETURNING old.id, old.expires_at
), renewed AS (
  UPDATE ${blobs} AS old SET expires_at = version.expires_at
  FROM version WHERE old.key = $1 AND old.version = version.id RETURNING 1
)
SELECT version::text AS version, size::float8 AS size, EXISTS (SELECT FROM renewed) AS renewed FROM blob`,
    delete: `WITH deleted AS (
  DELETE FROM ${blobs} WHERE key = $1 RETURNING version, expires_at > clock_timestamp() AS live
), expired AS (
  UPDATE ${versions} SET expires_at = clock_timestamp() FROM deleted WHERE id = deleted.version
)
SELECT live FROM deleted`,
  }
}

/** Statements that remove expired versions. */
function sweepStatements(schema: string) {
  const blobs = `${schema}.blobs`
  const versions = `${schema}.blob_versions`
  const chunks = `${schema}.blob_chunks`
  return {
    markRemoved: `WITH expired AS (
  SELECT id, key, is_removed FROM ${versions}
  WHERE expires_at <= clock_timestamp() AND (is_removed OR lease_until <= clock_timestamp())
  ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
), marked AS (
  UPDATE ${versions} AS version SET is_removed = true FROM expired
  WHERE version.id = expired.id AND NOT expired.is_removed
)
SELECT id::text AS id, key FROM expired`,
    // A locked blob keeps its version, so the next sweep finds both.
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
