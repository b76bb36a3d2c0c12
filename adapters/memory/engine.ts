import { systemClock, type Clock } from '../../src/runtime/timers.js'
import { heapShare } from '../../src/runtime/shared-limit.js'
import type { MaybePromise } from '../../src/runtime/maybe-promise.js'
import { readOptions, value, whole, type OptionTable } from '../../src/runtime/options.js'
import type {
  CreateOptions, PoolCounts, TaskEngine, TaskQuery, WorkHandlers, WorkOptions,
} from '../../src/engine/engine.js'
import {
  isFinalStatus, type Changed, type Created, type Expected, type NewTask,
  type StoredTask, type TaskChange, type TaskRef, type TaskStatus,
} from '../../src/engine/task.js'
import { StoreUnavailableError } from '../../src/stores/store.js'
import { ExpiryScanner } from './expiry-scanner.js'
import { WatchList } from '../../src/runtime/notices.js'
import { CallerTasks } from './caller-tasks.js'
import { StoredNode } from './stored-task.js'
import { TaskLists } from './task-lists.js'
import { Worker } from './worker.js'

/** Maximum number of tasks. A V8 Map has 2^24 slots, and needs half of them free for changes. */
export const MAP_LIMIT = 8_000_000
/** Number of tasks that are checked for their expiry with one reading of the clock. */
const STEPS_PER_TIME = 64

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
   * Maximum number of finished tasks of one owner. Beyond it, the owner loses its own oldest.
   * Default: a quarter of `maxTasks`.
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
  readonly #callers: CallerTasks
  readonly #lists = new TaskLists<StoredNode>()
  readonly #watches = new WatchList()
  readonly #worker: Worker
  readonly #scanner = new ExpiryScanner(() => this.#walk())
  readonly #clock: Clock
  /** Difference between the time of day and the clock, in milliseconds. */
  readonly #offset: number
  readonly #limits: { readonly maxUnfinished: number, readonly maxWatches: number }

  /** @throws {TypeError} An option is unknown or out of range. */
  constructor(options: MemoryTaskEngineOptions = {}) {
    const { maxUnfinished, maxWatches, maxTasks, maxBytes, ...own } =
      readOptions('MemoryTaskEngine', options, MEMORY_TASK_ENGINE)
    const { clock = systemClock } = own
    this.#clock = clock
    this.#offset = Math.floor(Date.now() - clock.now())
    this.#limits = { maxUnfinished, maxWatches }
    this.#callers = new CallerTasks({
      maxTasks,
      maxBytes,
      maxTasksPerCaller: own.maxEntriesPerOwner ?? Math.ceil(maxTasks / 4),
      maxBytesPerCaller: own.maxBytesPerOwner ?? Math.ceil(maxBytes / 4),
    }, (node) => { this.#drop(node) })
    this.#worker = new Worker({
      clock, now: () => this.now(), all: () => this.#byId.values(),
      onBegin: (node, status) => { this.#tell(node, status, undefined) },
      isLive: (node) => this.#live(node.id, this.now()) === node,
      onReady: (node) => { if (node.attempt === 0) this.#lists.put(node, 'queued') },
    })
  }

  /** Returns the numbers of tasks and watches, and the bytes that `maxBytes` limits. */
  usage(): MemoryTaskEngineUsage {
    const { unfinished, bytes } = this.#callers
    return { tasks: this.#byId.size, unfinished, bytes, watches: this.#watches.size }
  }

  now(): number {
    return this.#offset + Math.floor(this.#clock.now())
  }

  create(task: NewTask, { transaction }: CreateOptions = {}): MaybePromise<Created> {
    if (transaction !== undefined) {
      return Promise.reject(new TypeError('transaction needs the engine of longhaul/postgres'))
    }
    const { id, key, caller, limit } = task
    const now = this.now()
    const existing = this.#live(id, now) ?? (key === undefined ? undefined : this.#liveByKey(key, now))
    if (existing) {
      const outcome = existing.birth === task.birth ? 'created' : 'exists'
      return { outcome, task: existing.toTask() }
    }
    const count = this.#callers.countOf(caller, limit)
    if (count === 'full') return { outcome: 'caller_full' }
    if (this.#callers.unfinished >= this.#limits.maxUnfinished) return { outcome: 'full' }
    const node = new StoredNode(task, now, count)
    if (!this.#callers.add(node)) return { outcome: 'full' }
    this.#byId.set(id, node)
    if (key !== undefined) this.#byKey.set(key, node)
    const { startAt } = node
    this.#lists.put(node, startAt === undefined ? 'queued' : 'scheduled')
    this.#scanner.start()
    this.#worker.schedule(node, startAt ?? now, now)
    this.#watches.notify(id)
    return { outcome: 'created', task: node.toTask() }
  }

  read(id: string): MaybePromise<StoredTask | undefined> {
    return this.#live(id, this.now())?.toTask()
  }

  readByKey(key: string): MaybePromise<StoredTask | undefined> {
    return this.#liveByKey(key, this.now())?.toTask()
  }

  change(ref: TaskRef, expected: Expected, change: TaskChange): MaybePromise<Changed> {
    const now = this.now()
    const node = this.#live(ref.id, now)
    if (node?.birth !== ref.birth) return { outcome: 'conflict', task: undefined }
    if (!node.holds(expected, change)) return { outcome: 'conflict', task: node.toTask() }
    const isRetry = isFinalStatus(node.status) && change.status === 'queued'
    if (isRetry) {
      const count = this.#callers.countOf(node.caller, change.limit)
      if (count === 'full') return { outcome: 'caller_full' }
      if (this.#callers.unfinished >= this.#limits.maxUnfinished) return { outcome: 'full' }
      node.count = count
    }
    this.#apply(node, expected, change, now)
    return { outcome: 'changed', task: node.toTask() }
  }

  delete(ref: TaskRef, version: number): MaybePromise<StoredTask | undefined> {
    const node = this.#live(ref.id, this.now())
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
    return this.#lists.page(query, ({ expiresAt }) => expiresAt <= now).map((node) => node.toTask())
  }

  counts(pool: string): MaybePromise<PoolCounts> {
    return this.#worker.counts(pool)
  }

  /**
   * Resolves when no task waits or runs, delayed tasks and retries included. Never rejects. Keeps
   * the process alive until then. In a Worker, `ctx.waitUntil(engine.idle())` lets work continue
   * after the response.
   */
  idle(): Promise<void> {
    return this.#worker.idle()
  }

  close({ drainMs }: { readonly drainMs: number }): Promise<void> {
    return this.#worker.close(drainMs)
  }

  #apply(node: StoredNode, expected: Expected, change: TaskChange, now: number): void {
    const { status: before, version } = node
    const { status } = change
    node.change(expected, change, now)
    if (change.hasFiles !== undefined) node.hasFiles = change.hasFiles
    if (change.files !== undefined) this.#callers.setFiles(node, change.files)
    if (change.checkpoint !== undefined) node.checkpoint = change.checkpoint ?? undefined
    if (status === 'completed') {
      node.input = undefined
      node.checkpoint = undefined
    }
    this.#tell(node, before, version)
    this.#callers.update(node, before)
    if (status !== undefined) this.#worker.endRun(node, 'run' in expected)
    if (status === 'queued') this.#worker.schedule(node, now + (change.delayMs ?? 0), now)
    if (change.callbackMs !== undefined) this.#worker.scheduleCallback(node, now)
  }

  /** Tells lists and watches of a change of a task that had this status and version. */
  #tell(node: StoredNode, before: TaskStatus, version: number | undefined): void {
    if (node.status !== before) this.#lists.put(node, node.status)
    if (node.version !== version) this.#watches.notify(node.id)
  }

  #live(id: string, now: number): StoredNode | undefined {
    const node = this.#byId.get(id)
    if (node === undefined || node.expiresAt > now) return node
    this.#drop(node)
    return undefined
  }

  #liveByKey(key: string, now: number): StoredNode | undefined {
    const node = this.#byKey.get(key)
    return node && this.#live(node.id, now)
  }

  #drop(node: StoredNode): void {
    const { id, key } = node
    this.#byId.delete(id)
    if (key !== undefined) this.#byKey.delete(key)
    this.#lists.remove(node)
    this.#callers.remove(node)
    this.#worker.remove(node)
    this.#watches.notify(id)
  }

  /** Visits all tasks. Reads the clock rarely, since it costs more than the rest. */
  *#walk(): Generator<boolean> {
    let left = this.#byId.size
    let now = this.now()
    for (const node of this.#byId.values()) {
      if (left-- === 0) return
      if (left % STEPS_PER_TIME === 0) now = this.now()
      const isOver = node.expiresAt <= now
      if (isOver) this.#drop(node)
      yield isOver
    }
  }
}
