import type { ListedStatus, ListedTask } from '../../stores/task-index.js'
import type { TaskRecord } from './record.js'

/** Shortest lifetime of a list entry, in milliseconds, because clocks of processes differ. */
const MIN_TTL_MS = 60_000

/** The members of a record that lists need. */
type Listed = Pick<
  TaskRecord,
  'id' | 'owner' | 'name' | 'state' | 'attempt' | 'createdAt' | 'startAt' | 'version' | 'expiresAt'
>

/** Returns the list entry of a record at the time `now`. */
export function toListed(record: Listed, now = Date.now()): ListedTask {
  const { id, owner, name, createdAt, version, expiresAt } = record
  const ttlMs = Math.max(expiresAt - now, MIN_TTL_MS)
  return { id, owner, name, status: statusAt(record, now), createdAt, version, ttlMs }
}

/** Returns the status of a task in lists. A task with a later start is `scheduled` until then. */
export function statusAt(
  { state, startAt, attempt }: Pick<Listed, 'state' | 'startAt' | 'attempt'>, now: number,
): ListedStatus {
  const isLater = state === 'queued' && attempt === 0 && startAt !== undefined && startAt > now
  return isLater ? 'scheduled' : state
}
