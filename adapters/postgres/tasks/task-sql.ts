import type { Check } from '../../../src/stores/index-writes.js'
import {
  LISTED_STATUSES, TASK_KEY, type ListEntry, type ListedStatus, type ListedTask, type ListQuery,
} from '../../../src/stores/task-index.js'
import type { Query } from '../connections.js'
import { expiry } from '../lifetime.js'
import { putSql, putValues } from './put-sql.js'

/** Maximum time in milliseconds: later than every date. */
const MAX_TIME = 8_640_000_000_000_000

/** Row of a page. */
interface Row {
  readonly id: string
  readonly owner: string
  readonly name: string
  readonly status: number
  readonly created_at: number
}

/**
 * SQL of the task index. Each statement is one round trip and runs by itself, or inside a
 * transaction of the host. Times of checks and expiries are of the server's clock. Rows are written
 * in the order of their keys, so that two statements never wait for each other.
 */
export class TaskSql {
  private readonly sql: Readonly<Record<
    'write' | 'restore' | 'take' | 'drop' | 'unlisted', string>>
  /** Statement of a page, by order and scope. */
  private readonly pages: Readonly<Record<string, string>>

  /** @param schema - quoted as an identifier */
  constructor(schema: string) {
    const tasks = `${schema}.tasks`
    const checks = `${schema}.task_checks`
    const later = expiry('ms')
    this.sql = {
      // Rows that another transaction has locked are left out, and so is the removal of their checks.
      write: `WITH free AS (
  SELECT id FROM ${tasks} WHERE id = ANY ($4::text[]) ORDER BY id FOR UPDATE SKIP LOCKED
), locked AS (
  SELECT id FROM ${tasks} WHERE id = ANY ($4::text[]) EXCEPT SELECT id FROM free
), checks AS (
  INSERT INTO ${checks} (entry, due_at)
  SELECT entry, ${later} FROM unnest($1::text[], $2::float8[]) AS added (entry, ms) ORDER BY entry
  ON CONFLICT (entry) DO UPDATE SET due_at = excluded.due_at
), removed AS (
  DELETE FROM ${checks} WHERE entry IN (
    SELECT entry FROM ${checks} WHERE entry = ANY ($3::text[])
      AND split_part(entry, '~', 1) NOT IN (SELECT id FROM locked)
    ORDER BY entry FOR UPDATE SKIP LOCKED
  )
), written AS (
  ${putSql(tasks, 4, 'id NOT IN (SELECT id FROM locked)')}
)
SELECT id FROM locked`,
      restore: `INSERT INTO ${checks} (entry, due_at)
SELECT entry, ${later} FROM unnest($1::text[], $2::float8[]) AS added (entry, ms) ORDER BY entry
ON CONFLICT (entry) DO NOTHING`,
      take: `WITH due AS (
  SELECT entry, due_at FROM ${checks} WHERE due_at <= clock_timestamp()
  ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
), taken AS (
  UPDATE ${checks} AS old SET due_at = clock_timestamp() + $2::float8 * interval '1 ms'
  FROM due WHERE old.entry = due.entry RETURNING due.entry, due.due_at
)
SELECT entry FROM taken ORDER BY due_at`,
      drop: `DELETE FROM ${tasks} WHERE ctid = ANY (ARRAY(
  SELECT old.ctid FROM ${tasks} AS old
  JOIN unnest($1::text[], $2::text[], $3::bigint[]) AS gone (id, owner, created_at)
    USING (id, owner, created_at)
  ORDER BY old.id FOR UPDATE OF old SKIP LOCKED
))`,
      unlisted: `WITH slice AS (
  SELECT key, substr(key, ${String(TASK_KEY.length + 1)}) AS id FROM ${schema}.entries
  WHERE key > $1 AND key < '${nextPrefix(TASK_KEY)}' AND expires_at > clock_timestamp()
  ORDER BY key LIMIT $2
)
SELECT slice.key, slice.id, task.id IS NULL OR task.status < ${String(FIRST_FINAL)} AND NOT EXISTS (
    SELECT FROM ${checks} WHERE entry > slice.id || '~' AND entry < slice.id || '~~'
  ) AS is_lost
FROM slice LEFT JOIN ${tasks} AS task ON task.id = slice.id COLLATE "C" ORDER BY slice.key`,
    }
    this.pages = Object.fromEntries(['newest', 'oldest'].flatMap((order) => [
      [`${order} all`, pageSql(tasks, order === 'newest', false)],
      [`${order} own`, pageSql(tasks, order === 'newest', true)],
    ]))
  }

  /**
   * Adds checks, puts tasks, and removes checks. No id may occur twice. Skips tasks and checks that
   * another transaction has locked. Returns the ids of skipped tasks. Their checks stay, so a sweep
   * puts them at the latest.
   */
  async write(
    query: Query, added: readonly Check[], put: readonly ListedTask[], removed: readonly string[],
  ): Promise<ReadonlySet<string>> {
    const skipped = await query<{ readonly id: string }>(this.sql.write, [
      added.map(({ entry }) => entry), added.map(({ afterMs }) => afterMs), removed,
      ...putValues(put),
    ])
    return new Set(skipped.map(({ id }) => id))
  }

  /** Adds checks whose entries are missing. */
  async restore(query: Query, checks: readonly Check[]): Promise<void> {
    const entries = checks.map(({ entry }) => entry)
    await query(this.sql.restore, [entries, checks.map(({ afterMs }) => afterMs)])
  }

  /** Drops tasks. Skips those that a transaction has locked: a reader of the list drops them. */
  async drop(query: Query, tasks: readonly ListEntry[]): Promise<void> {
    await query(this.sql.drop, [
      tasks.map(({ id }) => id), tasks.map(({ owner }) => owner ?? ''),
      tasks.map(({ createdAt }) => createdAt),
    ])
  }

  /** Takes checks that are due. Each is locked by one transaction, and others skip it. */
  async take(query: Query, limit: number, againMs: number): Promise<string[]> {
    const rows = await query<{ readonly entry: string }>(this.sql.take, [limit, againMs])
    return rows.map(({ entry }) => entry)
  }

  /** Returns the entries of a page. */
  async page(query: Query, { of, statuses, names, from, to, order, limit, after }: ListQuery): Promise<ListEntry[]> {
    const isNewest = order === 'newest'
    // A page begins at the limit of time or after the page before, whichever comes later.
    const limitOfTime = isNewest
      ? { createdAt: to ?? MAX_TIME, id: '' } : { createdAt: from ?? -MAX_TIME, id: '' }
    const isLater = after && (isNewest
      ? after.createdAt < limitOfTime.createdAt : after.createdAt >= limitOfTime.createdAt)
    const start = isLater ? after : limitOfTime
    const values = [
      (statuses ?? LISTED_STATUSES).map((status) => LISTED_STATUSES.indexOf(status)),
      names, start.createdAt, start.id, isNewest ? from ?? -MAX_TIME : to ?? MAX_TIME, limit,
    ]
    const rows = of === 'all'
      ? await query<Row>(this.pages[`${order} all`] as string, values)
      : await query<Row>(this.pages[`${order} own`] as string, [...values, of.owner ?? ''])
    return rows.map(({ id, owner, name, status, created_at: createdAt }) => ({
      id, owner: owner === '' ? undefined : owner, name,
      status: LISTED_STATUSES[status] as ListedStatus, createdAt,
    }))
  }

  /**
   * Returns the keys of stored tasks after `key`, in order, and whether each has lost its entry in
   * the lists or its check.
   */
  async unlisted(
    query: Query, key: string, limit: number,
  ): Promise<readonly { readonly key: string, readonly id: string, readonly is_lost: boolean }[]> {
    return query(this.sql.unlisted, [key, limit])
  }
}

/** Number of the first final status. */
const FIRST_FINAL = LISTED_STATUSES.indexOf('completed')

/**
 * Returns the statement of a page. Reads the first tasks of the list of each name and status from an
 * index, then merges them. Without names, it finds all names by jumping through the index. They are
 * an array, because of arrays PostgreSQL assumes few items. It would compile a plan for more, which
 * takes 50 ms.
 *
 * The inner limit is a subquery, whose value the planner does not know. With the value, it would
 * rather read and sort all tasks of a list of some hundred. The outer limit keeps its estimate low.
 */
function pageSql(tasks: string, isNewest: boolean, isOwn: boolean): string {
  const [compare, bound, direction] = isNewest ? ['<', '>=', 'DESC'] : ['>', '<', 'ASC']
  const order = `created_at ${direction}, id ${direction}`
  return `WITH RECURSIVE known AS (
  (SELECT name FROM ${tasks} WHERE $2::text[] IS NULL ORDER BY name LIMIT 1)
  UNION ALL
  SELECT (SELECT name FROM ${tasks} WHERE name > known.name ORDER BY name LIMIT 1)
  FROM known WHERE known.name IS NOT NULL
)
SELECT page.id, page.owner, page.name, page.status::integer, page.created_at::float8
FROM unnest(coalesce($2::text[], ARRAY(SELECT name FROM known WHERE name IS NOT NULL)))
  AS names (name)
CROSS JOIN unnest($1::smallint[]) AS listed (status) CROSS JOIN LATERAL (
  SELECT * FROM (
    SELECT * FROM ${tasks}
    WHERE ${isOwn ? 'owner = $7 AND ' : ''}name = names.name AND status = listed.status
      AND (created_at, id) ${compare} ($3::bigint, $4::text) AND created_at ${bound} $5::bigint
      AND expires_at > clock_timestamp()
    ORDER BY ${order} LIMIT (SELECT $6::bigint)
  ) AS first LIMIT $6
) AS page
ORDER BY ${order} LIMIT $6`
}

/** Returns the text that sorts after all texts with a prefix. */
function nextPrefix(prefix: string): string {
  const last = prefix.length - 1
  return prefix.slice(0, last) + String.fromCharCode(prefix.charCodeAt(last) + 1)
}
