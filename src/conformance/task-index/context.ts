import type { ListEntry, ListedTask, ListQuery, TaskIndex } from '../../stores/task-index.js'
import { eventually } from '../waiting.js'

/** One hour in milliseconds. */
export const HOUR = 3_600_000

/** A fresh, empty index for one test. */
export interface TaskIndexFixture {
  readonly index: TaskIndex
  /** Second index on the same data, as in another process. */
  readonly second?: TaskIndex
  /** Cleans up after the test. Default: does nothing. */
  readonly close?: () => Promise<void> | void
}

/** Options of `taskIndexConformance`. */
export interface TaskIndexConformanceOptions {
  /** Title of the suite. Default: `TaskIndex conformance`. */
  readonly title?: string
  /** Time limit for each expected event, in milliseconds. Default 5000. */
  readonly timeoutMs?: number
}

/** A task to put: an id, and what differs from the defaults. */
export type TaskOf = Partial<ListedTask> & Pick<ListedTask, 'id'>

/** The indexes of one test. */
export class Context {
  readonly index: TaskIndex
  readonly second: TaskIndex
  readonly timeoutMs: number

  constructor(
    private readonly fixture: TaskIndexFixture,
    { timeoutMs = 5000 }: TaskIndexConformanceOptions,
  ) {
    this.index = fixture.index
    this.second = fixture.second ?? fixture.index
    this.timeoutMs = timeoutMs
  }

  /** Takes entries until there are at least `count`. */
  async taken(count: number): Promise<string[]> {
    const entries: string[] = []
    await eventually(
      async () => {
        entries.push(...(await this.second.take(100, HOUR)))
        return entries.length >= count
      },
      this.timeoutMs,
      `${String(count)} entries are due`,
    )
    return entries
  }

  /** Puts tasks, one after the other. */
  async put(...tasks: readonly TaskOf[]): Promise<void> {
    for (const task of tasks) await this.index.put(listedTask(task))
  }

  /** Returns the ids of a page that the second index reads. */
  async ids(query: Partial<ListQuery> = {}): Promise<string[]> {
    return (await this.entries(query)).map(({ id }) => id)
  }

  /** Returns a page that the second index reads. */
  async entries(query: Partial<ListQuery> = {}): Promise<ListEntry[]> {
    return this.second.list({ of: 'all', order: 'newest', limit: 100, ...query })
  }

  /** Reads all pages of a query. Calls `between` after each. */
  async pages(query: Partial<ListQuery>, between: () => Promise<void>): Promise<string[]> {
    const ids: string[] = []
    for (let after: ListEntry | undefined; ;) {
      const page = await this.entries({ limit: 7, ...query, after })
      if (page.length === 0) return ids
      ids.push(...page.map(({ id }) => id))
      after = page.at(-1)
      await between()
    }
  }

  async end(): Promise<void> {
    await this.fixture.close?.()
  }
}

/** Returns a task to put, with defaults. */
export function listedTask(task: TaskOf): ListedTask {
  return {
    owner: 'ann', name: 'report', status: 'queued', createdAt: 1000, version: 1, ttlMs: HOUR, ...task,
  }
}
