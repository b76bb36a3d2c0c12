import type { Migration } from './migration.js'

/** Owner that an entry counts for once it may be removed early. NULL for all other entries. */
export const owners: Migration = {
  number: 5,
  name: 'owners',
  statements: (schema) => [
    `ALTER TABLE ${schema}.entries ADD COLUMN owner text COLLATE "C"`,
    `CREATE INDEX entries_of_owner ON ${schema}.entries (owner, expires_at) WHERE owner IS NOT NULL`,
  ],
}
