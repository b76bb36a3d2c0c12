import type { Check } from '../../../src/stores/index-writes.js'
import {
  LISTED_STATUSES, TASK_KEY, type ListEntry, type ListedStatus, type ListedTask, type ListQuery,
} from '../../../src/stores/task-index.js'
import type { Query } from '../connections.js'

/** Maximum time in milliseconds: later than every date. */
const MAX_TIME = 8_640_000_000_000_000
/** The version is a 32-bit integer. */
const MAX_VERSION = 2_147_483_647
/** Maximum lifetime: 285 years, as that of entries. */
const MAX_TTL_MS = 9_000_000_000_000

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
    'write' | 'restore' | 'remove' | 'take' | 'drop' | 'unlisted', string>>
  /** Statement of a page, by order and scope. */
  private readonly pages: Readonly<Record<string, string>>

  /** @param schema - quoted as an identifier */
  constructor(schema: string) {
    const tasks = `${schema}.tasks`
    const checks = `${schema}.task_checks`
    const later = "clock_timestamp() + ms * interval '1 ms'"
    const isSame = '(excluded.created_at, excluded.version) = (old.created_at, old.version)'
    this.sql = {
      write: `WITH checks AS (
  INSERT INTO ${checks} (entry, due_at)
  SELECT entry, ${later} FROM unnest($1::text[], $2::float8[]) AS added (entry, ms) ORDER BY entry
  ON CONFLICT (entry) DO UPDATE SET due_at = excluded.due_at
)
INSERT INTO ${tasks} AS old
  (id, owner, name, status, version, created_at, expires_at, sweep_slot)
SELECT id, owner, name, status, version, created_at, ${later},
  ceil(extract(epoch FROM ${later}) / 600)::integer
FROM unnest($3::text[], $4::text[], $5::text[], $6::smallint[], $7::integer[], $8::bigint[],
  $9::float8[]) AS put (id, owner, name, status, version, created_at, ms)
ORDER BY id
ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, name = excluded.name,
  status = excluded.status, version = excluded.version, created_at = excluded.created_at,
  expires_at = CASE WHEN ${isSame} THEN greatest(old.expires_at, excluded.expires_at)
    ELSE excluded.expires_at END,
  sweep_slot = CASE WHEN ${isSame} THEN greatest(old.sweep_slot, excluded.sweep_slot)
    ELSE excluded.sweep_slot END
WHERE (excluded.created_at, excluded.version) > (old.created_at, old.version)
  OR ${isSame} AND (excluded.status <> old.status OR excluded.sweep_slot > old.sweep_slot)`,
      restore: `INSERT INTO ${checks} (entry, due_at)
SELECT entry, ${later} FROM unnest($1::text[], $2::float8[]) AS added (entry, ms) ORDER BY entry
ON CONFLICT (entry) DO NOTHING`,
      remove: `DELETE FROM ${checks} WHERE entry IN (
  SELECT entry FROM ${checks} WHERE entry = ANY ($1::text[]) ORDER BY entry FOR UPDATE SKIP LOCKED
)`,
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

  /** Adds checks and puts tasks. No id may occur twice. */
  async write(query: Query, added: readonly Check[], put: readonly ListedTask[]): Promise<void> {
    await query(this.sql.write, [
      added.map(({ entry }) => entry), added.map(({ afterMs }) => afterMs),
      put.map(({ id }) => id), put.map(({ owner }) => owner ?? ''), put.map(({ name }) => name),
      put.map(({ status }) => LISTED_STATUSES.indexOf(status)),
      put.map(({ version }) => Math.min(version, MAX_VERSION)),
      put.map(({ createdAt }) => createdAt),
      put.map(({ ttlMs }) => Math.min(ttlMs, MAX_TTL_MS)),
    ])
  }

  /** Adds checks whose entries are missing. */
  async restore(query: Query, checks: readonly Check[]): Promise<void> {
    const entries = checks.map(({ entry }) => entry)
    await query(this.sql.restore, [entries, checks.map(({ afterMs }) => afterMs)])
  }

  /** Removes checks. Skips those that a transaction has locked: a later check removes them. */
  async remove(query: Query, entries: readonly string[]): Promise<void> {
    await query(this.sql.remove, [entries])
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
  SELECT * FROM ${tasks}
  WHERE ${isOwn ? 'owner = $7 AND ' : ''}name = names.name AND status = listed.status
    AND (created_at, id) ${compare} ($3::bigint, $4::text) AND created_at ${bound} $5::bigint
    AND expires_at > clock_timestamp()
  ORDER BY ${order} LIMIT $6
) AS page
ORDER BY ${order} LIMIT $6`
}

/** Returns the text that sorts after all texts with a prefix. */
function nextPrefix(prefix: string): string {
  const last = prefix.length - 1
  return prefix.slice(0, last) + String.fromCharCode(prefix.charCodeAt(last) + 1)
}
