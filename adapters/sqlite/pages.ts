import {
  comparePositions, LISTED_STATUSES, type ListPosition, type PoolCounts, type TaskQuery,
} from '../../src/engine/engine.js'
import type { StoredTask } from '../../src/engine/task.js'
import type { SqliteValue } from './client.js'
import type { Database } from './database.js'
import { STATUSES, toTask, type TaskRow } from './rows.js'

/** Conditions on the rows of one list. */
interface List {
  readonly condition: Condition
  /** Index of the list, if SQLite would not choose it. */
  readonly index?: string
  /** Default: all names. */
  readonly names: readonly string[] | undefined
}

type Condition = readonly [sql: string, ...values: number[]]

/** Reads one page. Each list is read from an index, and the lists are merged. */
export function readPage(database: Database, query: TaskQuery): readonly StoredTask[] {
  const { order, limit, omit = [] } = query
  const direction = order === 'newest' ? -1 : 1
  const positions = listsOf(database, query).flatMap((list) => readList(database, query, list))
  positions.sort((one, other) => direction * comparePositions(one, other))
  const columns = ['details', 'result'].filter((name) => !omit.includes(name as 'details'))
  const sql = omit.length === 0 ? '*' : [...WITHOUT_TEXTS, ...columns].join(', ')
  return positions.slice(0, limit).flatMap(({ rowid }) => (
    database.all<TaskRow>(`SELECT ${sql} FROM longhaul_tasks WHERE rowid = ?`, rowid)
  )).map((row) => toTask({ ...row, details: row.details ?? '{}', result: row.result ?? null }))
}

const WITHOUT_TEXTS = [
  'id', 'birth', 'key', 'owner', 'caller', 'name', 'pool', 'priority', 'status', 'listed', 'version', 'run',
  'attempt', 'crashes', 'createdAt', 'startAt', 'startedAt', 'runStartedAt', 'finishedAt',
  'expiresAt', 'callbackRun', 'callbackAt',
]

/** Finds the names of tasks that do not run, by jumping through the index. */
function allNames(database: Database): string[] {
  const names: string[] = []
  const next = (): string | undefined => database.first<{ readonly name: string }>(
    'SELECT name FROM longhaul_tasks WHERE status <> 1 AND name > ? ORDER BY name LIMIT 1', names.at(-1) ?? '',
  )?.name
  for (let name = next(); name !== undefined; name = next()) names.push(name)
  return names
}

/** Returns a list of what runs, which is little, and lists for each other status and name. */
function listsOf(database: Database, { statuses = LISTED_STATUSES, names }: TaskQuery): List[] {
  const conditions: Condition[] = STATUSES.flatMap((name, listed) => (
    listed >= 2 && statuses.includes(name) ? [[`listed = ${String(listed)}`]] : []
  ))
  const [isScheduled, isQueued] = [statuses.includes('scheduled'), statuses.includes('queued')]
  if (isScheduled && isQueued) conditions.push(['listed = 0'])
  else if (isScheduled) conditions.push([`listed = 0 AND ${IS_SCHEDULED}`, database.now])
  else if (isQueued) conditions.push([`listed = 0 AND NOT ${IS_SCHEDULED}`, database.now])
  const named = names ?? (conditions.length > 0 ? allNames(database) : [])
  const lists: List[] = named.flatMap((name) => conditions.map(([condition, ...values]) => (
    { condition: [`status <> 1 AND ${condition}`, ...values], names: [name] }
  )))
  if (statuses.includes('processing')) {
    lists.push({ condition: ['status = 1'], index: 'longhaul_tasks_lease', names })
  }
  return lists
}

const IS_SCHEDULED = '(attempt = 0 AND coalesce(startAt, 0) > ?)'

type Position = ListPosition & { readonly rowid: number }

function readList(
  database: Database, { of, from, to, order, limit, after }: TaskQuery, { condition, index, names }: List,
): Position[] {
  const isNewest = order === 'newest'
  const [first, ...bound] = condition
  const conditions = [first, 'expiresAt > ?']
  const values: SqliteValue[] = [...bound, database.now]
  const add = (sql: string, ...more: SqliteValue[]): void => {
    conditions.push(sql)
    values.push(...more)
  }
  if (names) add(`name IN (${names.map(() => '?').join(', ')})`, ...names)
  // The second condition is that of the index.
  if (of !== 'all' && 'caller' in of) add('caller = ? AND caller GLOB \'tenant *\'', of.caller)
  else if (of !== 'all') add('owner = ?', of.owner ?? '')
  // After the first page, the position bounds the index. The plus keeps SQLite from another bound.
  if (from !== undefined) add(`${after && !isNewest ? '+' : ''}createdAt >= ?`, from)
  if (to !== undefined) add(`${after && isNewest ? '+' : ''}createdAt < ?`, to)
  if (after) add(`(createdAt, id) ${isNewest ? '<' : '>'} (?, ?)`, after.createdAt, after.id)
  const source = index === undefined ? '' : `INDEXED BY ${index}`
  const direction = isNewest ? 'DESC' : 'ASC'
  return database.all<Position>(
    `SELECT rowid, createdAt, id FROM longhaul_tasks ${source} WHERE ${conditions.join(' AND ')}
ORDER BY createdAt ${direction}, id ${direction} LIMIT ?`, ...values, limit,
  )
}

/** Counts the unfinished tasks of a pool. Tasks that wait are counted in an index, without their rows. */
export function readCounts(database: Database, pool: string): PoolCounts {
  const { now } = database
  const ready = count(database, pool, [READY, 'turn IS NOT NULL'])
  const held = count(database, pool, ['longhaul_tasks_held', 'held IS NOT NULL'])
  const due = count(database, pool, [DUE, 'turn IS NULL AND held IS NULL AND status = 0 AND dueAt <= ?', now])
  const delayed = count(database, pool, [DUE, 'turn IS NULL AND held IS NULL AND status = 0 AND dueAt > ?', now])
  const running = count(database, pool, ['longhaul_tasks_lease', 'status = 1 AND leaseUntil >= ?', now])
  const waiting = ready.count + held.count + due.count
  return {
    running: running.count, waiting, delayed: delayed.count,
    ...waiting > 0 && { oldestWaitingMs: Math.max(now - Math.min(ready.since, held.since, due.since), 0) },
  }
}

const READY = 'longhaul_tasks_turn'
const DUE = 'longhaul_tasks_due'

/** Counts the rows of an index. `since` is the time at which the first of them became due. */
function count(
  database: Database, pool: string, [index, condition, ...values]: [string, string, ...number[]],
): { readonly count: number, readonly since: number } {
  const read = (source: string, more: string, ...bounds: number[]) => {
    const [row] = database.all<{ readonly count: number, readonly since: number | null }>(
      `SELECT count(*) AS count, min(dueAt) AS since FROM longhaul_tasks INDEXED BY ${source}
WHERE pool = ? AND ${condition} ${more}`, pool, ...values, ...bounds,
    )
    return { count: Number(row?.count), since: row?.since ?? Infinity }
  }
  const all = read(index, '')
  // What has expired is removed soon, so it is little. What runs is little, too.
  const { now } = database
  const expired = read('longhaul_tasks_expiry', 'AND status <> 1 AND expiresAt <= ?', now).count
    + read('longhaul_tasks_lease', 'AND status = 1 AND expiresAt <= ?', now).count
  return { count: all.count - expired, since: all.since }
}
