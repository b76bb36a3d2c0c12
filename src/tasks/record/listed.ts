import type { ListedStatus } from '../../engine/engine.js'
import type { TaskSnapshot } from './snapshot.js'

/** Returns the status of a task in lists. A task with a later start is `scheduled` until then. */
export function statusAt(
  { state, startAt, attempt }: Pick<TaskSnapshot, 'state' | 'startAt' | 'attempt'>, now: number,
): ListedStatus {
  const isLater = state === 'queued' && attempt === 0 && startAt !== undefined && startAt > now
  return isLater ? 'scheduled' : state
}
