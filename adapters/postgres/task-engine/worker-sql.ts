import { CLOCK, SAME_NOW, taskColumns, turnSql } from './rows.js'

/** Maximum number of tasks that one statement makes ready. */
const MAX_READY = 500
/** Time after which a callback or a removal of files without an outcome is tried again, in milliseconds. */
const AGAIN_MS = 60_000
/** Delay before files are removed again after a failure, in milliseconds. */
const REMOVE_FAILED_MS = 1000

export type WorkerSql = ReturnType<typeof workerSql>

/** @param schema - quoted as an identifier */
export function workerSql(schema: string) {
  const rows = `${schema}.task_rows`
  const live = `expires_at > ${SAME_NOW}`
  const columns = taskColumns('task')
  return {
    /** Gives a turn to the tasks of pools (`$1`) that are due. Returns what else there is to do. */
    look: `WITH ${CLOCK}, delayed AS MATERIALIZED (
  SELECT id, pool, priority, caller, due_at FROM ${rows}
  WHERE pool = ANY($1::text[]) AND status = 0 AND turn IS NULL AND due_at <= ${SAME_NOW} AND ${live}
  LIMIT ${String(MAX_READY)} FOR UPDATE SKIP LOCKED
), lost AS MATERIALIZED (
  SELECT id, pool, priority, caller, lease_until FROM ${rows}
  WHERE pool = ANY($1::text[]) AND status = 1 AND turn IS NULL AND lease_until <= ${SAME_NOW}
    AND ${live}
  LIMIT ${String(MAX_READY)} FOR UPDATE SKIP LOCKED
), ready AS MATERIALIZED (
  SELECT *, row_number() OVER (PARTITION BY pool, priority, caller ORDER BY due_at, id) - 1 AS place
  FROM (SELECT * FROM delayed UNION ALL SELECT * FROM lost) AS due
), promoted AS (
  UPDATE ${rows} AS task SET turn = ${turnSql(rows, 'ready')}, due_at = ready.due_at
  FROM ready WHERE task.id = ready.id AND task.turn IS NULL RETURNING task.pool
)
SELECT ARRAY(
  SELECT pool FROM promoted UNION
  SELECT pool FROM unnest($1::text[]) AS worked (pool)
  WHERE (
    SELECT turn FROM ${rows} AS task WHERE task.pool = worked.pool AND turn IS NOT NULL
    ORDER BY priority, turn LIMIT 1
  ) IS NOT NULL
) AS pools, (
  SELECT min(due_at) FROM unnest($1::text[]) AS worked (pool) CROSS JOIN LATERAL (
    SELECT due_at FROM ${rows} AS task WHERE task.pool = worked.pool AND status = 0
      AND turn IS NULL AND due_at > ${SAME_NOW} ORDER BY due_at LIMIT 1
  ) AS next
) - ${SAME_NOW} AS next_start_ms, (
  SELECT callback_at FROM ${rows} WHERE callback_at IS NOT NULL AND status >= 2 AND ${live}
  ORDER BY callback_at LIMIT 1
) - ${SAME_NOW} AS next_callback_ms,
EXISTS (SELECT FROM ${rows} WHERE has_files AND sweep_at <= ${SAME_NOW}) AS has_removals,
(SELECT count(*) FROM ready) >= ${String(MAX_READY)} AS has_more`,
    /**
     * Begins at most `$2` runs of a pool (`$1`), with a lease of `$3` milliseconds and a name (`$4`). For
     * several pools, the planner would rather sort all that waits.
     */
    take: `WITH ${CLOCK}, taken AS MATERIALIZED (
  SELECT id, status, run_started_at FROM ${rows} WHERE pool = $1 AND turn IS NOT NULL AND ${live}
  ORDER BY priority, turn, due_at LIMIT $2::bigint FOR UPDATE SKIP LOCKED
)
UPDATE ${rows} AS task SET status = 1, turn = NULL, version = task.version + 1,
  run = task.run + 1, attempt = task.attempt + 1,
  crashes = task.crashes + (task.status = 1)::integer, taken_by = $4,
  lease_until = ${SAME_NOW} + $3::float8, run_started_at = ${SAME_NOW},
  started_at = coalesce(task.started_at, ${SAME_NOW})
FROM taken WHERE task.id = taken.id AND task.turn IS NOT NULL
RETURNING ${columns}, task.input, '=' || task.checkpoint AS checkpoint,
  taken.status = 1 AS has_crashed, taken.run_started_at AS lost_run_started_at`,
    /** Gives back the runs that takes with some names (`$1`) have begun. */
    giveBack: `WITH ${CLOCK}
UPDATE ${rows} SET status = 0, version = version + 1, attempt = attempt - 1,
  due_at = ${SAME_NOW}, turn = NULL, lease_until = NULL
WHERE status = 1 AND taken_by = ANY($1::text[])`,
    /** Begins up to `$1` attempts at callbacks. */
    takeCallbacks: `WITH ${CLOCK}
UPDATE ${rows} AS task SET callback_run = task.callback_run + 1,
  callback_at = ${SAME_NOW} + ${String(AGAIN_MS)}
WHERE id = ANY(ARRAY(
  SELECT id FROM ${rows} WHERE callback_at <= ${SAME_NOW} AND status >= 2 AND ${live}
  ORDER BY callback_at LIMIT $1::bigint FOR UPDATE SKIP LOCKED
)) RETURNING ${columns}`,
    takeRemovals: `WITH ${CLOCK}
UPDATE ${rows} AS task SET sweep_at = ${SAME_NOW} + ${String(AGAIN_MS)}
WHERE id = ANY(ARRAY(
  SELECT id FROM ${rows} WHERE has_files AND sweep_at <= ${SAME_NOW} AND expires_at <= ${SAME_NOW}
  ORDER BY sweep_at LIMIT $1::bigint FOR UPDATE SKIP LOCKED
)) RETURNING ${columns}`,
    removed: `WITH ${CLOCK} DELETE FROM ${rows}
WHERE id = $1 AND birth = $2 AND expires_at <= ${SAME_NOW}`,
    removeLater: `WITH ${CLOCK}
UPDATE ${rows} SET sweep_at = ${SAME_NOW} + ${String(REMOVE_FAILED_MS)}
WHERE id = $1 AND birth = $2 AND expires_at <= ${SAME_NOW}`,
    /** Renews the leases of runs (`$1` to `$3`) for `$4` milliseconds. Returns those that still run. */
    renew: `WITH ${CLOCK}, own AS MATERIALIZED (
  SELECT * FROM unnest($1::text[], $2::text[], $3::integer[]) AS own (id, birth, run)
), free AS MATERIALIZED (
  SELECT id FROM ${rows} AS task JOIN own USING (id, birth, run) WHERE status = 1 AND ${live}
  ORDER BY id FOR UPDATE OF task SKIP LOCKED
), renewed AS (
  UPDATE ${rows} AS task SET lease_until = ${SAME_NOW} + $4::float8, turn = NULL
  FROM free WHERE task.id = free.id RETURNING task.id
)
SELECT id, id IN (SELECT id FROM renewed) AS is_renewed
FROM ${rows} AS task JOIN own USING (id, birth, run) WHERE status = 1 AND ${live}`,
  }
}
