import type { TaskEngine, TaskQuery } from '../../engine/engine.js'
import { readCursor, toCursor, type ListFilter } from '../lists.js'
import type { TaskSnapshot } from '../record/snapshot.js'
import { toSnapshot } from '../record/snapshot.js'

/** Maximum number of tasks that are read together. */
const READ_TOGETHER = 64
/**
 * Length of the tasks after which a page ends, in UTF-16 units. A result may have a megabyte, so 200
 * tasks would have 200.
 */
const MAX_LENGTH = 4 * 1024 * 1024

/** A page of tasks. */
export interface SnapshotPage {
  readonly items: TaskSnapshot[]
  /** Cursor of the next page; `undefined` on the last one. */
  readonly next: string | undefined
}

/**
 * Returns a page of tasks, up to the limit of the filter. A page of long tasks ends early, at
 * `MAX_LENGTH`.
 *
 * @throws {HttpError} 400 `invalid_cursor`
 */
export async function listTasks(
  engine: TaskEngine, filter: ListFilter, cursor: string | undefined,
): Promise<SnapshotPage> {
  let after: TaskQuery['after'] = cursor === undefined ? undefined : readCursor(cursor, filter)
  const items: TaskSnapshot[] = []
  let length = 0
  for (;;) {
    // One more than is shown, which tells whether there is another page.
    const limit = Math.min(filter.limit + 1 - items.length, READ_TOGETHER)
    const tasks = await engine.list({ ...filter, limit, after })
    for (const task of tasks) {
      const item = toSnapshot(task)
      const last = items.at(-1)
      length += item.text.length
      if (last && (items.length === filter.limit || length > MAX_LENGTH)) {
        return { items, next: toCursor(last, filter) }
      }
      items.push(item)
    }
    if (tasks.length < limit) return { items, next: undefined }
    after = tasks.at(-1)
  }
}
