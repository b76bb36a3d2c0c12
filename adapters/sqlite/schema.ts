/** Version of the tables. A file with a later one was written by a later version of longhaul. */
export const SCHEMA_VERSION = 1

/**
 * The tables. A column of `longhaul_tasks` that is also a property of a task has its name. The
 * status is a number in the order of `STATUSES`. Running tasks (1) are few. Only two indexes have
 * them: that of leases and that of ids. `listed` is the status of final tasks, 5 for queued ones
 * that wait for an answer, and otherwise 0. A task without owner or caller has the empty string.
 *
 * - dueAt, turn: when a queued task is due; its place among the tasks that wait for a run, or NULL.
 * - held: the share of the caller that holds the task: the name of its definition, or '' for the pool.
 * - uniqueKey: business key of an unfinished task.
 * - lease, leaseUntil: token and end of the lease of a running task.
 * - bytes, fileBytes: what the task keeps in this file, and outside of it.
 * - input: a short input of a task without checkpoint. Others stand in `longhaul_texts`.
 * - longhaul_removals: tasks that are gone and have files, by the next attempt to remove these.
 * - longhaul_pauses: the paused pools.
 * - longhaul_starts: the newest begins of runs in pools with a rate, numbered in their order.
 * - longhaul_shares: number and bytes of what counts for an owner. Kinds: t (final tasks), f (files of
 *   final tasks), e (entries of the store).
 */
export const SCHEMA = `
CREATE TABLE longhaul_tasks (
  rowid INTEGER PRIMARY KEY, id TEXT NOT NULL, birth TEXT NOT NULL, key TEXT, owner TEXT NOT NULL,
  caller TEXT NOT NULL, name TEXT NOT NULL, pool TEXT NOT NULL, priority INTEGER NOT NULL,
  status INTEGER NOT NULL, listed INTEGER NOT NULL DEFAULT 0, version INTEGER NOT NULL, run INTEGER NOT NULL,
  attempt INTEGER NOT NULL, crashes INTEGER NOT NULL DEFAULT 0, createdAt REAL NOT NULL, startAt REAL,
  startedAt REAL, runStartedAt REAL, finishedAt REAL, expiresAt REAL NOT NULL,
  callbackRun INTEGER NOT NULL DEFAULT 0, callbackAt REAL, limitGroup TEXT, uniqueKey TEXT,
  hasFiles INTEGER NOT NULL, dueAt REAL, turn INTEGER, held TEXT, lease TEXT, leaseUntil REAL,
  bytes INTEGER NOT NULL DEFAULT 0, fileBytes INTEGER NOT NULL DEFAULT 0, details TEXT NOT NULL, result TEXT,
  input TEXT
);
CREATE UNIQUE INDEX longhaul_tasks_id ON longhaul_tasks (id);
CREATE UNIQUE INDEX longhaul_tasks_key ON longhaul_tasks (key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX longhaul_tasks_unique ON longhaul_tasks (uniqueKey) WHERE uniqueKey IS NOT NULL;
CREATE INDEX longhaul_tasks_name ON longhaul_tasks (name, listed, createdAt) WHERE status <> 1;
CREATE INDEX longhaul_tasks_owner ON longhaul_tasks (owner, name, listed, createdAt)
  WHERE status <> 1;
CREATE INDEX longhaul_tasks_expiry ON longhaul_tasks (expiresAt) WHERE status <> 1;
CREATE INDEX longhaul_tasks_turn ON longhaul_tasks (pool, priority, turn, dueAt)
  WHERE turn IS NOT NULL;
CREATE INDEX longhaul_tasks_caller_turn ON longhaul_tasks (pool, caller, priority, turn)
  WHERE turn IS NOT NULL;
CREATE INDEX longhaul_tasks_due ON longhaul_tasks (pool, dueAt, turn, held, status)
  WHERE turn IS NULL AND held IS NULL AND status = 0;
CREATE INDEX longhaul_tasks_held ON longhaul_tasks (pool, caller, held, priority, dueAt)
  WHERE held IS NOT NULL;
CREATE INDEX longhaul_tasks_lease ON longhaul_tasks
  (pool, leaseUntil, turn, held, status, expiresAt, caller, name, limitGroup) WHERE status = 1;
CREATE INDEX longhaul_tasks_callback ON longhaul_tasks (callbackAt) WHERE callbackAt IS NOT NULL;
CREATE INDEX longhaul_tasks_limit ON longhaul_tasks (caller, limitGroup)
  WHERE status = 0 AND limitGroup IS NOT NULL;
CREATE INDEX longhaul_tasks_share ON longhaul_tasks (caller, finishedAt)
  WHERE status >= 2 AND caller <> '';
CREATE INDEX longhaul_tasks_files ON longhaul_tasks (caller, finishedAt)
  WHERE status >= 2 AND caller <> '' AND fileBytes > 0;
CREATE TABLE longhaul_texts (
  task INTEGER PRIMARY KEY, input TEXT NOT NULL, checkpoint TEXT
);
CREATE TABLE longhaul_removals (
  row TEXT PRIMARY KEY, at REAL NOT NULL, task TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX longhaul_removals_at ON longhaul_removals (at);
CREATE TABLE longhaul_pauses (pool TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE longhaul_starts (
  pool TEXT NOT NULL, n INTEGER NOT NULL, at REAL NOT NULL, PRIMARY KEY (pool, n)
) WITHOUT ROWID;
CREATE TABLE longhaul_shares (
  kind TEXT NOT NULL, owner TEXT NOT NULL, count INTEGER NOT NULL, bytes INTEGER NOT NULL,
  PRIMARY KEY (kind, owner)
) WITHOUT ROWID;
CREATE TABLE longhaul_entries (
  rowid INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, value TEXT NOT NULL,
  revision TEXT NOT NULL, expiresAt REAL NOT NULL, owner TEXT NOT NULL, bytes INTEGER NOT NULL
);
CREATE INDEX longhaul_entries_expiry ON longhaul_entries (expiresAt);
CREATE INDEX longhaul_entries_owner ON longhaul_entries (owner, rowid) WHERE owner <> '';
CREATE TABLE longhaul_counters (
  key TEXT PRIMARY KEY, value INTEGER NOT NULL, expiresAt REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX longhaul_counters_expiry ON longhaul_counters (expiresAt);
CREATE TABLE longhaul_schema (version INTEGER NOT NULL);
INSERT INTO longhaul_schema VALUES (${String(SCHEMA_VERSION)});
`

/**
 * Indexes that files of earlier releases lack. A process of such a release keeps them up to date, so they
 * need no later version of the tables.
 */
export const ADDED_INDEXES = `
CREATE INDEX IF NOT EXISTS longhaul_tasks_tenant ON longhaul_tasks (caller, name, listed, createdAt)
  WHERE status <> 1 AND caller GLOB 'tenant *';
`
