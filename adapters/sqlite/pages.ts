import {
  comparePositions, LISTED_STATUSES, type ListPosition, type PoolCounts, type TaskQuery,
} from '../../src/engine/engine.js'
import type { StoredTask } from '../../src/engine/task.js'
import type { SqliteValue } from './client.js'
import type { Database } from './database.js'
import { STATUSES, toTask, type TaskRow } from './rows.js'

/** Conditions on the rows of one list, which has all unfinished tasks, or those of one final status. */
interface List {
  readonly listed: number
  readonly condition: string
}

/** Reads one page. Each list is read from an index, and the lists are merged. */
export function readPage(database: Database, query: TaskQuery): readonly StoredTask[] {
  const { order, limit, omit = [] } = query
  const direction = order === 'newest' ? -1 : 1
  const names = query.names ?? allNames(database)
  const lists = listsOf(query.statuses ?? LISTED_STATUSES, database.now)
  const positions = names.flatMap((name) => lists.flatMap((list) => (
    readList(database, query, name, list)
  )))
  positions.sort((one, other) => direction * comparePositions(one, other))
  const columns = ['details', 'result'].filter((name) => !omit.includes(name as 'details'))
  const sql = omit.length === 0 ? '*' : [...WITHOUT_TEXTS, ...columns].join(', ')
  return positions.slice(0, limit).flatMap(({ rowid }) => (
    database.all<TaskRow>(`SELECT ${sql} FROM longhaul_tasks WHERE rowid = ?`, rowid)
  )).map((row) => toTask({ ...row, details: row.details ?? '{}', result: row.result ?? null }))
}

const WITHOUT_TEXTS = [
  'id', 'birth', 'key', 'owner', 'caller', 'name', 'pool', 'priority', 'status', 'version', 'run',
  'attempt', 'crashes', 'createdAt', 'startAt', 'startedAt', 'runStartedAt', 'finishedAt',
  'expiresAt', 'callbackRun', 'callbackAt',
]

/** Finds the names by jumping through the index. */
function allNames(database: Database): string[] {
  const names: string[] = []
  const next = (): string | undefined => database.first<{ readonly name: string }>(
    'SELECT name FROM longhaul_tasks WHERE name > ? ORDER BY name LIMIT 1', names.at(-1) ?? '',
  )?.name
  for (let name = next(); name !== undefined; name = next()) names.push(name)
  return names
}

function listsOf(statuses: readonly string[], now: number): List[] {
  const lists: List[] = STATUSES.flatMap((status, listed) => (
    listed >= 2 && statuses.includes(status) ? { listed, condition: 'true' } : []
  ))
  const isScheduled = `(status = 0 AND attempt = 0 AND coalesce(startAt, 0) > ${String(now)})`
  const kinds = [
    ...statuses.includes('scheduled') ? [isScheduled] : [],
    ...statuses.includes('queued') ? [`(status = 0 AND NOT ${isScheduled})`] : [],
    ...statuses.includes('processing') ? ['status = 1'] : [],
  ]
  if (kinds.length > 0) lists.push({ listed: 0, condition: `(${kinds.join(' OR ')})` })
  return lists
}

type Position = ListPosition & { readonly rowid: number }

function readList(
  database: Database, { of, from, to, order, limit, after }: TaskQuery, name: string,
  { listed, condition }: List,
): Position[] {
  const isNewest = order === 'newest'
  const conditions = ['name = ?', 'listed = ?', 'expiresAt > ?', condition]
  const values: SqliteValue[] = [name, listed, database.now]
  const add = (sql: string, ...more: SqliteValue[]): void => {
    conditions.push(sql)
    values.push(...more)
  }
  if (of !== 'all') add('owner = ?', of.owner ?? '')
  if (from !== undefined) add('createdAt >= ?', from)
  if (to !== undefined) add('createdAt < ?', to)
  if (after) add(`(createdAt, id) ${isNewest ? '<' : '>'} (?, ?)`, after.createdAt, after.id)
  // What runs is few, and has an index of its own.
  const source = condition === '(status = 1)' ? 'INDEXED BY longhaul_tasks_lease' : ''
  const direction = isNewest ? 'DESC' : 'ASC'
  return database.all<Position>(
    `SELECT rowid, createdAt, id FROM longhaul_tasks ${source} WHERE ${conditions.join(' AND ')}
ORDER BY createdAt ${direction}, id ${direction} LIMIT ?`, ...values, limit,
  )
}

/** Counts the unfinished tasks of a pool. */
export function readCounts(database: Database, pool: string): PoolCounts {
  const { now } = database
  const [row] = database.all<Readonly<Record<'running' | 'ready' | 'due' | 'delayed' | 'since', number>>>(
    `SELECT
  (SELECT count(*) FROM longhaul_tasks WHERE pool = ?1 AND status = 1 AND leaseUntil >= ?2
    AND expiresAt > ?2) AS running,
  (SELECT count(*) FROM longhaul_tasks WHERE pool = ?1 AND turn IS NOT NULL AND expiresAt > ?2)
    AS ready,
  (SELECT count(*) FROM longhaul_tasks WHERE pool = ?1 AND turn IS NULL AND status = 0
    AND dueAt <= ?2 AND expiresAt > ?2) AS due,
  (SELECT count(*) FROM longhaul_tasks WHERE pool = ?1 AND turn IS NULL AND status = 0
    AND dueAt > ?2 AND expiresAt > ?2) AS delayed,
  (SELECT min(dueAt) FROM longhaul_tasks WHERE pool = ?1 AND status = 0 AND expiresAt > ?2) AS since`,
    pool, now,
  )
  const { running, ready, due, delayed, since } = row as NonNullable<typeof row>
  const waiting = Number(ready) + Number(due)
  return {
    running: Number(running), waiting, delayed: Number(delayed),
    ...waiting > 0 && { oldestWaitingMs: Math.max(now - since, 0) },
  }
}
