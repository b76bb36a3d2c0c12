import type { CursorPage } from '../wire/pages.js'
import { checkNames, ClientError, unchecked } from './errors.js'
import { resolvePath, serverUrl, statusUrl, type CallOptions, type Settings } from './options.js'
import { ask } from './retry.js'
import { idOf, readStatus, stringOf, type TaskStatus } from './status.js'

/** Options of `tasks`. */
export interface TaskListOptions extends Pick<CallOptions, 'signal' | 'headers'> {
  /** Only tasks of this status, or of one of these, in the words of the server. Default: all. */
  readonly status?: string | readonly string[]
  /** Only tasks of the definition with this name, or of one of these. Default: all. */
  readonly task?: string | readonly string[]
  /** Only tasks created at this time or later. A string is a time of RFC 3339. Default: no limit. */
  readonly from?: Date | string
  /** Only tasks created before this time. Default: no limit. */
  readonly to?: Date | string
  /** Order of creation. Default: `newest`, as on the server. */
  readonly order?: 'newest' | 'oldest'
  /** Maximum number of tasks in a page. Default: 50, the default of the server. */
  readonly limit?: number
  /**
   * Path of the status resource, with `{id}` for the identifier. Default: the path of the list,
   * followed by `/{id}`. Items that name their resource need none.
   */
  readonly statusPath?: string
}

/** A task in a list. `client.resume` makes a handle of it. */
export type ListedTask<R = unknown> = TaskStatus<R> & {
  /** Absolute URL of the status resource. */
  readonly statusUrl: string
}

/** A page of tasks. */
export interface TaskPage<R = unknown> extends CursorPage<ListedTask<R>> {
  /** Absolute URL of the next page. Absent on the last one. */
  readonly next?: string
}

/** A list of tasks. Iterating yields all tasks, page after page. Each iteration starts anew. */
export interface TaskList<R = unknown> extends AsyncIterable<ListedTask<R>> {
  /**
   * Reads the first page, or that of `next` of another page.
   * @example
   * const list = api.tasks('/tasks', { limit: 20 })
   * const { items, next } = await list.page()
   * if (next !== undefined) console.log(items.length, (await list.page(next)).items.length)
   */
  page(next?: string): Promise<TaskPage<R>>
}

export function listTasks<R>(
  settings: Settings, path: string, options: TaskListOptions,
): TaskList<R> {
  checkNames('tasks', options, [
    'status', 'task', 'from', 'to', 'order', 'limit', 'signal', 'headers', 'statusPath',
  ])
  const { signal, headers, statusPath, ...filter } = options
  const first = resolvePath(settings, path)
  for (const [name, value] of Object.entries(filter)) {
    if (value === undefined) continue
    first.searchParams.set(name, value instanceof Date ? value.toISOString() : String(value))
  }
  const page = async (next?: string): Promise<TaskPage<R>> => {
    const url = next === undefined ? first : serverUrl(next, first)
    const call = {
      url, origin: first.origin, signal, headers: { accept: 'application/json', ...headers },
    }
    const { json, status, url: base } = await ask(settings, 'read', call)
    const { items, next: following } = unchecked<CursorPage<unknown>>(json)
    if (!Array.isArray(items)) {
      throw new ClientError('bad_answer', 'The response is not a list.', { status, body: json })
    }
    const more = stringOf(following)
    return {
      items: items.map((item) => toListed<R>(item, base, statusUrlOf)),
      ...more !== undefined && { next: serverUrl(more, base).href },
    }
  }
  const statusUrlOf = (id: string): string => {
    if (statusPath !== undefined) return statusUrl(settings, statusPath, id).href
    return new URL(`${first.pathname.replace(/\/$/, '')}/${encodeURIComponent(id)}`, first).href
  }
  return {
    page,
    async* [Symbol.asyncIterator]() {
      for (let next: string | undefined; ;) {
        const now = await page(next)
        yield* now.items
        next = now.next
        if (next === undefined) return
      }
    },
  }
}

function toListed<R>(
  item: unknown, base: string, statusUrlOf: (id: string) => string,
): ListedTask<R> {
  const task = readStatus<R>(item)
  const url = task && stringOf(task.body['statusUrl'])
  const id = task && idOf(task.body)
  if (task && url !== undefined) return { ...task, statusUrl: serverUrl(url, base).href }
  if (task && id !== undefined) return { ...task, statusUrl: statusUrlOf(id) }
  throw new ClientError('bad_answer', 'An item of the list is not a task.', { body: item })
}
