/**
 * Removes completed jobs, and takes one waiting job for each that `wants_next`, as BullMQ's function
 * `move_to_completed_fetch` does for one. Returns a row for each completed job.
 *
 * - Skips jobs that are locked by another transaction, that are part of a flow, or whose token is
 *   another one. BullMQ's own function completes those, or raises its error.
 * - Takes no job if the queue is paused or limited, or if a delayed job is due. BullMQ's own function
 *   then takes one.
 */
export const completionSql = `WITH ended AS (
  SELECT * FROM unnest($2::text[], $3::text[], $4::boolean[])
    WITH ORDINALITY AS ended (id, token, wants_next, place)
), clock AS (
  SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
), special AS (
  SELECT EXISTS (
    SELECT FROM {schema}.meta WHERE queue = $1
      AND (field IN ('concurrency', 'max') OR field = 'paused' AND value = '1')
  ) OR EXISTS (
    SELECT FROM {schema}.job, clock
    WHERE queue = $1 AND state = 'delayed' AND process_at_ms <= now_ms
  ) AS is_special
), locked AS (
  SELECT job.id FROM {schema}.job JOIN ended USING (id)
  WHERE queue = $1 AND job.id = ANY ($2::text[]) AND state = 'active' AND lock_token = token
    AND parent_id IS NULL AND dedup_id IS NULL AND NOT EXISTS (
      SELECT FROM {schema}.job_dependency WHERE parent_queue = $1 AND parent_id = job.id
    )
  FOR UPDATE OF job SKIP LOCKED
), removed AS (
  DELETE FROM {schema}.job WHERE queue = $1 AND id = ANY (ARRAY(SELECT id FROM locked))
  RETURNING id
), slots AS (
  SELECT id AS slot_id, token, row_number() OVER (ORDER BY place) AS number
  FROM ended JOIN removed USING (id) WHERE wants_next
), next AS (
  SELECT id FROM {schema}.job
  WHERE queue = $1 AND state = 'waiting' AND NOT (SELECT is_special FROM special)
  ORDER BY priority, seq LIMIT (SELECT count(*) FROM slots) FOR UPDATE SKIP LOCKED
), numbered AS (
  SELECT id, row_number() OVER () AS number FROM next
), taken AS (
  UPDATE {schema}.job SET state = 'active', lock_token = token, processed_by = NULL,
    locked_until_ms = now_ms + $5::bigint, processed_at_ms = now_ms,
    attempts_started = attempts_started + 1
  FROM clock, numbered JOIN slots USING (number)
  WHERE queue = $1 AND job.id = ANY (ARRAY(SELECT id FROM next)) AND job.id = numbered.id
  RETURNING slot_id, job.*
)
SELECT ended.id AS ended_id, removed.id IS NOT NULL AS is_removed, is_special,
  (SELECT min(process_at_ms) - now_ms FROM {schema}.job, clock
    WHERE queue = $1 AND state = 'delayed' GROUP BY now_ms)::float8 AS next_in_ms,
  taken.*
FROM special, ended LEFT JOIN removed ON removed.id = ended.id
  LEFT JOIN taken ON taken.slot_id = ended.id`
