import type { TaskStatus } from '../status.js'

/** Options of `tasks`. */
export interface TaskListOptions {
  /** Only tasks of this status, or of one of these, in the words of the server. Default: all. */
  readonly status?: string | readonly string[]
  /** Only tasks of the definition with this name, or of one of these. Default: all. */
  readonly task?: string | readonly string[]
  /** Only tasks created at this time or later. A text is a time of RFC 3339. Default: no limit. */
  readonly from?: Date | string
  /** Only tasks created before this time. Default: no limit. */
  readonly to?: Date | string
  /** Order of creation. Default: that of the server, the newest task first. */
  readonly order?: 'newest' | 'oldest'
  /** Maximum number of tasks of a page. Default: that of the server, 50. */
  readonly limit?: number
  /** Stops reading. */
  readonly signal?: AbortSignal
  /** Additional header fields. */
  readonly headers?: Readonly<Record<string, string>>
  /**
   * Path of the status resource, with `{id}` for the identifier. Required if the status resource is
   * not below the path of the list and the items do not name it.
   * @default the path of the list, followed by `/{id}`
   */
  readonly statusPath?: string
}

/** A task in a list. `client.resume` makes a handle of it. */
export type ListedTask<R = unknown> = TaskStatus<R> & {
  /** Absolute URL of the status resource. */
  readonly statusUrl: string
}

/** A page of tasks. */
export interface TaskPage<R = unknown> {
  readonly items: readonly ListedTask<R>[]
  /** Absolute URL of the next page. Absent on the last one. */
  readonly next?: string
}

/** A list of tasks. Iterating yields all tasks, page after page. Each iteration starts anew. */
export interface TaskList<R = unknown> extends AsyncIterable<ListedTask<R>> {
  /**
   * Reads one page: the first, or that of `next` of another page.
   *
   * @example
   * const list = api.tasks('/tasks', { limit: 20 })
   * const { items, next } = await list.page()
   * if (next !== undefined) console.log(items.length, (await list.page(next)).items.length)
   */
  page(next?: string): Promise<TaskPage<R>>
  /**
   * Yields all pages.
   *
   * @example
   * for await (const { items } of api.tasks('/tasks').pages()) console.log(items.length)
   */
  pages(): AsyncGenerator<TaskPage<R>, void, undefined>
}
