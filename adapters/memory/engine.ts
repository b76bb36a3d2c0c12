import { systemClock, type Clock } from '../../src/runtime/timers.js'
import { heapShare } from '../../src/runtime/shared-limit.js'
import type { MaybePromise } from '../../src/runtime/maybe-promise.js'
import { readOptions, value, whole, type OptionTable } from '../../src/runtime/options.js'
import type {
  CreateOptions, PoolCounts, TaskEngine, TaskQuery, WorkHandlers, WorkOptions,
} from '../../src/engine/engine.js'
import {
  createdTask, isFinalStatus, nameFault, type CallerLimit, type Changed, type Created,
  type Expected, type NewTask, type StoredTask, type TaskChange, type TaskRef, type TaskStatus,
} from '../../src/engine/task.js'
import { StoreUnavailableError } from '../../src/stores/store.js'
import { ExpiryScanner, walk } from './expiry-scanner.js'
import { WatchList } from '../../src/runtime/notices.js'
import { Space } from './space.js'
import { StoredNode, type CallerCount } from './stored-task.js'
import { TaskLists } from './task-lists.js'
import { ownText } from './text.js'
import { Worker } from './worker.js'

/** Maximum number of tasks. A V8 Map has 2^24 slots, and needs half of them free for changes. */
export const MAP_LIMIT = 8_000_000
/** Number of counts of 0 that stay, because a `Map` that changes with each task is slow. */
const KEPT_COUNTS = 64

/** Options of `MemoryTaskEngine`. */
export interface MemoryTaskEngineOptions {
  /** Maximum number of unfinished tasks, 1 to 1,000,000. Default 10,000. */
  readonly maxUnfinished?: number
  /** Maximum number of all tasks, 1 to 8,000,000. Default 1,000,000. */
  readonly maxTasks?: number
  /**
   * Maximum size of all tasks in bytes, as an upper estimate. Default: a quarter of the heap limit,
   * at most 256 MiB.
   */
  readonly maxBytes?: number
  /**
   * Maximum number of finished tasks of one owner. Default: a quarter of `maxTasks`.
   *
   * Beyond it, the owner's oldest are deleted.
   */
  readonly maxEntriesPerOwner?: number
  /** Maximum size of these tasks in bytes. Default: a quarter of `maxBytes`. */
  readonly maxBytesPerOwner?: number
  /** Maximum number of watches. Default 100,000. */
  readonly maxWatches?: number
  /**
   * Time and timers. Tests pass `testClock()` of `longhaul/testing`. Default: the monotonic clock of
   * the process.
   */
  readonly clock?: Clock
}

/** Result of `usage` of `MemoryTaskEngine`. */
export interface MemoryTaskEngineUsage {
  readonly tasks: number
  /** Number of tasks that are queued or processing. */
  readonly unfinished: number
  /** Size of all tasks in bytes, which `maxBytes` limits. */
  readonly bytes: number
  readonly watches: number
}

export const MEMORY_TASK_ENGINE = {
  maxUnfinished: whole({ min: 1, max: 1_000_000, default: 10_000 }),
  maxTasks: whole({ min: 1, max: MAP_LIMIT, default: 1_000_000 }),
  maxBytes: whole({ min: 1, default: heapShare(4, 256) }),
  maxEntriesPerOwner: whole({ min: 1, max: MAP_LIMIT }),
  maxBytesPerOwner: whole({ min: 1 }),
  maxWatches: whole({ min: 1, max: MAP_LIMIT, default: 100_000 }),
  clock: value(),
} satisfies OptionTable<MemoryTaskEngineOptions>

/**
 * Task engine in the memory of this process: one object for each task, in one map. Every call works
 * synchronously, and returns its outcome without a promise. Tasks are lost with the process.
 *
 * If a new task needs space, final tasks are removed: the oldest of the caller that has most bytes.
 * Unfinished tasks stay. If they take all space, `create` returns `full`.
 */
export class MemoryTaskEngine implements TaskEngine {
  readonly shared = false
  readonly durable = false
  readonly hasTransactions = false
  readonly #byId = new Map<string, StoredNode>()
  readonly #byKey = new Map<string, StoredNode>()
  /** Unfinished tasks by their business key. */
  readonly #byUnique = new Map<string, StoredNode>()
  /** Unfinished tasks are pinned, final ones evictable. */
  readonly #space: Space<StoredNode>
  /** Unfinished tasks of each caller, by the group of their limit. */
  readonly #groups = new Map<string, Map<string, CallerCount>>()
  readonly #lists = new TaskLists<StoredNode>()
  readonly #watches = new WatchList()
  readonly #worker: Worker
  readonly #scanner = new ExpiryScanner(() => walk(this.#byId, (node) => !this.#isLive(node)))
  readonly #clock: Clock
  /** Difference between the time of day and the clock, in milliseconds. */
  readonly #offset: number
  readonly #limits: Readonly<Record<'maxUnfinished' | 'maxWatches' | 'maxBytes', number>>

  /** @throws {TypeError} An option is unknown or out of range. */
  constructor(options: MemoryTaskEngineOptions = {}) {
    const { maxUnfinished, maxTasks, maxBytes, maxWatches, clock = systemClock, ...own } =
      readOptions('MemoryTaskEngine', options, MEMORY_TASK_ENGINE)
    this.#clock = clock
    this.#offset = Math.floor(Date.now() - clock.now())
    this.#limits = { maxUnfinished: Math.min(maxUnfinished, maxTasks), maxWatches, maxBytes }
    this.#space = new Space(
      { ...own, maxEntries: maxTasks, maxBytes }, (node) => { this.#drop(node) },
    )
    this.#worker = new Worker({
      clock, now: () => this.now(), all: () => this.#byId.values(),
      onBegin: (node, status) => { this.#tell(node, status, undefined) },
      isLive: (node) => this.#isLive(node),
      onReady: (node) => {
        if (node.attempt === 0 && node.status === 'queued') this.#lists.put(node, 'queued')
      },
    })
  }

  /** Returns the numbers of tasks and watches, and the bytes that `maxBytes` limits. */
  usage(): MemoryTaskEngineUsage {
    const { pinned: unfinished, bytes } = this.#space
    return { tasks: this.#byId.size, unfinished, bytes, watches: this.#watches.size }
  }

  now(): number {
    return this.#offset + Math.floor(this.#clock.now())
  }

  create(task: NewTask, { transaction }: CreateOptions = {}): MaybePromise<Created> {
    if (transaction !== undefined) {
      return Promise.reject(new TypeError('transaction needs the engine of longhaul/postgres'))
    }
    const fault = nameFault(task)
    if (fault) return Promise.reject(fault)
    const { id, key, start, unique } = task
    const existing = this.#live(id) ?? (key === undefined ? undefined : this.#live(key, this.#byKey))
    if (existing) {
      const outcome = existing.birth === task.birth ? 'created' : 'exists'
      return { outcome, task: existing.toTask() }
    }
    const now = this.now()
    const at = start === undefined ? now : 'at' in start ? start.at : now + start.delayMs
    const startAt = at > now ? at : undefined
    const same = unique && this.#live(unique.key, this.#byUnique)
    if (same) return this.#meet(same, task, now, startAt)
    const count = this.#admit(task.caller, task.limit)
    if (typeof count === 'string') return { outcome: count }
    const node = new StoredNode(task, now, startAt, count)
    const { pinned, pinnedBytes } = this.#space
    if (pinned > 0 && pinnedBytes + node.bytes > this.#limits.maxBytes) return { outcome: 'full' }
    this.#space.pin(node)
    this.#space.makeSpace(0, 0)
    this.#count(node, count)
    this.#byId.set(id, node)
    if (key !== undefined) this.#byKey.set(key, node)
    if (unique !== undefined) this.#byUnique.set(unique.key, node)
    this.#lists.put(node, startAt === undefined ? 'queued' : 'scheduled')
    if (this.#byId.size === 1) this.#scanner.start()
    this.#worker.schedule(node, startAt ?? now, now)
    this.#watches.notify(id)
    return { outcome: 'created', task: createdTask(task, now, startAt, node.expiresAt) }
  }

  read(id: string): MaybePromise<StoredTask | undefined> {
    return this.#live(id)?.toTask()
  }

  readByKey(key: string): MaybePromise<StoredTask | undefined> {
    return this.#live(key, this.#byKey)?.toTask()
  }

  change(ref: TaskRef, expected: Expected, change: TaskChange): MaybePromise<Changed> {
    const node = this.#live(ref.id)
    if (node?.birth !== ref.birth) return { outcome: 'conflict', task: undefined }
    if (!node.holds(expected, change)) return { outcome: 'conflict', task: node.toTask() }
    if (isFinalStatus(node.status) && change.status === 'queued') {
      const count = this.#admit(node.caller, change.limit)
      if (typeof count === 'string') return { outcome: count }
      this.#count(node, count)
    }
    this.#apply(node, expected, change, this.now())
    return { outcome: 'changed', task: node.toTask() }
  }

  delete(ref: TaskRef, version: number): MaybePromise<StoredTask | undefined> {
    const node = this.#live(ref.id)
    if (node?.birth !== ref.birth) return undefined
    if (node.version !== version || !isFinalStatus(node.status)) return node.toTask()
    this.#drop(node)
    return undefined
  }

  /** @throws {Error} `work` was called before. */
  work(options: WorkOptions, handlers: WorkHandlers): void {
    this.#worker.begin(options, handlers)
  }

  watch(id: string, listener: () => void): MaybePromise<() => void> {
    if (this.#watches.size < this.#limits.maxWatches) return this.#watches.add(id, listener)
    return Promise.reject(new StoreUnavailableError('There are too many watches', { reason: 'full' }))
  }

  list(query: TaskQuery): MaybePromise<readonly StoredTask[]> {
    this.#worker.wakeDue()
    const now = this.now()
    const page = this.#lists.page(query, ({ expiresAt }) => expiresAt <= now)
    const { omit } = query
    if (omit === undefined) return page.map((node) => node.toTask())
    const omitted = {
      ...omit.includes('details') && { details: {} }, ...omit.includes('result') && { result: undefined },
    }
    return page.map((node) => ({ ...node.toTask(), ...omitted }))
  }

  counts(pool: string): MaybePromise<PoolCounts> {
    return this.#worker.counts(pool)
  }

  setPaused(pool: string, isPaused: boolean): void {
    this.#worker.setPaused(pool, isPaused)
  }

  pausedPools(): readonly string[] {
    return this.#worker.pausedPools()
  }

  /**
   * Resolves when no task waits or runs, delayed tasks and retries included. Keeps the process alive. In a
   * Worker, `ctx.waitUntil(engine.idle())` lets work continue after the response.
   */
  idle(): Promise<void> {
    return this.#worker.idle()
  }

  close({ drainMs }: { readonly drainMs: number }): Promise<void> {
    return this.#worker.close(drainMs)
  }

  /**
   * Returns the unfinished task with the business key of a new task. The new task may replace its
   * work.
   */
  #meet(node: StoredNode, task: NewTask, now: number, startAt: number | undefined): Created {
    if (task.unique?.ifExists !== 'replace' || node.run > 0) return { outcome: 'exists', task: node.toTask() }
    const bytes = new StoredNode(task, now, startAt).bytes
    const { pinned, pinnedBytes } = this.#space
    if (pinned > 1 && pinnedBytes - node.bytes + bytes > this.#limits.maxBytes) return { outcome: 'full' }
    const { pool, priority, startAt: before } = node
    this.#space.remove(node)
    node.replace(task, now, startAt)
    node.bytes = node.measure()
    this.#space.pin(node)
    this.#space.makeSpace(0, 0, node)
    this.#lists.put(node, startAt === undefined ? 'queued' : 'scheduled')
    const keepsPlace = before === undefined && startAt === undefined
      && pool === node.pool && priority === node.priority
    if (!keepsPlace) this.#worker.reschedule(node, startAt ?? now, now)
    this.#watches.notify(node.id)
    return { outcome: 'replaced', task: node.toTask() }
  }

  #giveUpUnique(node: StoredNode): void {
    if (node.unique === undefined) return
    this.#byUnique.delete(node.unique)
    node.unique = undefined
  }

  #apply(node: StoredNode, expected: Expected, change: TaskChange, now: number): void {
    const { status: before, version } = node
    const { status } = change
    this.#space.remove(node)
    node.change(expected, change, now)
    node.bytes = node.measure()
    if (isFinalStatus(node.status)) {
      this.#giveUpUnique(node)
      this.#count(node, undefined)
      this.#space.release(node, node.caller)
    } else {
      this.#space.pin(node)
    }
    this.#space.makeSpace(0, 0, node)
    this.#tell(node, before, version)
    if (status !== undefined) this.#worker.endRun(node, 'lease' in expected)
    if (status === 'queued' || status === 'input_required') {
      this.#worker.schedule(node, now + (change.delayMs ?? 0), now)
    }
    if (change.callbackMs !== undefined) this.#worker.scheduleCallback(node, now)
  }

  /**
   * Returns the count of the next unfinished task of a caller; `undefined` if no limit counts it. Returns a
   * string if a limit is reached.
   */
  #admit(
    caller: string | undefined, limit: CallerLimit | undefined,
  ): CallerCount | 'caller_full' | 'full' | undefined {
    let count: CallerCount | undefined
    if (caller !== undefined && limit !== undefined) {
      let group = this.#groups.get(limit.group)
      if (group === undefined) this.#groups.set(limit.group, group = new Map<string, CallerCount>())
      count = group.get(caller) ?? { caller: ownText(caller), group, tasks: 0 }
      if (count.tasks >= limit.max) return 'caller_full'
    }
    return this.#space.pinned >= this.#limits.maxUnfinished ? 'full' : count
  }

  #count(node: StoredNode, count: CallerCount | undefined): void {
    const { count: old } = node
    node.count = count
    if (count !== undefined && count.tasks++ === 0) count.group.set(count.caller, count)
    if (old === undefined || --old.tasks > 0) return
    if (old.group.size > KEPT_COUNTS) old.group.delete(old.caller)
  }

  /** Updates lists and notifies watches after a change of a task that had this status and version. */
  #tell(node: StoredNode, before: TaskStatus, version: number | undefined): void {
    if (node.status !== before) this.#lists.put(node, node.status)
    if (node.version !== version) this.#watches.notify(node.id)
  }

  #live(key: string, nodes = this.#byId): StoredNode | undefined {
    const node = nodes.get(key)
    return node && this.#isLive(node) ? node : undefined
  }

  /** Returns true if a task has not expired. Removes an expired task. */
  #isLive(node: StoredNode): boolean {
    if (node.expiresAt > this.now()) return true
    this.#drop(node)
    return false
  }

  #drop(node: StoredNode): void {
    const { id, key } = node
    this.#byId.delete(id)
    if (key !== undefined) this.#byKey.delete(key)
    this.#giveUpUnique(node)
    this.#lists.remove(node)
    this.#count(node, undefined)
    this.#space.remove(node)
    this.#worker.remove(node)
    this.#watches.notify(id)
  }
}
