import { ClientError } from '../errors.js'
import { isObject } from '../json-object.js'
import { checkNames } from '../option-names.js'
import { resolvePath, serverUrl, type Settings } from '../options.js'
import { idOf, readStatus, textOf } from '../status.js'
import { ask } from '../transport.js'
import type { ListedTask, TaskList, TaskListOptions, TaskPage } from './types.js'

const KNOWN = {
  status: 0, task: 0, from: 0, to: 0, order: 0, limit: 0, signal: 0, headers: 0, statusPath: 0,
} satisfies Record<keyof TaskListOptions, 0>

/** Implements `Client.tasks`. */
export function listTasks<R>(
  settings: Settings, path: string, options: TaskListOptions,
): TaskList<R> {
  checkNames('tasks', options, KNOWN)
  const { signal, headers, statusPath, ...filter } = options
  const first = resolvePath(settings, path)
  for (const [name, value] of Object.entries(filter)) {
    if (value === undefined) continue
    first.searchParams.set(name, value instanceof Date ? value.toISOString() : String(value))
  }
  const page = async (next?: string): Promise<TaskPage<R>> => {
    const url = next === undefined ? first : serverUrl(next, first)
    const call = { url, origin: first.origin, signal, headers: { accept: 'application/json', ...headers } }
    const { json, status, url: base } = await ask(settings, 'read', call)
    const { items, next: following } = isObject(json) ? json : {}
    if (!Array.isArray(items)) {
      throw new ClientError('bad_answer', 'The answer is not a list.', { status, body: json })
    }
    const more = textOf(following)
    return {
      items: items.map((item) => toListed<R>(item, base, statusUrlOf)),
      ...more !== undefined && { next: serverUrl(more, base).href },
    }
  }
  const statusUrlOf = (id: string): string => {
    const name = encodeURIComponent(id)
    if (statusPath !== undefined) {
      return resolvePath(settings, statusPath.replace('{id}', name)).href
    }
    return new URL(`${first.pathname.replace(/\/$/, '')}/${name}`, first).href
  }
  const pages = async function* (): AsyncGenerator<TaskPage<R>, void, undefined> {
    for (let next: string | undefined; ;) {
      const now = await page(next)
      yield now
      next = now.next
      if (next === undefined) return
    }
  }
  return {
    page, pages,
    async* [Symbol.asyncIterator]() {
      for await (const { items } of pages()) yield* items
    },
  }
}

function toListed<R>(
  item: unknown, base: string, statusUrlOf: (id: string) => string,
): ListedTask<R> {
  const task = readStatus<R>(item)
  const url = task && textOf(task.body['statusUrl'])
  const id = task && idOf(task.body)
  if (task && url !== undefined) return { ...task, statusUrl: serverUrl(url, base).href }
  if (task && id !== undefined) return { ...task, statusUrl: statusUrlOf(id) }
  throw new ClientError('bad_answer', 'An item of the list is not a task.', { body: item })
}
