import type { Migration } from './migration.js'

/**
 * Tables of the store. Expired rows are found by `sweep_slot`, the expiry in units of 10 minutes,
 * rounded up. An index on `expires_at` itself would change with every update. An update that
 * changes no index is cheaper and leaves less behind (a heap-only tuple), if its page has space:
 * hence the fill factor. Autovacuum runs after 5 % of the rows were deleted, not after 20 %.
 */
export const entries: Migration = {
  number: 1,
  name: 'entries',
  statements: (schema) => [
    `CREATE TABLE ${schema}.entries (
  key text COLLATE "C" PRIMARY KEY,
  value text NOT NULL,
  revision text COLLATE "C" NOT NULL,
  expires_at timestamptz NOT NULL,
  sweep_slot integer NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05)`,
    `CREATE INDEX entries_sweep_slot ON ${schema}.entries (sweep_slot)`,
    `CREATE TABLE ${schema}.counters (
  key text COLLATE "C" PRIMARY KEY,
  value bigint NOT NULL,
  expires_at timestamptz NOT NULL,
  sweep_slot integer NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05)`,
    `CREATE INDEX counters_sweep_slot ON ${schema}.counters (sweep_slot)`,
  ],
}
