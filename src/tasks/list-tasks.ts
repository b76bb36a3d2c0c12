import type { ListEntry, ListPosition, TaskIndex } from '../stores/task-index.js'
import { readCursor, toCursor } from './list-cursor.js'
import type { ListFilter } from './list-options.js'
import { bodyOf } from './record/view.js'
import type { TaskSnapshot } from './record/codec.js'
import { toListed } from './record/listed.js'

/**
 * Maximum number of reads of the index for one page. A page has fewer tasks than its limit if too
 * many entries were out of date.
 */
const MAX_READS = 8

/** Maximum number of records that are read together. */
const READ_TOGETHER = 64

/**
 * Length of the records after which a page ends, in UTF-16 units. A result may have a megabyte, so
 * 200 records would have 200.
 */
const MAX_LENGTH = 4 * 1024 * 1024

/** A page of stored tasks. */
export interface SnapshotPage {
  readonly items: TaskSnapshot[]
  /** Cursor of the next page; `undefined` on the last one. */
  readonly next: string | undefined
}

/** Lists tasks: their order from an index, and everything else from their records. */
export class TaskLister {
  /** @param read - reads the records of some ids, together */
  constructor(
    private readonly index: TaskIndex | undefined,
    private readonly read: (ids: readonly string[]) => Promise<(TaskSnapshot | undefined)[]>,
  ) {}

  /**
   * Returns the index.
   *
   * @throws {TypeError} `createTasks` has no index.
   */
  indexFor(where: string): TaskIndex {
    if (this.index) return this.index
    throw new TypeError(`${where}: createTasks has no index, so it cannot list tasks; ` +
      'spread an engine such as memory() or redis() into its options, or pass index')
  }

  /**
   * Returns a page of tasks, up to the limit of the filter. A page of long tasks ends early, at
   * `MAX_LENGTH`. Corrects entries of the index that differ from their records.
   *
   * @throws {HttpError} 400 `invalid_cursor`
   * @throws {TypeError} `createTasks` has no index.
   */
  async page(where: string, filter: ListFilter, cursor: string | undefined): Promise<SnapshotPage> {
    const index = this.indexFor(where)
    let after: ListPosition | undefined = cursor === undefined
      ? undefined
      : readCursor(cursor, filter)
    const items: TaskSnapshot[] = []
    let length = 0
    for (let reads = 0; reads < MAX_READS; reads++) {
      // One more than is shown, which tells whether there is another page.
      const limit = Math.min(filter.limit + 1 - items.length, READ_TOGETHER)
      const entries = await index.list({ ...filter, limit, after })
      for (const task of await this.current(index, entries, filter)) {
        const last = items.at(-1)
        length += task.text.length
        if (last && (items.length === filter.limit || length > MAX_LENGTH)) {
          return { items, next: toCursor(last, filter) }
        }
        items.push(task)
      }
      if (entries.length < limit) return { items, next: undefined }
      after = entries.at(-1)
    }
    return { items, next: after && toCursor(after, filter) }
  }

  /** Reads the tasks of some entries. Corrects the entries that are out of date, and omits them. */
  private async current(
    index: TaskIndex, entries: readonly ListEntry[], filter: ListFilter,
  ): Promise<TaskSnapshot[]> {
    const found = await this.read(entries.map(({ id }) => id))
    const gone: ListEntry[] = []
    const items = entries.flatMap((entry, at) => {
      const task = found[at]
      const current = task && listedOf(task)
      if (!current || !isSameTask(current, entry)) {
        gone.push(entry)
        return []
      }
      if (current.status === entry.status) return [task]
      index.putSoon(current)
      return filter.statuses && !filter.statuses.includes(current.status) ? [] : [task]
    })
    // The reader need not know that entries could not be dropped.
    if (gone.length > 0) await Promise.resolve(index.drop(gone)).catch(() => undefined)
    return items
  }
}

function listedOf(task: TaskSnapshot): ReturnType<typeof toListed> {
  const { task: name, attempt = 0 } = bodyOf(task)
  return toListed({ ...task, name, attempt })
}

/** Returns whether an entry is of this task, not of an earlier one under the same id. */
function isSameTask(one: ListEntry, other: ListEntry): boolean {
  return one.owner === other.owner && one.name === other.name && one.createdAt === other.createdAt
}
