import { Places, type PoolCounts as Counts, type RunLimits, type TaskEngine } from '../../engine/engine.js'
import type {
  Changed, Expected, FileShare, StoredTask, TaskChange, TaskStatus,
} from '../../engine/task.js'
import { isPending, type MaybePromise } from '../../runtime/maybe-promise.js'
import { OwnContext } from '../../runtime/own-context.js'
import { LinkedList, type Linked } from '../../runtime/collections.js'
import { setGlobalTimeout, settles } from '../../runtime/timers.js'
import { WorkerClosingError } from '../../engine/runs.js'
import { telling } from '../../runtime/warning.js'
import type { Blobs } from '../../stores/blobs.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import type { Tracing } from '../definition/tracing.js'
import {
  allFileKeys, fileKey, hiddenFileKeys, releaseExternal, renewExternal,
} from '../record/outside.js'
import { queueFull, tooManyTasks } from '../run/failure.js'
import {
  publishAccepted, publishMove, taskChannel, type OnTaskError,
} from '../record/diagnostics.js'
import type { Store } from '../../stores/store.js'
import { StoreRetry } from '../../stores/calls.js'
import { blobBytes, deleteBlobs } from '../../stores/blob-rules.js'
import { detailsOf, externalNames, isTaskId, workIdOf, type Details } from '../record/details.js'
import { Subscriptions, Waiters } from '../record/subscriptions.js'
import { DirectRuns } from '../run/run.js'

/** Time for which files and the input of a task may outlive the task, in milliseconds. */
export const MARGIN_MS = 3_600_000

/** Maximum time that a request or a run waits for `cancel` of its definition, in milliseconds. */
const CANCEL_MS = 1000

/** The options of `createTasks`, read and with their defaults. */
export interface CoreSettings {
  readonly engine: TaskEngine
  readonly store: Store
  readonly blobs: Blobs | undefined
  readonly definitions: ReadonlyMap<string, AnyTaskDefinition>
  /** Concurrency of each pool. */
  readonly pools: ReadonlyMap<string, number>
  /** Limits of the pools that have some. */
  readonly limits: ReadonlyMap<string, RunLimits>
  /** The pools that this process works for. */
  readonly work: readonly string[]
  readonly direct?: 'request' | 'task' | undefined
  readonly retentionMs: number
  readonly failedRetentionMs?: number | undefined
  readonly pendingMs: number
  readonly unknownTaskMs: number
  readonly maxInputBytes: number
  readonly maxResultBytes: number
  readonly maxFileBytes: number
  readonly maxFileBytesPerOwner: number
  readonly maxWaiters: number
  readonly maxWaitersPerOwner?: number | undefined
  readonly progressIntervalMs: number
  readonly maxCrashes: number
  readonly callbacks?: Callbacks | undefined
  readonly tracing?: Tracing | undefined
  readonly storeErrors: boolean
  readonly onError: OnTaskError
}

/** Numbers of unfinished tasks of one pool, in all processes. */
export interface PoolCounts extends Counts {
  readonly pool: string
  /** `true` if nothing begins in the pool until `tasks.resume`. */
  readonly isPaused: boolean
}

/** The state of one process. */
export interface TasksHealth {
  /** True if a task could be accepted now: the engine can write, and `close` was not called. */
  readonly ok: boolean
  /**
   * Error of the engine if it does not respond, or cannot write, for your log. Its `cause` may be the
   * error of the driver. Clients should not see them.
   */
  readonly error?: unknown
  /** Pools in which nothing begins until `tasks.resume`, in any process. */
  readonly pausedPools: readonly string[]
  /** Active runs, those of synchronous requests included. */
  readonly running: number
  /** Requests that wait for a task. */
  readonly waiting: number
}

/** A run of this process, for its close. */
export interface OwnRun extends Linked<OwnRun> {
  readonly isResumable: boolean
  abort(reason: unknown, graceMs: number): void
}

export interface Moved {
  readonly task: StoredTask | undefined
  /** `false`: another change came first. */
  readonly moved: boolean
}

/** The tasks of one `createTasks`: what all parts of one process share. */
export class TaskCore {
  readonly engine: TaskEngine
  readonly waiters: Waiters
  readonly subscriptions: Subscriptions
  readonly running = new LinkedList<OwnRun>()
  readonly directRuns = new DirectRuns()
  readonly places: Places
  readonly deliveries: CallbackDeliveries | undefined
  /** Places for synchronous requests, of the pools that this process does not work for. */
  private readonly directPlaces: Places
  /** Its abort ends all retries of `retry`. */
  readonly retries = new AbortController()
  readonly retry: StoreRetry
  /** The async context of `createTasks`. Functions that belong to no request are called in it. */
  readonly context = new OwnContext()
  /** Functions that end the schedules of definitions. */
  schedules: readonly (() => Promise<void>)[] = []
  isClosing = false
  private closing: Promise<void> | undefined

  constructor(readonly settings: CoreSettings) {
    const { engine, maxWaiters, maxWaitersPerOwner, pools, work, callbacks } = settings
    this.engine = engine
    this.retry = new StoreRetry(engine.shared, this.retries.signal)
    this.waiters = new Waiters(maxWaiters, maxWaitersPerOwner)
    this.subscriptions = new Subscriptions({
      read: (id) => this.read(id), watch: (id, listener) => engine.watch(id, listener),
    })
    this.places = new Places(new Map([...pools].filter(([name]) => work.includes(name))))
    this.directPlaces = new Places(new Map([...pools].filter(([name]) => !work.includes(name))))
    this.deliveries = callbacks?.open(this)
  }

  definition(name: string): AnyTaskDefinition | undefined {
    return this.settings.definitions.get(name)
  }

  /** Time for which a final task with this status is kept, in milliseconds. */
  retentionMs(name: string, status: TaskStatus): number {
    const { settings } = this
    const { retentionMs, failedRetentionMs } = this.definition(name) ?? {}
    const kept = retentionMs ?? settings.retentionMs
    return status === 'failed' ? failedRetentionMs ?? settings.failedRetentionMs ?? kept : kept
  }

  /** Maximum time for which a task is kept once it is final, in milliseconds. */
  longestRetentionMs(name: string): number {
    return Math.max(this.retentionMs(name, 'completed'), this.retentionMs(name, 'failed'))
  }

  async change(from: StoredTask, expected: Expected, change: TaskChange): Promise<Moved> {
    return this.moved(from, await this.engine.change(from, expected, change))
  }

  /** Makes a change. Retries for about five minutes while the engine is unavailable. */
  persist(from: StoredTask, expected: Expected, change: TaskChange): MaybePromise<Moved> {
    const changed = this.engine.change(from, expected, change)
    if (!isPending(changed)) return this.moved(from, changed)
    return this.retry.run(() => this.engine.change(from, expected, change), changed)
      .then((late) => this.moved(from, late))
  }

  /** Deletes what a final task no longer needs outside of the engine. Never rejects. */
  async cleanUp(task: StoredTask): Promise<void> {
    const { blobs, fileRuns } = detailsOf(task)
    await deleteBlobs(this.settings.blobs, hiddenFileKeys({ id: task.id, blobs, fileRuns }))
    const names = externalNames(detailsOf(task))
    if (names.length === 0) return
    const definition = this.definition(task.name)
    const resources = { names, task }
    if (task.status === 'completed') return releaseExternal(this.context, definition, resources)
    const ttlMs = this.retentionMs(task.name, task.status) + MARGIN_MS
    await renewExternal(this.context, definition, resources, ttlMs).catch(() => undefined)
  }

  /** Stops what the newest run of a task has started in another system. Never rejects. */
  async cancelWork(task: StoredTask): Promise<void> {
    const { cancel } = this.definition(task.name) ?? {}
    if (cancel === undefined || task.run === 0) return
    const cancelled = this.context.run(async () => { await cancel(workIdOf(task)) })
      .catch((error: unknown) => { this.report(error, task) })
    await settles(cancelled, CANCEL_MS)
  }

  /** Deletes all data of a task outside of the engine. Never rejects. */
  async removeFiles(task: StoredTask): Promise<boolean> {
    const { blobs, fileRuns } = detailsOf(task)
    await deleteBlobs(this.settings.blobs, allFileKeys({ id: task.id, blobs, fileRuns }))
    const names = externalNames(detailsOf(task))
    if (names.length > 0) await releaseExternal(this.context, this.definition(task.name), { names, task }, true)
    return true
  }

  /** Reports a failure to `onError`, which cannot change how a task ends. */
  report(error: unknown, { id: taskId, name, attempt }: Pick<StoredTask, 'id' | 'name' | 'attempt'>): void {
    this.context.run(() => {
      telling(() => this.settings.onError(error, { taskId, name, attempt }))
    })
  }

  /** @throws {TypeError} The definition is not registered. */
  mustHave(definition: AnyTaskDefinition): void {
    if (definition && this.definition(definition.name) === definition) return
    const name = definition?.name
    throw new TypeError(name === undefined
      ? 'pass a definition that createTasks has; tasks.definition(name) finds it by its name'
      : `${name} is not among the definitions of createTasks; add it there`)
  }

  /** Places for synchronous requests; `undefined` if they become tasks in this process. */
  directPlacesOf(pool: string): Places | undefined {
    const { settings: { direct, work }, places, directPlaces } = this
    if (work.includes(pool)) return direct === 'task' ? undefined : places
    return direct === 'request' ? directPlaces : undefined
  }

  /**
   * Returns true for a pool that this process does not work for: no worker of this process reads
   * its pauses.
   */
  hasForeignPauses(pool: string): boolean {
    return this.settings.direct === 'request' && this.directPlaces.pools.has(pool)
  }

  /** Notes the paused pools for synchronous requests. */
  async readPauses(): Promise<void> {
    this.directPlaces.setPaused(await this.engine.pausedPools())
  }

  /** Throws 400 `invalid_callback_url` or `callback_url_forbidden`, or a `TypeError`. */
  async checkCallback(url: unknown, owner: string | undefined): Promise<string> {
    if (this.deliveries === undefined) throw noCallbacks()
    return this.deliveries.check(url, owner)
  }

  read(id: string): MaybePromise<StoredTask | undefined> {
    return isTaskId(id) ? this.engine.read(id) : undefined
  }

  async redeliver(id: string, unlessPending = false): Promise<boolean> {
    if (this.deliveries === undefined) throw noCallbacks()
    return isTaskId(id) && this.deliveries.redeliver(id, unlessPending)
  }

  async counts(): Promise<PoolCounts[]> {
    const { engine, settings: { pools } } = this
    const paused = await engine.pausedPools()
    return Promise.all([...pools.keys()].map(async (pool) => (
      { pool, isPaused: paused.includes(pool), ...await engine.counts(pool) }
    )))
  }

  /** @throws {TypeError} There is no pool of this name. */
  async setPaused(pool: string, isPaused: boolean): Promise<void> {
    const { engine, settings: { pools } } = this
    if (!pools.has(pool)) {
      const call = isPaused ? 'pause' : 'resume'
      throw new TypeError(`tasks.${call}: the pool must be one of ${[...pools.keys()].join(', ')}, not ${String(pool)}`)
    }
    await engine.setPaused(pool, isPaused)
  }

  async health(): Promise<TasksHealth> {
    const failure = await this.failureOfEngine()
    const { engine } = this
    const pausedPools = failure === undefined && !this.closing
      ? await Promise.resolve(engine.pausedPools()).catch(() => []) : []
    return {
      ok: !this.closing && failure === undefined, ...failure, pausedPools,
      running: this.running.size + this.directRuns.size, waiting: this.waiters.size,
    }
  }

  private async failureOfEngine(): Promise<{ readonly error: unknown } | undefined> {
    if (this.closing) return undefined
    try {
      const { engine } = this
      await (engine.probe ? engine.probe() : engine.now())
      return undefined
    } catch (error) {
      return { error }
    }
  }

  close(drainMs: number): Promise<void> {
    this.closing ??= this.drain(drainMs)
    return this.closing
  }

  private async drain(drainMs: number): Promise<void> {
    this.isClosing = true
    const firings = Promise.all(this.schedules.map((end) => end()))
    // After the drain time nothing waits for an unavailable engine, or for a receiver of a callback.
    const endWaiting = () => {
      this.retries.abort()
      this.deliveries?.close()
    }
    const timer = setGlobalTimeout(endWaiting, drainMs)
    const direct = this.directRuns.close(drainMs)
    // Another process continues these runs from their checkpoints.
    for (const run of this.running) {
      if (run.isResumable) run.abort(new WorkerClosingError(), drainMs)
    }
    try {
      await this.engine.close({ drainMs })
    } finally {
      clearTimeout(timer)
      endWaiting()
      this.waiters.close()
      await direct
      // A firing that has submitted its task notes it before the application closes the store.
      if (this.schedules.length > 0) await settles(firings, drainMs)
    }
  }

  private moved(from: StoredTask, changed: Changed): Moved {
    if (changed.outcome === 'conflict') return { task: changed.task, moved: false }
    if (changed.outcome === 'caller_full') throw tooManyTasks()
    if (changed.outcome === 'full') throw queueFull()
    if (taskChannel.hasSubscribers) {
      if (from.status === 'queued' && from.run === 0) publishCommitted(from)
      publishMove(from, changed.task)
    }
    return { task: changed.task, moved: true }
  }
}

/** Publishes that a task was accepted in a transaction. Call it at the first step of the task. */
export function publishCommitted(task: StoredTask): void {
  if (detailsOf(task).isTransactional) publishAccepted(task)
}

export function noCallbacks(): TypeError {
  return new TypeError('A task with a callback URL needs the option callbacks of createTasks: '
    + 'pass callbacks({ secrets }) of longhaul/callbacks')
}

/** The option `callbacks` of `createTasks`, made by `callbacks()` of `longhaul/callbacks`. */
export interface Callbacks {
  /** @internal */
  readonly concurrency: number
  /** @internal */
  readonly open: (core: TaskCore) => CallbackDeliveries
}

export interface CallbackDeliveries {
  /** Throws an `HttpError`, or a `TypeError` if there is no secret to sign with. */
  check(url: unknown, owner: string | undefined): Promise<string>
  /** Makes one attempt at the callback of a task. Never rejects. */
  deliver(task: StoredTask): Promise<void>
  /** `false`: there is no callback, or, with `unlessPending`, a round of attempts is under way. */
  redeliver(id: string, unlessPending: boolean): Promise<boolean>
  /** Aborts all requests. */
  close(): void
}

export function hasOutside({ external, blobs, fileRuns }: Details): boolean {
  return external !== undefined || blobs !== undefined || fileRuns !== undefined
}

/** Returns the bytes that a task keeps outside of the engine with this status. Never rejects. */
export async function outsideFiles(
  core: TaskCore, task: StoredTask, details: Details, status: TaskStatus,
): Promise<FileShare | undefined> {
  const { blobs, maxFileBytesPerOwner: max } = core.settings
  const { id, name, attempt } = task
  const { parts, files, blobs: kept = [] } = details
  const names = externalNames(details)
  const count = names.length === 0 ? undefined : core.definition(name)?.external?.bytes
  if (count === undefined && kept.length === 0) return undefined
  try {
    let bytes = 0
    for (const external of count === undefined ? [] : names) {
      bytes += await core.context.run(() => count?.(external, { id, attempt, status, parts })) ?? 0
    }
    const sizes = status === 'completed' || !blobs
      ? files?.map(({ size }) => size) ?? []
      : await blobBytes(blobs, kept.map((blob) => fileKey(id, blob)))
    for (const size of sizes) bytes += size
    // `bytes` of `external` may return anything.
    return Number.isSafeInteger(bytes) && bytes >= 0 ? { bytes, max } : undefined
  } catch {
    return undefined
  }
}
