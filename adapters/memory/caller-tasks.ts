import { isFinalStatus, type CallerLimit, type FileShare, type TaskStatus } from '../../src/engine/task.js'
import { OwnerShares } from './owner-shares.js'
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
  #final = 0
  #finalBytes = 0
  /** By group, then by caller. */
  readonly #groups = new Map<string, Map<string, CallerCount>>()
  readonly #shares = new OwnerShares<StoredNode>()
  /** Bytes of final tasks outside of the engine, by caller. */
  readonly #fileBytes = new Map<string, number>()

  constructor(
    private readonly limits: TaskLimits, private readonly evict: (node: StoredNode) => void,
  ) {}

  /** Size of all tasks in bytes. */
  get bytes(): number {
    return this.#unfinishedBytes + this.#finalBytes + this.#shares.bytes
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
    const isCounted = node.share !== undefined
    if (isCounted) this.#countFiles(node, -1)
    node.files = files
    if (isCounted) this.#countFiles(node, 1)
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
    this.#final++
    this.#finalBytes += node.bytes
    node.count = undefined
    const share = node.share ??= this.#shares.of(node.caller)
    this.#shares.add(share, node.bytes)
    share.free.push(node)
    this.#countFiles(node, 1)
    if (share.owner === undefined) return
    const { maxTasksPerCaller, maxBytesPerCaller } = this.limits
    while (share.entries > maxTasksPerCaller || share.bytes > maxBytesPerCaller) {
      const { first } = share.free
      if (first === undefined || first === node) break
      this.evict(first)
    }
    while ((this.#fileBytes.get(share.owner) ?? 0) > (node.files?.max ?? Infinity)) {
      const oldest = oldestWithFiles(share.free.first)
      if (oldest === undefined || oldest === node) return
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
    this.#final--
    this.#finalBytes -= node.bytes
    const { share } = node
    if (share === undefined) return
    this.#countFiles(node, -1)
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

  #countFiles({ files, caller }: StoredNode, by: 1 | -1): void {
    if (caller === undefined || files === undefined) return
    const bytes = (this.#fileBytes.get(caller) ?? 0) + by * files.bytes
    if (bytes === 0) this.#fileBytes.delete(caller)
    else this.#fileBytes.set(caller, bytes)
  }
}

function oldestWithFiles(first: StoredNode | undefined): StoredNode | undefined {
  for (let node = first; node; node = node.next) {
    if ((node.files?.bytes ?? 0) > 0) return node
  }
  return undefined
}
