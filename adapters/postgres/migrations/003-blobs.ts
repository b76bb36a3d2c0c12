import type { Migration } from './migration.js'

/**
 * Tables of blobs. Bytes are not compressed, because a range could otherwise only be read by
 * expanding the whole chunk. A large blob that is deleted leaves many dead rows at once, so vacuum
 * runs for a smaller share of them than by default.
 */
export const blobs: Migration = {
  number: 3,
  name: 'blobs',
  statements: (schema) => [
    `CREATE TABLE ${schema}.blobs (
  key text COLLATE "C" PRIMARY KEY,
  version uuid NOT NULL,
  size bigint NOT NULL,
  expires_at timestamptz NOT NULL
)`,
    `CREATE TABLE ${schema}.blob_versions (
  id uuid PRIMARY KEY,
  key text COLLATE "C" NOT NULL,
  expires_at timestamptz NOT NULL,
  lease_until timestamptz NOT NULL,
  is_removed boolean NOT NULL DEFAULT false
) WITH (fillfactor = 70)`,
    `CREATE INDEX blob_versions_expires_at ON ${schema}.blob_versions (expires_at)`,
    `CREATE TABLE ${schema}.blob_chunks (
  version uuid NOT NULL,
  position bigint NOT NULL,
  data bytea NOT NULL,
  PRIMARY KEY (version, position)
) WITH (
  autovacuum_vacuum_scale_factor = 0.05,
  toast.autovacuum_vacuum_scale_factor = 0.05
)`,
    `ALTER TABLE ${schema}.blob_chunks ALTER COLUMN data SET STORAGE EXTERNAL`,
  ],
}
