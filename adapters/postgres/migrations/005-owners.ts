import type { Migration } from './migration.js'

/**
 * Owner that an entry counts for once it may be removed early. NULL for all other entries. The index
 * has no expiry, because an update of an indexed column costs an entry in each index.
 */
export const owners: Migration = {
  number: 5,
  name: 'owners',
  statements: (schema) => [
    `ALTER TABLE ${schema}.entries ADD COLUMN owner text COLLATE "C"`,
    `CREATE INDEX entries_of_owner ON ${schema}.entries (owner) WHERE owner IS NOT NULL`,
  ],
}
