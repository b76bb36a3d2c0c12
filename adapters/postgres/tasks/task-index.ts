import { IndexWrites, isNewer, type IndexBatch } from '../../../src/stores/index-writes.js'
import {
  TASK_KEY, type ListEntry, type ListedTask, type ListQuery, type TaskIndex,
  type TransactionIndex, type Unlisted,
} from '../../../src/stores/task-index.js'
import type { Transaction } from '../../../src/stores/transaction.js'
import { checkText } from '../check-text.js'
import type { Database } from '../database.js'
import { queryOf } from '../transaction.js'
import type { FirstWrites } from './first-writes.js'
import { TaskSql } from './task-sql.js'

/** Maximum length of an owner. An index of PostgreSQL holds at most 2700 bytes of a row. */
const MAX_OWNER_LENGTH = 512
/** Time after which a task is put again whose row was locked, in milliseconds. */
const LOCKED_MS = 200
/** Number of stored tasks that the scan looks at for each id that it may return. */
const SCANNED_PER_ID = 10

/**
 * Task index on PostgreSQL 13 or later. Made by `postgres()`. Writes of one turn of the event loop
 * are one statement. What is written when a task is accepted travels with its record, in the
 * statement of `FirstWrites`. Expired tasks are deleted together with expired entries of the store.
 */
export class PostgresTaskIndex implements TaskIndex {
  readonly shared: boolean
  private readonly sql: TaskSql
  private readonly writes: IndexWrites
  /** Key of the last task that the scan has looked at. */
  private scanned: string = TASK_KEY

  /** @internal */
  constructor(private readonly database: Database, private readonly firstWrites: FirstWrites) {
    this.shared = database.shared
    this.sql = new TaskSql(database.schema)
    this.writes = new IndexWrites((batch) => this.write(batch))
  }

  async add(entry: string, afterMs: number): Promise<void> {
    checkText(entry)
    this.writes.keep(entry)
    return this.firstWrites.add({ entry, afterMs })
  }

  async restore(entry: string, afterMs: number): Promise<void> {
    checkText(entry)
    return this.writes.restore(entry, afterMs)
  }

  remove(entry: string): void {
    this.writes.remove(entry)
  }

  take(limit: number, againMs: number): Promise<string[]> {
    return this.sql.take(this.database.query, limit, againMs)
  }

  async put(task: ListedTask): Promise<void> {
    checkTask(task)
    return task.version === 1 ? this.firstWrites.put(task) : this.writes.put(task)
  }

  putSoon(task: ListedTask): void {
    // Tasks that cannot be stored would make the others of the batch fail.
    if (isStorable(task)) this.writes.putSoon(task)
  }

  drop(tasks: readonly ListEntry[]): Promise<void> {
    return this.writes.drop(tasks)
  }

  async list(query: ListQuery): Promise<ListEntry[]> {
    await Promise.all([this.firstWrites.settle(), this.writes.settle()])
    return this.sql.page(this.database.repeated, query)
  }

  async unlisted(limit: number): Promise<Unlisted> {
    const rows = await this.sql.unlisted(this.database.background, this.scanned, limit * SCANNED_PER_ID)
    // The ids beyond the limit are found by the next call.
    const lost = rows.filter((row) => row.is_lost).slice(0, limit)
    const isCut = lost.length === limit
    const isAtEnd = rows.length < limit * SCANNED_PER_ID
    const last = isCut ? lost.at(-1) : rows.at(-1)
    this.scanned = !last || (isAtEnd && !isCut) ? TASK_KEY : last.key
    return { ids: lost.map(({ id }) => id), isUrgent: lost.length > 0 && this.scanned !== TASK_KEY }
  }

  within(transaction: Transaction): TransactionIndex {
    const query = queryOf(transaction)
    return {
      add: (entry, afterMs) => {
        checkText(entry)
        return this.sql.write(query, [{ entry, afterMs }], [], []).then(() => undefined)
      },
      put: (task) => {
        checkTask(task)
        return this.sql.write(query, [], [task], []).then(() => undefined)
      },
    }
  }

  private async write({ added, restored, removed, put, dropped }: IndexBatch): Promise<void> {
    const query = this.database.repeated
    if (dropped.length > 0) await this.sql.drop(query, dropped)
    if (restored.length > 0) await this.sql.restore(query, restored)
    if (added.length + put.length + removed.length > 0) {
      const tasks = newestOf(put)
      const skipped = await this.sql.write(query, added, tasks, removed)
      if (skipped.size > 0) this.putLater(tasks.filter(({ id }) => skipped.has(id)))
    }
  }

  /** Puts tasks whose rows another transaction has locked. */
  private putLater(tasks: readonly ListedTask[]): void {
    setTimeout(() => {
      for (const task of tasks) this.putSoon(task)
    }, LOCKED_MS).unref()
  }
}

/** Returns the newest task of each id. An id has one row, whoever its owners were. */
function newestOf(tasks: readonly ListedTask[]): ListedTask[] {
  const byId = new Map<string, ListedTask>()
  for (const task of tasks) {
    const other = byId.get(task.id)
    if (!other || !isNewer(other, task)) byId.set(task.id, task)
  }
  return [...byId.values()]
}

function checkTask({ id, owner, name }: ListedTask): void {
  checkText(id, owner, name)
  if (owner === undefined || owner.length <= MAX_OWNER_LENGTH) return
  throw new TypeError(`The owner of a task must have at most ${MAX_OWNER_LENGTH} characters`)
}

function isStorable(task: ListedTask): boolean {
  try {
    checkTask(task)
    return true
  } catch {
    return false
  }
}
