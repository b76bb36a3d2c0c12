import {
  comparePositions as compare, type ListedStatus, type TaskQuery,
} from '../../../src/engine/engine.js'
import { best, earlier, Head, later } from '../list-heads.js'
import { SortedTasks } from '../sorted-tasks.js'

/**
 * Number of changed tasks that wait to be sorted. A task that ends soon is then sorted once, with
 * its final status.
 */
const MAX_UNSORTED = 1024

/** A task as the lists see it. */
export interface Listed {
  readonly id: string
  readonly createdAt: number
  readonly owner: string | undefined
  readonly name: string
  /** Lists that the task is sorted into at present, and those that it belongs to. */
  sortedAs: Kind | undefined
  kind: Kind | undefined
  isUnsorted: boolean
}

/** A name and a status. There is one object for each pair. */
export interface Kind {
  readonly name: string
  readonly status: ListedStatus
}

type Lists<T extends Listed> = Map<Kind, SortedTasks<T>>

/** Lists of tasks by owner, name, status and time of creation. */
export class TaskLists<T extends Listed> {
  readonly #all: Lists<T> = new Map()
  readonly #byOwner = new Map<string | undefined, Lists<T>>()
  readonly #kinds = new Map<string, Map<ListedStatus, Kind>>()
  #unsorted: T[] = []

  /** Notes the status of a task. */
  put(task: T, status: ListedStatus): void {
    task.kind = this.#kindOf(task.name, status)
    this.#change(task)
  }

  /** Removes a task. */
  remove(task: T): void {
    task.kind = undefined
    this.#sortTask(task)
  }

  /** Returns the tasks of one page. `isGone` tells of tasks that are expired. */
  page(query: TaskQuery, isGone: (task: T) => boolean): T[] {
    this.#sort()
    const { of, order, limit, after } = query
    const lists = of === 'all' ? this.#all : this.#byOwner.get(of.owner)
    const start = query.from === undefined ? undefined : { createdAt: query.from, id: '' }
    const end = query.to === undefined ? undefined : { createdAt: query.to, id: '' }
    const isNewest = order === 'newest'
    const heads: Head<T>[] = []
    for (const [kind, list] of lists ?? []) {
      if (!matches(kind, query)) continue
      const head = new Head(isNewest
        ? list.backward(earlier(end, after))
        : list.forward(later(start, after)))
      if (head.task) heads.push(head)
    }
    const page: T[] = []
    while (page.length < limit) {
      const head = best(heads, isNewest ? -1 : 1)
      const task = head?.task
      if (!head || !task) break
      if (isNewest ? start && compare(task, start) < 0 : end && compare(task, end) >= 0) break
      const isRepeated = !isNewest && after && compare(task, after) === 0
      if (!isRepeated && !isGone(task)) page.push(task)
      head.advance()
    }
    return page
  }

  #change(task: T): void {
    if (task.kind === task.sortedAs || task.isUnsorted) return
    task.isUnsorted = true
    if (this.#unsorted.push(task) >= MAX_UNSORTED) this.#sort()
  }

  /** Sorts the tasks that have changed. In their order, most are appended to their lists. */
  #sort(): void {
    if (this.#unsorted.length === 0) return
    const changed = this.#unsorted.sort(compare)
    this.#unsorted = []
    for (const task of changed) this.#sortTask(task)
  }

  #sortTask(task: T): void {
    const { sortedAs, kind, owner } = task
    task.isUnsorted = false
    if (kind === sortedAs) return
    task.sortedAs = kind
    let own = this.#byOwner.get(owner)
    if (own === undefined) this.#byOwner.set(owner, own = new Map<Kind, SortedTasks<T>>())
    for (const lists of [this.#all, own]) {
      if (sortedAs) removeFrom(lists, sortedAs, task)
      if (kind) addTo(lists, kind, task)
    }
    if (own.size === 0) this.#byOwner.delete(owner)
  }

  #kindOf(name: string, status: ListedStatus): Kind {
    let ofName = this.#kinds.get(name)
    if (ofName === undefined) this.#kinds.set(name, ofName = new Map<ListedStatus, Kind>())
    let kind = ofName.get(status)
    if (kind === undefined) ofName.set(status, kind = { name, status })
    return kind
  }
}

function matches({ name, status }: Kind, { statuses, names }: TaskQuery): boolean {
  return (statuses?.includes(status) ?? true) && (names?.includes(name) ?? true)
}

function addTo<T extends Listed>(lists: Lists<T>, kind: Kind, task: T): void {
  let list = lists.get(kind)
  if (list === undefined) lists.set(kind, list = new SortedTasks<T>())
  list.add(task)
}

function removeFrom<T extends Listed>(lists: Lists<T>, kind: Kind, task: T): void {
  const list = lists.get(kind)
  list?.remove(task)
  if (list?.isEmpty) lists.delete(kind)
}
