import {
  comparePositions as compare, LISTED_STATUSES, type ListedStatus, type ListPosition, type TaskQuery,
} from '../../src/engine/engine.js'
import { SortedList } from './sorted-list.js'

/** Number of changed tasks that wait to be sorted, so that a task that ends soon is sorted once. */
const MAX_UNSORTED = 1024

export interface Listed extends ListPosition {
  readonly owner: string | undefined
  readonly caller: string | undefined
  readonly name: string
  /** Status in lists; `undefined` for no list. */
  listed: ListedStatus | undefined
  /** Status of the lists that have the task now. */
  sortedAs: ListedStatus | undefined
  isUnsorted: boolean
}

class List<T extends Listed> extends SortedList<T, ListPosition> {
  constructor(readonly name: string, readonly status: ListedStatus) {
    super(compare)
  }
}

type Lists<T extends Listed> = Map<string, List<T>>

/** Lists of tasks by owner, tenant, name, status and time of creation. */
export class TaskLists<T extends Listed> {
  readonly #all: Lists<T> = new Map()
  readonly #byOwner = new Map<string | undefined, Lists<T>>()
  readonly #byTenant = new Map<string, Lists<T>>()
  /** Keys of lists by name and status, because joining the two for each task would be slow. */
  readonly #keys = new Map<string, Readonly<Record<string, string>>>()
  #unsorted: T[] = []

  /** Notes the status of a task. */
  put(task: T, status: ListedStatus): void {
    task.listed = status
    if (task.isUnsorted) return
    task.isUnsorted = true
    if (this.#unsorted.push(task) >= MAX_UNSORTED) this.#sort()
  }

  remove(task: T): void {
    task.listed = undefined
    this.#sortTask(task)
  }

  /** @param isGone - returns true for expired tasks */
  page(
    { of, statuses, names, from, to, order, limit, after }: TaskQuery, isGone: (task: T) => boolean,
  ): T[] {
    this.#sort()
    const lists = of === 'all' ? this.#all
      : 'caller' in of ? this.#byTenant.get(of.caller) : this.#byOwner.get(of.owner)
    const isNewest = order === 'newest'
    const start = { createdAt: from ?? -Infinity, id: '' }
    const end = { createdAt: to ?? Infinity, id: '' }
    const page: T[] = []
    for (const list of lists?.values() ?? []) {
      if (statuses?.includes(list.status) === false || names?.includes(list.name) === false) continue
      const tasks = isNewest ? list.backward(after && compare(after, end) < 0 ? after : end)
        : list.forward(after && compare(after, start) > 0 ? after : start)
      let count = 0
      for (const task of tasks) {
        if (isNewest ? compare(task, start) < 0 : compare(task, end) >= 0) break
        if (isGone(task) || !isNewest && after && compare(task, after) === 0) continue
        page.push(task)
        if (++count === limit) break
      }
    }
    return page.sort(isNewest ? (one, other) => compare(other, one) : compare).slice(0, limit)
  }

  /** Sorts the changed tasks in their order, in which most are appended to their lists. */
  #sort(): void {
    if (this.#unsorted.length === 0) return
    const changed = this.#unsorted.sort(compare)
    this.#unsorted = []
    for (const task of changed) this.#sortTask(task)
  }

  #sortTask(task: T): void {
    const { sortedAs, listed, owner, caller, name } = task
    task.isUnsorted = false
    if (listed === sortedAs) return
    task.sortedAs = listed
    const own = listsIn(this.#byOwner, owner)
    const ofTenant = caller?.startsWith('tenant ') === true ? listsIn(this.#byTenant, caller) : undefined
    let keys = this.#keys.get(name)
    if (keys === undefined) {
      keys = Object.fromEntries(LISTED_STATUSES.map((status) => [status, `${status} ${name}`]))
      this.#keys.set(name, keys)
    }
    const before = sortedAs && keys[sortedAs]
    const after = listed && keys[listed]
    for (const lists of ofTenant === undefined ? [this.#all, own] : [this.#all, own, ofTenant]) {
      if (before !== undefined) {
        const list = lists.get(before)
        list?.remove(task)
        if (list?.first === undefined) lists.delete(before)
      }
      if (listed && after !== undefined) {
        let list = lists.get(after)
        if (list === undefined) lists.set(after, list = new List<T>(name, listed))
        list.add(task)
      }
    }
    if (own.size === 0) this.#byOwner.delete(owner)
    if (ofTenant?.size === 0) this.#byTenant.delete(caller as string)
  }
}

function listsIn<K, T extends Listed>(all: Map<K, Lists<T>>, key: K): Lists<T> {
  let lists = all.get(key)
  if (lists === undefined) all.set(key, lists = new Map<string, List<T>>())
  return lists
}
