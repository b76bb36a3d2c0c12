import { isFinalStatus, type TaskStatus } from '../../../src/engine/task.js'
import { OwnerShares } from '../owner-shares.js'
import type { StoredNode } from './stored-node.js'

/** Limits of the tasks, of all callers and of each. */
export interface TaskLimits {
  readonly maxTasks: number
  readonly maxBytes: number
  readonly maxTasksPerCaller: number
  readonly maxBytesPerCaller: number
}

/**
 * Counts the tasks: the unfinished ones of each caller for its limits, and what final tasks keep.
 * If there are too many, removes final ones: the oldest of the caller that has most bytes, and those
 * of a caller above its own share.
 */
export class CallerTasks {
  /** Number of unfinished tasks. */
  unfinished = 0
  #unfinishedBytes = 0
  #final = 0
  #finalBytes = 0
  /** Unfinished tasks by caller, and by caller and name for names that have a limit. */
  readonly #counts = new Map<string, number>()
  readonly #limitedNames = new Set<string>()
  readonly #shares = new OwnerShares<StoredNode>()

  constructor(
    private readonly limits: TaskLimits, private readonly evict: (node: StoredNode) => void,
    private readonly all: () => Iterable<StoredNode>,
  ) {}

  /** Size of all tasks in bytes. */
  get bytes(): number {
    return this.#unfinishedBytes + this.#finalBytes + this.#shares.bytes
  }

  /** Returns the number of unfinished tasks of a caller, with a name or with any. */
  count(caller: string, name: string | undefined): number {
    if (name !== undefined && !this.#limitedNames.has(name)) this.#beginCountOf(name)
    return this.#counts.get(countKey(caller, name)) ?? 0
  }

  /** Adds an unfinished task, if there is space. */
  add(node: StoredNode): boolean {
    const { maxTasks, maxBytes } = this.limits
    if (this.unfinished >= maxTasks) return false
    if (this.unfinished > 0 && this.#unfinishedBytes + node.bytes > maxBytes) return false
    this.#addUnfinished(node)
    this.#makeSpace(node)
    return true
  }

  /** Notes a change of a task that had this status. */
  update(node: StoredNode, before: TaskStatus): void {
    this.#leave(node, before)
    node.bytes = node.measure()
    if (isFinalStatus(node.task.status)) this.#addFinal(node)
    else this.#addUnfinished(node)
    this.#makeSpace(node)
  }

  /** Removes a task. */
  remove(node: StoredNode): void {
    this.#leave(node, node.task.status)
  }

  #addUnfinished(node: StoredNode): void {
    this.unfinished++
    this.#unfinishedBytes += node.bytes
    this.#count(node, 1)
  }

  #addFinal(node: StoredNode): void {
    this.#final++
    this.#finalBytes += node.bytes
    const share = node.share ??= this.#shares.of(node.task.caller)
    this.#shares.add(share, node.bytes)
    share.free.push(node)
    if (share.owner === undefined) return
    const { maxTasksPerCaller, maxBytesPerCaller } = this.limits
    while (share.entries > maxTasksPerCaller || share.bytes > maxBytesPerCaller) {
      const { first } = share.free
      if (first === undefined || first === node) return
      this.evict(first)
    }
  }

  #leave(node: StoredNode, before: TaskStatus): void {
    if (!isFinalStatus(before)) {
      this.unfinished--
      this.#unfinishedBytes -= node.bytes
      this.#count(node, -1)
      return
    }
    this.#final--
    this.#finalBytes -= node.bytes
    const { share } = node
    if (share === undefined) return
    share.free.remove(node)
    this.#shares.remove(share, node.bytes)
    node.share = undefined
  }

  /** Removes final tasks, but not the one that has just changed. */
  #makeSpace(changed: StoredNode): void {
    const { maxTasks, maxBytes } = this.limits
    while (this.unfinished + this.#final > maxTasks || this.bytes > maxBytes) {
      const oldest = this.#shares.oldestOfLargest()
      if (oldest === undefined || oldest === changed) return
      this.evict(oldest)
    }
  }

  #count({ task: { caller, name } }: StoredNode, by: 1 | -1): void {
    if (caller === undefined) return
    this.#increase(countKey(caller, undefined), by)
    if (this.#limitedNames.has(name)) this.#increase(countKey(caller, name), by)
  }

  #increase(key: string, by: number): void {
    const count = (this.#counts.get(key) ?? 0) + by
    if (count === 0) this.#counts.delete(key)
    else this.#counts.set(key, count)
  }

  /** Counts by a name from now on, beginning with the tasks that there are. */
  #beginCountOf(name: string): void {
    this.#limitedNames.add(name)
    for (const { task } of this.all()) {
      if (task.name !== name || task.caller === undefined || isFinalStatus(task.status)) continue
      this.#increase(countKey(task.caller, name), 1)
    }
  }
}

function countKey(caller: string, name: string | undefined): string {
  return name === undefined ? caller : `${name}\n${caller}`
}
