import type { Migration } from './migration.js'

/**
 * Owner that an entry counts for once it may be removed early, and the time of the write that it
 * counts since. Both are NULL for all other entries. The index has no time, because an update of an
 * indexed column costs an entry in each index.
 */
export const owners: Migration = {
  number: 5,
  name: 'owners',
  statements: (schema) => [
    `ALTER TABLE ${schema}.entries ADD COLUMN owner text COLLATE "C",
  ADD COLUMN counted_at timestamptz`,
    `CREATE INDEX entries_of_owner ON ${schema}.entries (owner) WHERE owner IS NOT NULL`,
  ],
}
