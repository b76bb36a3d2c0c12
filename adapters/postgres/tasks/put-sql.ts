import { LISTED_STATUSES, type ListedTask } from '../../../src/stores/task-index.js'
import { expiry, MAX_TTL_MS, slot } from '../lifetime.js'

/** The version is a 32-bit integer. */
const MAX_VERSION = 2_147_483_647

/** Columns of the values of `putValues`, without the lifetime, and their types. */
const COLUMNS = {
  id: 'text', owner: 'text', name: 'text', status: 'smallint', version: 'integer',
  created_at: 'bigint',
} as const
const NAMES = Object.keys(COLUMNS).join(', ')

/** Returns the arrays from which `putSql` makes rows. */
export function putValues(tasks: readonly ListedTask[]): unknown[][] {
  return [
    tasks.map(({ id }) => id), tasks.map(({ owner }) => owner ?? ''),
    tasks.map(({ name }) => name), tasks.map(({ status }) => LISTED_STATUSES.indexOf(status)),
    tasks.map(({ version }) => Math.min(version, MAX_VERSION)),
    tasks.map(({ createdAt }) => createdAt),
    tasks.map(({ ttlMs }) => Math.min(ttlMs, MAX_TTL_MS)),
  ]
}

/** Returns SQL of the rows of `putValues`, whose first parameter is `$first`. */
export function putRows(first: number): string {
  const types = [...Object.values(COLUMNS), 'float8']
  const arrays = types.map((type, at) => `$${String(first + at)}::${type}[]`).join(', ')
  return `unnest(${arrays}) AS put (${NAMES}, ms)`
}

/**
 * Returns the statement that puts rows into the lists. Never replaces a newer entry. Rows are
 * written in the order of their keys, so that two statements never wait for each other.
 *
 * @param tasks - name of the table
 * @param first - number of the first parameter of `putValues`
 * @param condition - of the rows to put
 */
export function putSql(tasks: string, first: number, condition = 'true'): string {
  const isSame = '(excluded.created_at, excluded.version) = (old.created_at, old.version)'
  return `INSERT INTO ${tasks} AS old (${NAMES}, expires_at, sweep_slot)
SELECT ${NAMES}, ${expiry('ms')}, ${slot(expiry('ms'))} FROM ${putRows(first)}
WHERE ${condition} ORDER BY id
ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, name = excluded.name,
  status = excluded.status, version = excluded.version, created_at = excluded.created_at,
  expires_at = CASE WHEN ${isSame} THEN greatest(old.expires_at, excluded.expires_at)
    ELSE excluded.expires_at END,
  sweep_slot = CASE WHEN ${isSame} THEN greatest(old.sweep_slot, excluded.sweep_slot)
    ELSE excluded.sweep_slot END
WHERE (excluded.created_at, excluded.version) > (old.created_at, old.version)
  OR ${isSame} AND (excluded.status <> old.status OR excluded.sweep_slot > old.sweep_slot)`
}
