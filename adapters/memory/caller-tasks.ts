import { isFinalStatus, type CallerLimit, type FileShare, type TaskStatus } from '../../src/engine/task.js'
import { OwnerShares, type OwnerShare } from './owner-shares.js'
import type { CallerCount, StoredNode } from './stored-task.js'
import { ownText } from './text.js'

/** Number of counts of 0 that stay, because a `Map` that changes with each task is slow. */
const KEPT_COUNTS = 64

/** Limits of the tasks, of all callers and of each. */
export interface TaskLimits {
  readonly maxTasks: number
  readonly maxBytes: number
  readonly maxTasksPerCaller: number
  readonly maxBytesPerCaller: number
}

/**
 * Counts the tasks: the unfinished ones of each caller by group, and what final tasks keep.
 * If there are too many, removes final ones: the oldest of the caller that has most bytes, and those
 * of a caller above its own share.
 */
export class CallerTasks {
  /** Number of unfinished tasks. */
  unfinished = 0
  #unfinishedBytes = 0
  /** By group, then by caller. */
  readonly #groups = new Map<string, Map<string, CallerCount>>()
  readonly #shares = new OwnerShares<StoredNode>()

  constructor(
    private readonly limits: TaskLimits, private readonly evict: (node: StoredNode) => void,
  ) {}

  /** Size of all tasks in bytes. */
  get bytes(): number {
    return this.#unfinishedBytes + this.#shares.bytes
  }

  /**
   * Returns where a limit counts the next task of a caller; `full` if it allows no more, and
   * `undefined` if nothing counts it.
   */
  countOf(caller: string | undefined, limit: CallerLimit | undefined): CallerCount | 'full' | undefined {
    if (caller === undefined || limit === undefined) return undefined
    let group = this.#groups.get(limit.group)
    if (group === undefined) this.#groups.set(limit.group, group = new Map<string, CallerCount>())
    const count = group.get(caller)
    if ((count?.tasks ?? 0) >= limit.max) return 'full'
    return count ?? { caller: ownText(caller), group, tasks: 0 }
  }

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
    if (isFinalStatus(node.status)) this.#addFinal(node)
    else this.#addUnfinished(node)
    this.#makeSpace(node)
  }

  setFiles(node: StoredNode, files: FileShare): void {
    if (node.share) node.share.fileBytes += files.bytes - (node.files?.bytes ?? 0)
    node.files = files
  }

  remove(node: StoredNode): void {
    this.#leave(node, node.status)
  }

  #addUnfinished(node: StoredNode): void {
    this.unfinished++
    this.#unfinishedBytes += node.bytes
    const { count } = node
    if (count !== undefined && count.tasks++ === 0) count.group.set(count.caller, count)
  }

  #addFinal(node: StoredNode): void {
    node.count = undefined
    const share = node.share ??= this.#shares.of(node.caller)
    this.#shares.add(share, node)
    share.fileBytes += node.files?.bytes ?? 0
    const { maxTasksPerCaller, maxBytesPerCaller } = this.limits
    for (;;) {
      const oldest = this.#shares.oldestAbove(share, maxTasksPerCaller, maxBytesPerCaller, node)
        ?? oldestAboveFiles(share, node)
      if (oldest === undefined) return
      this.evict(oldest)
    }
  }

  #leave(node: StoredNode, before: TaskStatus): void {
    if (!isFinalStatus(before)) {
      this.unfinished--
      this.#unfinishedBytes -= node.bytes
      const { count } = node
      if (count === undefined || --count.tasks > 0) return
      if (count.group.size > KEPT_COUNTS) count.group.delete(count.caller)
      return
    }
    const { share } = node
    if (share === undefined) return
    share.fileBytes -= node.files?.bytes ?? 0
    this.#shares.remove(share, node)
    node.share = undefined
  }

  /** Removes final tasks, but not the one that has just changed. */
  #makeSpace(changed: StoredNode): void {
    const { maxTasks, maxBytes } = this.limits
    while (this.unfinished + this.#shares.entries > maxTasks || this.bytes > maxBytes) {
      const oldest = this.#shares.oldestOfLargest()
      if (oldest === undefined || oldest === changed) return
      this.evict(oldest)
    }
  }
}

/** Returns the oldest task with files if its caller has more than `kept` allows, but not `kept`. */
function oldestAboveFiles(
  { owner, free, fileBytes }: OwnerShare<StoredNode>, kept: StoredNode,
): StoredNode | undefined {
  if (owner === undefined || fileBytes <= (kept.files?.max ?? Infinity)) return undefined
  for (const node of free) {
    if (node === kept) return undefined
    if ((node.files?.bytes ?? 0) > 0) return node
  }
  return undefined
}
