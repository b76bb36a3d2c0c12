import type { Migration } from './migration.js'

/**
 * Tables of the task engine: one row for each task, with its input and its checkpoint. Times are
 * milliseconds since 1970, as `float8`, which every client reads as a number. The empty text stands
 * for no owner and no caller. No limit counts a task without `limit_group`. The status is its number
 * in `STATUSES`.
 *
 * `taken_by` names the statement that has begun the newest run.
 *
 * A task with a `turn` may be taken. A queued task without one waits for `due_at`. Changes of
 * progress, checkpoints and leases touch no index, so they leave little behind (heap-only tuples).
 *
 * `task_callers` has no counts. `changed_at` differs after each task that was created under a limit
 * of the caller, so that two processes cannot both use the last place.
 */
export const taskRows: Migration = {
  number: 6,
  name: 'task-rows',
  statements: (schema) => [
    `CREATE TABLE ${schema}.task_rows (
  id text COLLATE "C" PRIMARY KEY,
  birth text COLLATE "C" NOT NULL,
  key text COLLATE "C",
  owner text COLLATE "C" NOT NULL,
  caller text COLLATE "C" NOT NULL,
  limit_group text COLLATE "C",
  name text COLLATE "C" NOT NULL,
  pool text COLLATE "C" NOT NULL,
  priority integer NOT NULL,
  status smallint NOT NULL DEFAULT 0,
  version integer NOT NULL DEFAULT 1,
  run integer NOT NULL DEFAULT 0,
  attempt integer NOT NULL DEFAULT 0,
  crashes integer NOT NULL DEFAULT 0,
  created_at float8 NOT NULL,
  start_at float8,
  started_at float8,
  run_started_at float8,
  finished_at float8,
  expires_at float8 NOT NULL,
  sweep_at float8 NOT NULL,
  due_at float8 NOT NULL,
  turn bigint,
  lease_until float8,
  taken_by text COLLATE "C",
  callback_run integer NOT NULL DEFAULT 0,
  callback_at float8,
  has_files boolean NOT NULL,
  file_bytes float8 NOT NULL DEFAULT 0,
  details text NOT NULL,
  input text,
  checkpoint text,
  result text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05)`,
    index(schema, 'UNIQUE', 'key', '(key) WHERE key IS NOT NULL'),
    index(schema, '', 'waiting', '(pool, priority, turn, due_at) WHERE turn IS NOT NULL'),
    index(schema, '', 'delayed', '(pool, due_at) WHERE status = 0 AND turn IS NULL'),
    index(schema, '', 'running', '(pool) WHERE status = 1'),
    index(schema, '', 'unfinished', '(caller, pool, priority, turn, limit_group) WHERE status < 2'),
    index(schema, '', 'kept', '(caller, finished_at) WHERE status >= 2 AND caller <> \'\''),
    index(schema, '', 'of_owner', '(owner, name, status, created_at, id)'),
    index(schema, '', 'of_all', '(name, status, created_at, id)'),
    index(schema, '', 'callback', '(callback_at) WHERE callback_at IS NOT NULL AND status >= 2'),
    index(schema, '', 'sweep', '(has_files, sweep_at)'),
    `CREATE TABLE ${schema}.task_callers (
  caller text COLLATE "C" PRIMARY KEY,
  changed_at timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05)`,
  ],
}

function index(schema: string, kind: string, name: string, columns: string): string {
  return `CREATE ${kind} INDEX task_rows_${name} ON ${schema}.task_rows ${columns}`
}
