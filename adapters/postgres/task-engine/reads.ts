import {
  comparePositions, LISTED_STATUSES, type ListedStatus, type PoolCounts, type TaskQuery,
} from '../../../src/engine/engine.js'
import type { StoredTask } from '../../../src/engine/task.js'
import type { Query } from '../connections.js'
import { IS_OF_TENANT } from '../migrations.js'
import { TurnBatches } from '../turn-batches.js'
import { ASKS, CLOCK, NOW, SAME_NOW, STATUSES, taskColumns, toTask, type TaskRow } from './rows.js'

/** Maximum number of tasks in one statement, which bounds the size of a reply. */
const MAX_READ = 64
/** Statuses in lists that are one status in the table. */
const UNDER_QUEUED: readonly ListedStatus[] = ['scheduled', 'queued', 'input_required']
/** SQL of the columns that a page omits. */
const OMITTED = { details: '\'{}\'', result: 'NULL::text' } as const

type Counts = Readonly<Record<'running' | 'waiting' | 'delayed' | 'oldest', number>>

export class TaskReads {
  private readonly rows: string
  private readonly byId: string
  private readonly byKey: string
  private readonly paused: string
  private readonly batches: TurnBatches<string, StoredTask>

  /** @param schema - quoted as an identifier */
  constructor(schema: string, private readonly query: Query) {
    this.rows = `${schema}.task_rows`
    const select = `SELECT ${taskColumns('task')} FROM ${this.rows} AS task WHERE expires_at > ${NOW}`
    this.byId = `${select} AND id = ANY($1::text[])`
    this.byKey = `${select} AND key = $1`
    this.paused = `SELECT pool FROM ${schema}.task_pools WHERE is_paused ORDER BY pool`
    this.batches = new TurnBatches(MAX_READ, (ids) => this.readAll(this.query, ids))
  }

  /** @param query - runs the statement in a transaction. Default: together with other reads */
  async read(id: string, query?: Query): Promise<StoredTask | undefined> {
    return query ? (await this.readAll(query, [id]))[0] : this.batches.add(id, id)
  }

  private async readAll(query: Query, ids: readonly string[]): Promise<readonly StoredTask[]> {
    return (await query<TaskRow>(this.byId, [ids])).map((row) => toTask(row))
  }

  async readByKey(key: string): Promise<StoredTask | undefined> {
    const [row] = await this.query<TaskRow>(this.byKey, [key])
    return row && toTask(row)
  }

  async page(
    { of, statuses = LISTED_STATUSES, names, from, to, order, limit, after, omit = [] }: TaskQuery,
  ): Promise<readonly StoredTask[]> {
    const isNewest = order === 'newest'
    const start = { createdAt: from ?? -Infinity, id: '' }
    const end = { createdAt: to ?? Infinity, id: '' }
    const [first, last] = isNewest ? [end, start] : [start, end]
    const isLater = after && comparePositions(after, first) * (isNewest ? -1 : 1) > 0
    const begin = isLater ? after : first
    const values = [
      [...new Set(statuses.map(numberOf))],
      names ?? null, begin.createdAt, begin.id, last.createdAt, limit,
      ...UNDER_QUEUED.map((status) => statuses.includes(status)),
    ]
    const [condition, ...owners] = of === 'all' ? [''] as const
      : 'caller' in of ? [`caller = $10 AND ${IS_OF_TENANT} AND `, of.caller] as const
        : ['owner = $10 AND ', of.owner ?? ''] as const
    const omitted = Object.fromEntries(omit.map((name) => [name, OMITTED[name]]))
    const rows = await this.query<TaskRow>(
      pageSql(this.rows, taskColumns('page', omitted), isNewest, condition),
      [...values, ...owners],
    )
    return rows.map((row) => toTask(row))
  }

  async now(): Promise<number> {
    const [row] = await this.query<{ readonly now: number }>(`SELECT ${NOW} AS now`)
    return Number(row?.now)
  }

  /** Returns the names of the paused pools. */
  async pausedPools(): Promise<readonly string[]> {
    const rows = await this.query<{ readonly pool: string }>(this.paused)
    return rows.map(({ pool }) => pool)
  }

  async counts(pool: string): Promise<PoolCounts> {
    const [row] = await this.query<Counts>(countsSql(this.rows), [pool])
    const [running, waiting, delayed, oldest] = (['running', 'waiting', 'delayed', 'oldest'] as const)
      .map((name) => Number(row?.[name])) as [number, number, number, number]
    return { running, waiting, delayed, ...waiting > 0 && { oldestWaitingMs: Math.max(oldest, 0) } }
  }
}

/** Returns the number of a status in the table. */
function numberOf(status: ListedStatus): number {
  return status === 'scheduled' || status === 'input_required' ? 0 : STATUSES.indexOf(status)
}

function countsSql(rows: string): string {
  const live = `pool = $1 AND expires_at > ${SAME_NOW}`
  return `WITH ${CLOCK}, queued AS (
  SELECT due_at FROM ${rows} WHERE turn IS NOT NULL AND status = 0 AND ${live}
  UNION ALL SELECT CASE WHEN due_at = 'Infinity' THEN held_due_at ELSE due_at END
  FROM ${rows} WHERE status = 0 AND turn IS NULL AND ${live}
)
SELECT (SELECT count(*) FROM ${rows} WHERE status = 1 AND ${live})::float8 AS running,
  count(*) FILTER (WHERE due_at <= ${SAME_NOW})::float8 AS waiting,
  count(*) FILTER (WHERE due_at > ${SAME_NOW})::float8 AS delayed,
  ${SAME_NOW} - min(due_at) AS oldest FROM queued`
}

/**
 * Returns the statement of a page. It reads the first tasks of each name and status from an index, then
 * merges them. Without names, it finds all names by jumping through the index. They are an array,
 * because PostgreSQL assumes few items of arrays; with more, it would compile the plan, in 50 ms.
 *
 * The inner limit is a subquery, whose value the planner does not know: it would rather read and sort
 * a list of some hundred tasks. The outer limit keeps its estimate low.
 */
function pageSql(rows: string, columns: string, isNewest: boolean, condition: string): string {
  const [compare, bound, direction] = isNewest ? ['<', '>=', 'DESC'] : ['>', '<', 'ASC']
  const order = `created_at ${direction}, id ${direction}`
  const isScheduled = `coalesce(attempt = 0 AND start_at > ${SAME_NOW}, false)`
  return `WITH RECURSIVE ${CLOCK}, known AS (
  (SELECT name FROM ${rows} WHERE $2::text[] IS NULL ORDER BY name LIMIT 1)
  UNION ALL
  SELECT (SELECT name FROM ${rows} WHERE name > known.name ORDER BY name LIMIT 1)
  FROM known WHERE known.name IS NOT NULL
)
SELECT ${columns}
FROM unnest(coalesce($2::text[], ARRAY(SELECT name FROM known WHERE name IS NOT NULL)))
  AS names (name)
CROSS JOIN unnest($1::smallint[]) AS listed (status) CROSS JOIN LATERAL (
  SELECT * FROM (
    SELECT * FROM ${rows}
    WHERE ${condition}name = names.name AND status = listed.status
      AND (created_at, id) ${compare} ($3::float8, $4::text) AND created_at ${bound} $5::float8
      AND expires_at > ${SAME_NOW}
      AND CASE WHEN status > 0 THEN true WHEN ${ASKS} THEN $9::boolean
        WHEN ${isScheduled} THEN $7::boolean ELSE $8::boolean END
    ORDER BY ${order} LIMIT (SELECT $6::bigint)
  ) AS first LIMIT $6
) AS page
ORDER BY page.created_at ${direction}, page.id ${direction} LIMIT $6`
}
