import {
  comparePositions as compare, LISTED_STATUSES, type ListEntry, type ListedStatus, type ListedTask, type ListQuery,
} from '../../src/stores/task-index.js'
import { ExpiryScanner } from './expiry-scanner.js'
import { best, earlier, Head, later } from './list-heads.js'
import { SortedTasks } from './sorted-tasks.js'
import { ownText } from './text.js'

/**
 * Number of changed tasks that wait to be sorted. A task that ends soon is then sorted once, in its
 * final status.
 */
const MAX_UNSORTED = 1024

const STATUS_NUMBERS = Object.fromEntries(
  LISTED_STATUSES.map((status, number) => [status, number]),
) as Readonly<Record<ListedStatus, number>>

/** The lists of one owner, or of all owners, by definition and status. */
class Lists {
  /** Key: number of the definition's name, times 8, plus number of the status. */
  readonly byKind = new Map<number, SortedTasks<IndexedTask>>()
  /** Number of tasks, those that are not sorted yet included. */
  size = 0

  /** @param owner - id of the owner, in memory of its own */
  constructor(readonly owner?: string) {}

  add(kind: number, task: IndexedTask): void {
    const list = this.byKind.get(kind)
    if (list) return list.add(task)
    const first = new SortedTasks<IndexedTask>()
    first.add(task)
    this.byKind.set(kind, first)
  }

  remove(kind: number, task: IndexedTask): void {
    const list = this.byKind.get(kind)
    list?.remove(task)
    if (list?.isEmpty) this.byKind.delete(kind)
  }
}

/** A task in the lists. */
class IndexedTask {
  /** Kind under which the task is sorted at present. -1: none. */
  sortedAs = -1
  isUnsorted = false
  kind = 0
  version = 0
  expiresAt = 0

  constructor(readonly id: string, readonly createdAt: number, readonly lists: Lists) {}
}

/** Lists of tasks in the memory of this process. */
export class MemoryTaskLists {
  readonly #byId = new Map<string, IndexedTask>()
  readonly #all = new Lists()
  readonly #byOwner = new Map<string | undefined, Lists>()
  readonly #names: string[] = []
  readonly #numbers = new Map<string, number>()
  readonly #now: () => number
  readonly #maxTasks: number
  readonly #scanner: ExpiryScanner
  #unsorted: IndexedTask[] = []

  constructor(now: () => number, maxTasks: number) {
    this.#now = now
    this.#maxTasks = maxTasks
    this.#scanner = new ExpiryScanner(() => this.#walk())
  }

  get size(): number {
    return this.#byId.size
  }

  /** See `TaskLists.put`. */
  put(task: ListedTask): void {
    const { id, owner, createdAt, version } = task
    const expiresAt = this.#now() + task.ttlMs
    let indexed = this.#byId.get(id)
    if (indexed && (indexed.createdAt !== createdAt || indexed.lists.owner !== owner)) {
      if (indexed.createdAt > createdAt) return
      this.#remove(indexed)
      indexed = undefined
    }
    if (indexed === undefined) indexed = this.#insert(id, createdAt, owner)
    else if (indexed.version > version) return
    const isSame = indexed.version === version
    indexed.expiresAt = isSame ? Math.max(indexed.expiresAt, expiresAt) : expiresAt
    indexed.version = version
    indexed.kind = this.#kindOf(task)
    if (indexed.kind === indexed.sortedAs || indexed.isUnsorted) return
    indexed.isUnsorted = true
    if (this.#unsorted.push(indexed) >= MAX_UNSORTED) this.#sort()
  }

  /** See `TaskLists.drop`. */
  drop({ id, owner, createdAt }: ListEntry): void {
    const indexed = this.#byId.get(id)
    if (indexed?.createdAt === createdAt && indexed.lists.owner === owner) this.#remove(indexed)
  }

  /** See `TaskLists.list`. */
  list({ of, statuses, names, from, to, order, limit, after }: ListQuery): ListEntry[] {
    this.#sort()
    const lists = of === 'all' ? this.#all : this.#byOwner.get(of.owner)
    const kinds = this.#kindsOf(statuses, names)
    const now = this.#now()
    const start = from === undefined ? undefined : { createdAt: from, id: '' }
    const end = to === undefined ? undefined : { createdAt: to, id: '' }
    const isNewest = order === 'newest'
    const heads: Head<IndexedTask>[] = []
    for (const [kind, list] of lists?.byKind ?? []) {
      if (kinds && !kinds.has(kind)) continue
      const tasks = isNewest
        ? list.backward(earlier(end, after))
        : list.forward(later(start, after))
      const head = new Head(tasks)
      if (head.task) heads.push(head)
    }
    const page: ListEntry[] = []
    while (page.length < limit) {
      const head = best(heads, isNewest ? -1 : 1)
      const task = head?.task
      if (!head || !task) break
      if (isNewest ? start && compare(task, start) < 0 : end && compare(task, end) >= 0) break
      const isRepeated = !isNewest && after && compare(task, after) === 0
      if (!isRepeated && task.expiresAt > now) page.push(this.#entryOf(task))
      head.advance()
    }
    return page
  }

  #insert(id: string, createdAt: number, owner: string | undefined): IndexedTask {
    if (this.#byId.size >= this.#maxTasks) this.#removeOldest()
    let lists = this.#byOwner.get(owner)
    if (lists === undefined) {
      const key = owner === undefined ? undefined : ownText(owner)
      this.#byOwner.set(key, lists = new Lists(key))
    }
    lists.size++
    const indexed = new IndexedTask(ownText(id), createdAt, lists)
    this.#byId.set(indexed.id, indexed)
    this.#scanner.start()
    return indexed
  }

  #removeOldest(): void {
    const [oldest] = this.#byId.values()
    if (oldest) this.#remove(oldest)
  }

  #remove(task: IndexedTask): void {
    const { id, lists } = task
    this.#byId.delete(id)
    task.kind = -1
    this.#sortTask(task)
    lists.size--
    if (lists.size === 0) this.#byOwner.delete(lists.owner)
  }

  /** Sorts the tasks that have changed. In their order, most are appended to their lists. */
  #sort(): void {
    if (this.#unsorted.length === 0) return
    const changed = this.#unsorted.sort(compare)
    this.#unsorted = []
    for (const task of changed) this.#sortTask(task)
  }

  #sortTask(task: IndexedTask): void {
    const { sortedAs, kind, lists } = task
    task.isUnsorted = false
    if (kind === sortedAs) return
    task.sortedAs = kind
    if (sortedAs >= 0) {
      this.#all.remove(sortedAs, task)
      lists.remove(sortedAs, task)
    }
    if (kind >= 0) {
      this.#all.add(kind, task)
      lists.add(kind, task)
    }
  }

  #kindOf({ name, status }: Pick<ListedTask, 'name' | 'status'>): number {
    let number = this.#numbers.get(name)
    if (number === undefined) {
      number = this.#names.push(name) - 1
      this.#numbers.set(name, number)
    }
    return number * 8 + STATUS_NUMBERS[status]
  }

  /** Returns the kinds that pass a filter; `undefined` for all. */
  #kindsOf(
    statuses: readonly ListedStatus[] | undefined, names: readonly string[] | undefined,
  ): Set<number> | undefined {
    if (!statuses && !names) return undefined
    const known = (names ?? this.#names).filter((name) => this.#numbers.has(name))
    return new Set(known.flatMap((name) => (
      (statuses ?? LISTED_STATUSES).map((status) => this.#kindOf({ name, status }))
    )))
  }

  #entryOf({ id, createdAt, lists: { owner }, kind }: IndexedTask): ListEntry {
    const name = this.#names[kind >> 3] as string
    return { id, owner, name, status: LISTED_STATUSES[kind & 7] as ListedStatus, createdAt }
  }

  *#walk(): Generator<boolean> {
    let left = this.#byId.size
    for (const task of this.#byId.values()) {
      if (left-- === 0) return
      const isOver = task.expiresAt <= this.#now()
      if (isOver) this.#remove(task)
      yield isOver
    }
  }
}
