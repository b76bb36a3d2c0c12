import type { Migration } from './migration.js'

/**
 * One row with a random id, so that a transaction of another database is recognised.
 * `gen_random_uuid` exists since PostgreSQL 13.
 */
export const installation: Migration = {
  number: 2,
  name: 'installation',
  statements: (schema) => [
    `CREATE TABLE ${schema}.installation (id uuid NOT NULL)`,
    `INSERT INTO ${schema}.installation VALUES (gen_random_uuid())`,
  ],
}
