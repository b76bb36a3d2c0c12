import { readOptions, text } from '../../src/runtime/options.js'
import { Connections, type PostgresPool, type Query } from './connections.js'

/** Maximum time of all migrations, in milliseconds. */
const MAX_MS = 3_600_000

/** One change of the tables. A published migration is never edited; a later one corrects it. */
export interface Migration {
  readonly number: number
  readonly name: string
  /**
   * Returns the statements. They only add, so that processes of the version before keep working during
   * a rolling deploy.
   *
   * @param schema - quoted as an identifier
   */
  readonly statements: (schema: string) => readonly string[]
}

/** All migrations, in order. */
export const MIGRATIONS: readonly Migration[] = [
  {
    number: 1, name: 'tables',
    statements: (schema) => [
      // One row with a random id, so that a transaction of another database is recognised.
      `CREATE TABLE ${schema}.installation (id uuid NOT NULL)`,
      `INSERT INTO ${schema}.installation VALUES (gen_random_uuid())`,
      ...entries(schema), ...blobs(schema), ...tasks(schema),
    ],
  },
  { number: 2, name: 'limits of running work', statements: runningLimits },
  { number: 3, name: 'tasks that ask', statements: asking },
  { number: 4, name: 'lists of tenants', statements: tenantLists },
]

/** Condition of the index of lists of a tenant, which statements repeat so that PostgreSQL uses it. */
export const IS_OF_TENANT = "caller LIKE 'tenant %'"

/** Autovacuum after 5 % of the rows were deleted, not after 20 %. */
const VACUUM = 'autovacuum_vacuum_scale_factor = 0.05'

/**
 * Tables of the store. Expired rows are found by `sweep_slot`, the expiry in units of 10 minutes,
 * rounded up, because an index on `expires_at` would change with every update. An update that changes
 * no index leaves less behind (a heap-only tuple) if its page has space: hence the fill factor.
 */
function entries(schema: string): readonly string[] {
  return [
    `CREATE TABLE ${schema}.entries (
  key text COLLATE "C" PRIMARY KEY,
  value text NOT NULL,
  revision text COLLATE "C" NOT NULL,
  expires_at timestamptz NOT NULL,
  sweep_slot integer NOT NULL,
  owner text COLLATE "C",
  counted_at timestamptz
) WITH (fillfactor = 70, ${VACUUM})`,
    `CREATE INDEX entries_sweep_slot ON ${schema}.entries (sweep_slot)`,
    `CREATE INDEX entries_of_owner ON ${schema}.entries (owner) WHERE owner IS NOT NULL`,
    `CREATE TABLE ${schema}.counters (
  key text COLLATE "C" PRIMARY KEY,
  value bigint NOT NULL,
  expires_at timestamptz NOT NULL,
  sweep_slot integer NOT NULL
) WITH (fillfactor = 50, ${VACUUM})`,
    `CREATE INDEX counters_sweep_slot ON ${schema}.counters (sweep_slot)`,
  ]
}

/** Bytes are not compressed, so that a range is read without the rest of its chunk. */
function blobs(schema: string): readonly string[] {
  return [
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
) WITH (${VACUUM}, toast.${VACUUM})`,
    `ALTER TABLE ${schema}.blob_chunks ALTER COLUMN data SET STORAGE EXTERNAL`,
  ]
}

/**
 * Tables of the task engine: one row for each task. Times are milliseconds since 1970, as `float8`,
 * which every client reads as a number. The empty string stands for no owner and no caller. No limit
 * counts a task without `limit_group`. The status is its number in `STATUSES`. `taken_by` names the
 * statement that has begun the newest run. A task with a `turn` may be taken; a queued task without
 * one waits for `due_at`. Changes of progress, checkpoints and leases touch no index.
 *
 * `changed_at` of `task_callers` differs after each task that was created under a limit of the
 * caller, so that two processes cannot both use the last place.
 */
function tasks(schema: string): readonly string[] {
  const index = (name: string, columns: string, kind = ''): string => (
    `CREATE ${kind} INDEX task_rows_${name} ON ${schema}.task_rows ${columns}`
  )
  return [
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
) WITH (fillfactor = 70, ${VACUUM})`,
    index('key', '(key) WHERE key IS NOT NULL', 'UNIQUE'),
    index('waiting', '(pool, priority, turn, due_at) WHERE turn IS NOT NULL'),
    index('delayed', '(pool, due_at) WHERE status = 0 AND turn IS NULL'),
    index('running', '(pool) WHERE status = 1'),
    index('unfinished', '(caller, pool, priority, turn, limit_group) WHERE status < 2'),
    index('kept', '(caller, finished_at) WHERE status >= 2 AND caller <> \'\''),
    index('of_owner', '(owner, name, status, created_at, id)'),
    index('of_all', '(name, status, created_at, id)'),
    index('callback', '(callback_at) WHERE callback_at IS NOT NULL AND status >= 2'),
    index('sweep', '(has_files, sweep_at)'),
    `CREATE TABLE ${schema}.task_callers (
  caller text COLLATE "C" PRIMARY KEY,
  changed_at timestamptz NOT NULL
) WITH (fillfactor = 50, ${VACUUM})`,
  ]
}

/**
 * Columns and tables of limits of running work, pauses and business keys. A held task is due at
 * `Infinity`: so neither a look nor a process of the version before gives it a turn. `held_due_at` is
 * the time at which it was due. `task_pools` has a row for each pool with limits, or that was paused:
 * `begun` counts the runs that began under its limits. So a take knows whether another one came
 * first. A row of `task_begins` stands for the runs of one take; `before` is `begun` before it.
 */
function runningLimits(schema: string): readonly string[] {
  const rows = `${schema}.task_rows`
  return [
    `ALTER TABLE ${rows} ADD COLUMN held_due_at float8, ADD COLUMN unique_key text COLLATE "C"`,
    `CREATE UNIQUE INDEX task_rows_unique_key ON ${rows} (unique_key)
  WHERE status < 2 AND unique_key IS NOT NULL`,
    `CREATE INDEX task_rows_held ON ${rows} (pool, caller, name, priority, held_due_at)
  WHERE status < 2 AND due_at = 'Infinity'`,
    `DROP INDEX ${schema}.task_rows_running`,
    `CREATE INDEX task_rows_running ON ${rows} (pool, caller, name) WHERE status = 1`,
    `CREATE TABLE ${schema}.task_pools (
  pool text COLLATE "C" PRIMARY KEY,
  begun bigint NOT NULL DEFAULT 0,
  is_paused boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50)`,
    `CREATE TABLE ${schema}.task_begins (
  pool text COLLATE "C" NOT NULL,
  began_at float8 NOT NULL,
  before bigint NOT NULL,
  PRIMARY KEY (pool, began_at, before)
) WITH (${VACUUM})`,
  ]
}

/**
 * Column and index of tasks that wait for an answer. Such a task is a queued one, also for a process of
 * the version before: `asked_by` is the number of the run that asked, so it has no meaning after the next
 * begin. Tasks that wait have callbacks, too.
 */
function asking(schema: string): readonly string[] {
  const rows = `${schema}.task_rows`
  return [
    `ALTER TABLE ${rows} ADD COLUMN asked_by integer`,
    `DROP INDEX ${schema}.task_rows_callback`,
    `CREATE INDEX task_rows_callback ON ${rows} (callback_at) WHERE callback_at IS NOT NULL`,
  ]
}

/** Index for lists of a tenant. Tasks without a tenant are not in it, and cost nothing. */
function tenantLists(schema: string): readonly string[] {
  return [
    `CREATE INDEX task_rows_of_tenant ON ${schema}.task_rows (caller, name, status, created_at, id)
  WHERE ${IS_OF_TENANT}`,
  ]
}

/**
 * Every later statement waits behind a migration that waits for a lock. A migration that cannot get
 * the lock then fails with 55P03.
 */
const LOCK_TIMEOUT = 'SET LOCAL lock_timeout = \'1s\''

export const SCHEMA = text({
  pattern: /^[a-z_][a-z0-9_]{0,39}$/, default: 'longhaul',
  expects: '1 to 40 characters of a-z, 0-9 and _, without a digit at the start',
})

export function quoted(schema: string): string {
  return `"${schema}"`
}

/** Returns the SQL of migrations as one transaction. Default: all, for an empty database. */
export function migrationSql(
  schema: string, migrations: readonly Migration[] = MIGRATIONS,
): string {
  return [
    'BEGIN', LOCK_TIMEOUT, `CREATE SCHEMA IF NOT EXISTS ${quoted(schema)}`, journal(schema),
    ...migrations.flatMap((migration) => statementsOf(schema, migration)), 'COMMIT',
  ].map((statement) => `${statement};\n`).join('\n')
}

/** Returns the SQL of the migrations that a database lacks; `''` for none. */
export async function missingSql(pool: PostgresPool, schema: string): Promise<string> {
  const missing = await new Connections(pool).transaction(
    (query) => missingMigrations(query, schema), MAX_MS,
  )
  return missing.length === 0 ? '' : migrationSql(schema, missing)
}

/** Options of `migrate`. */
export interface MigrateOptions {
  /**
   * Schema of the tables: 1 to 40 of `a-z 0-9 _`. Default `longhaul`.
   *
   * Each application on one database needs its own.
   */
  readonly schema?: string
}

/**
 * Applies the migrations that are missing, and returns their names. For deploy scripts: with
 * `postgres({ pool, migrate: false })` the processes themselves need no right to create tables.
 *
 * @example
 * await migrate(pool)
 *
 * @throws {TypeError} An option is not valid or unknown.
 * @throws {Error} With the code `55P03`: another transaction has locked a table for a second.
 */
export async function migrate(
  pool: PostgresPool, options: MigrateOptions = {},
): Promise<readonly string[]> {
  const { schema } = readOptions('migrate', options, { schema: SCHEMA })
  const applied = await new Connections(pool).transaction(
    (query) => applyMigrations(query, schema), MAX_MS,
  )
  return applied.map(({ number, name }) => `${String(number)} ${name}`)
}

/** Must run in a transaction. Processes take turns by an advisory lock. */
export async function applyMigrations(query: Query, schema: string): Promise<readonly Migration[]> {
  await query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [`longhaul.${schema}`])
  await query(LOCK_TIMEOUT)
  // `to_regnamespace` may use what the connection knew before it waited.
  const found = await query('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema])
  // IF NOT EXISTS would need the right to create schemas.
  if (found.length === 0) await query(`CREATE SCHEMA ${quoted(schema)}`)
  await query(journal(schema))
  const missing = await missingMigrations(query, schema)
  for (const migration of missing) {
    for (const statement of statementsOf(schema, migration)) await query(statement)
  }
  return missing
}

export async function missingMigrations(
  query: Query, schema: string,
): Promise<readonly Migration[]> {
  const table = `${quoted(schema)}.migrations`
  const [journal] = await query<{ readonly exists: boolean }>(
    'SELECT to_regclass($1::text) IS NOT NULL AS exists', [table],
  )
  if (journal?.exists !== true) return MIGRATIONS
  const rows = await query<{ readonly number: number }>(`SELECT number FROM ${table}`)
  const applied = new Set(rows.map(({ number }) => Number(number)))
  return MIGRATIONS.filter(({ number }) => !applied.has(number))
}

function journal(schema: string): string {
  return `CREATE TABLE IF NOT EXISTS ${quoted(schema)}.migrations (
  number integer PRIMARY KEY,
  name text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
)`
}

function statementsOf(schema: string, { number, name, statements }: Migration): readonly string[] {
  const record = `INSERT INTO ${quoted(schema)}.migrations (number, name) `
    + `VALUES (${String(number)}, '${name}')`
  return [...statements(quoted(schema)), record]
}
