import type { Migration } from './migration.js'

/**
 * Tables of the task index. The owner of a task without an owner is the empty text, which no owner
 * has. The status is its number in `LISTED_STATUSES`, and `created_at` is in milliseconds since 1970.
 * Two indexes serve every filter: a page merges the lists of some statuses and names.
 */
export const tasks: Migration = {
  number: 4,
  name: 'tasks',
  statements: (schema) => [
    `CREATE TABLE ${schema}.tasks (
  id text COLLATE "C" PRIMARY KEY,
  owner text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  status smallint NOT NULL,
  version integer NOT NULL,
  created_at bigint NOT NULL,
  expires_at timestamptz NOT NULL,
  sweep_slot integer NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05)`,
    `CREATE INDEX tasks_of_owner ON ${schema}.tasks (owner, name, status, created_at, id)`,
    `CREATE INDEX tasks_of_all ON ${schema}.tasks (name, status, created_at, id)`,
    `CREATE INDEX tasks_sweep_slot ON ${schema}.tasks (sweep_slot)`,
    `CREATE TABLE ${schema}.task_checks (
  entry text COLLATE "C" PRIMARY KEY,
  due_at timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05)`,
    `CREATE INDEX task_checks_due_at ON ${schema}.task_checks (due_at)`,
  ],
}
