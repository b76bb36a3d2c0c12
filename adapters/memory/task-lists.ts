import {
  type ListedStatus, type TaskQuery, comparePositions as compare, type ListPosition,
} from '../../src/engine/engine.js'

/**
 * Number of changed tasks that wait to be sorted. A task that ends soon is then sorted once, with
 * its final status.
 */
const MAX_UNSORTED = 1024
/** Maximum number of tasks in a chunk. A change moves at most so many. */
const CHUNK = 256

export interface Listed {
  readonly id: string
  readonly createdAt: number
  readonly owner: string | undefined
  readonly name: string
  /** Its status in lists. `undefined`: it is in no list. */
  listed: ListedStatus | undefined
  /** Lists that the task is sorted into at present. */
  sortedAs: Kind | undefined
  isUnsorted: boolean
}

/** A name and a status. There is one object for each pair. */
export interface Kind {
  readonly name: string
  readonly status: ListedStatus
}

type Position = ListPosition | undefined

type Lists<T extends Listed> = Map<Kind, SortedTasks<T>>

/** Lists of tasks by owner, name, status and time of creation. */
export class TaskLists<T extends Listed> {
  readonly #all: Lists<T> = new Map()
  readonly #byOwner = new Map<string | undefined, Lists<T>>()
  readonly #kinds = new Map<string, Map<ListedStatus, Kind>>()
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

  /** Sorts the tasks that have changed. In their order, most are appended to their lists. */
  #sort(): void {
    if (this.#unsorted.length === 0) return
    const changed = this.#unsorted.sort(compare)
    this.#unsorted = []
    for (const task of changed) this.#sortTask(task)
  }

  #sortTask(task: T): void {
    const { sortedAs, listed, owner } = task
    const kind = listed && this.#kindOf(task.name, listed)
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

/**
 * Tasks in the order of their creation, in chunks. Adding the newest task takes constant time, any
 * other change one search.
 */
class SortedTasks<T extends ListPosition> {
  readonly #chunks: T[][] = []

  get isEmpty(): boolean {
    return this.#chunks.length === 0
  }

  add(task: T): void {
    const last = this.#chunks.at(-1)
    if (last === undefined || compare(last.at(-1) as T, task) < 0) {
      if (last === undefined || last.length >= CHUNK) this.#chunks.push([task])
      else last.push(task)
      return
    }
    const [at, within] = this.#find(task)
    const chunk = this.#chunks[at] as T[]
    chunk.splice(within, 0, task)
    if (chunk.length > CHUNK) this.#chunks.splice(at + 1, 0, chunk.splice(CHUNK / 2))
  }

  remove(task: T): void {
    const [at, within] = this.#find(task)
    const chunk = this.#chunks[at]
    if (chunk?.[within] !== task) return
    if (chunk.length === 1) {
      this.#chunks.splice(at, 1)
      return
    }
    // Most that are removed are among the oldest, and `shift` is much faster than `splice`.
    for (let place = within; place > 0; place--) chunk[place] = chunk[place - 1] as T
    chunk.shift()
  }

  /**
   * Iterates from the first task at or after `start` to later ones.
   *
   * @param start - `undefined`: the first task
   */
  *forward(start: ListPosition | undefined): Generator<T, undefined> {
    let [at, within] = start === undefined ? [0, 0] : this.#find(start)
    for (; at < this.#chunks.length; at++, within = 0) {
      const chunk = this.#chunks[at] as T[]
      for (; within < chunk.length; within++) yield chunk[within] as T
    }
  }

  /**
   * Iterates from the last task before `end` to earlier ones.
   *
   * @param end - `undefined`: the end of the list
   */
  *backward(end: ListPosition | undefined): Generator<T, undefined> {
    let [at, within] = end === undefined ? [this.#chunks.length, 0] : this.#find(end)
    for (; at >= 0; at--, within = this.#chunks[at]?.length ?? 0) {
      const chunk = this.#chunks[at] ?? []
      while (within > 0) yield chunk[--within] as T
    }
  }

  /** Returns the place of the first task that is not before `position`. */
  #find(position: ListPosition): [chunk: number, within: number] {
    const at = firstIndex(this.#chunks, (chunk) => compare(chunk.at(-1) as T, position) >= 0)
    const within = firstIndex(this.#chunks[at] ?? [], (task) => compare(task, position) >= 0)
    return [at, within]
  }
}

/** Returns the index of the first item that passes. All items after it must pass too. */
function firstIndex<T>(items: readonly T[], passes: (item: T) => boolean): number {
  let low = 0
  let high = items.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (passes(items[middle] as T)) high = middle
    else low = middle + 1
  }
  return low
}

class Head<T> {
  task: T | undefined

  constructor(private readonly tasks: Generator<T, undefined>) {
    this.advance()
  }

  advance(): void {
    this.task = this.tasks.next().value
  }
}

/** Returns the head whose task comes first. `sign` is -1 for the newest first. */
function best<T extends ListPosition>(heads: readonly Head<T>[], sign: 1 | -1): Head<T> | undefined {
  let first: Head<T> | undefined
  for (const head of heads) {
    if (!head.task) continue
    if (!first?.task || sign * compare(head.task, first.task) < 0) first = head
  }
  return first
}

/** Returns the earlier of two positions. `undefined` is none. */
function earlier(one: Position, other: Position): Position {
  return one && other ? (compare(one, other) < 0 ? one : other) : one ?? other
}

/** Returns the later of two positions. `undefined` is none. */
function later(one: Position, other: Position): Position {
  return one && other ? (compare(one, other) > 0 ? one : other) : one ?? other
}
