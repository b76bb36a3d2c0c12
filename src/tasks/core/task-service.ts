import { httpError } from '../../http/errors.js'
import { Places, type TaskEngine, type TaskQuery, type TaskRun } from '../../engine/engine.js'
import { WorkerClosingError } from '../../engine/runs.js'
import type { StoredTask } from '../../engine/task.js'
import { Json } from '../../runtime/json.js'
import { after, type MaybePromise } from '../../runtime/maybe-promise.js'
import type { Blobs } from '../../stores/blobs.js'
import type { Store } from '../../stores/store.js'
import { MAX_TIMER_MS } from '../../runtime/options.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import { readCursor, toCursor, type ListFilter } from '../lists.js'
import { readTasksOptions, type TasksOptions } from '../tasks-options.js'
import { toSnapshot, type TaskSnapshot } from '../record/snapshot.js'
import { isTaskId } from '../record/ids.js'
import { reportingTo } from '../record/diagnostics.js'
import {
  Subscriptions, Waiters, waitFor, type VisibleWaitOptions,
} from '../record/subscriptions.js'
import { DirectRuns } from '../run/stop.js'
import { validateInput } from '../run/run.js'
import { TaskCore, noCallbacks, type CallbackDeliveries } from './task-core.js'
import {
  acceptTask, startOf, type AcceptedTask, type OwnedSubmitOptions, type Submitted,
} from './accept-task.js'
import {
  abandonTask, cancelTask, deleteTask, retryTask, type Condition, type Deleted, type MaySee,
  type RetryRequest,
} from './change-task.js'
import { toPools, type PoolCounts, type Pools } from './pools.js'
import { LinkedList } from '../../runtime/collections.js'
import { RunningTask } from './run-task.js'

/**
 * Accepts tasks, runs them and shows them. Internal: applications have `Tasks`, and `serviceOf`
 * finds the service behind it for endpoints.
 */
export class TaskService {
  readonly core: TaskCore
  /** Limits how many long polls and event streams wait at once. */
  readonly waiters: Waiters
  readonly subscriptions: Subscriptions
  readonly directRuns = new DirectRuns()
  /** Places for runs that queued tasks and synchronous requests share. */
  private readonly places: Places
  /** Places for runs of synchronous requests, of the pools that this process does not work for. */
  private readonly directPlaces: Places
  private readonly deliveries: CallbackDeliveries | undefined
  private readonly running = new LinkedList<RunningTask>()
  private closing: Promise<void> | undefined

  readonly store: Store
  readonly blobs: Blobs | undefined
  readonly retentionMs: number
  readonly pendingMs: number
  readonly maxInputBytes: number
  readonly maxResultBytes: number
  private readonly pools: Pools
  private readonly direct: TasksOptions['direct']

  constructor(given: TasksOptions) {
    const options = readTasksOptions(given)
    const { engine, store, blobs, definitions, callbacks } = options
    this.store = store
    this.blobs = blobs
    this.direct = options.direct
    this.retentionMs = options.retentionMs
    this.pendingMs = options.pendingMs
    this.maxInputBytes = options.maxInputBytes
    this.maxResultBytes = options.maxResultBytes
    const { retentionMs, pendingMs, maxResultBytes } = this
    this.core = new TaskCore({
      engine, blobs, retentionMs, pendingMs, maxResultBytes,
      definitions: new Map(definitions.map((definition) => [definition.name, definition])),
      unknownTaskMs: options.unknownTaskMs,
      maxFileBytes: options.maxFileBytes,
      maxFileBytesPerOwner: options.maxFileBytesPerOwner ?? (blobs?.maxBytes ?? 40 * 2 ** 30) / 4,
      progressIntervalMs: options.progressIntervalMs,
      maxCrashes: options.maxCrashes,
      hasCallbacks: callbacks !== undefined,
      onError: reportingTo(options.onError),
    })
    this.pools = toPools(options)
    const { pools, work } = this.pools
    this.waiters = new Waiters(options.maxWaiters, options.maxWaitersPerOwner)
    this.subscriptions = new Subscriptions({
      read: (id) => this.read(id), watch: (id, listener) => engine.watch(id, listener),
    })
    this.places = new Places(new Map([...pools].filter(([name]) => work.includes(name))))
    this.directPlaces = new Places(new Map([...pools].filter(([name]) => !work.includes(name))))
    this.deliveries = callbacks?.open(this.core)
    if (work.length === 0) return
    engine.work({ places: this.places, callbacks: callbacks?.concurrency ?? 0 }, {
      run: (run) => this.run(run),
      callback: async (task) => this.deliveries?.deliver(task),
      remove: (task) => this.core.removeFiles(task),
      abandon: (task) => abandonTask(this.core, task),
    })
  }

  get isClosing(): boolean { return this.core.isClosing }
  get hasCallbacks(): boolean { return this.deliveries !== undefined }

  definition(name: string): AnyTaskDefinition | undefined {
    return this.core.definition(name)
  }

  /** Throws a `TypeError` unless the definition is registered. */
  mustHave(definition: AnyTaskDefinition): void {
    if (definition && this.definition(definition.name) === definition) return
    const name = definition?.name
    throw new TypeError(name === undefined
      ? 'pass a definition that createTasks has; tasks.definition(name) finds it by its name'
      : `${name} is not among the definitions of createTasks; add it there`)
  }

  /**
   * Returns the places for synchronous requests of this pool; `undefined` if this process does not
   * do their work itself.
   */
  directPlacesOf(pool: string): Places | undefined {
    const { direct, places, directPlaces, pools: { work } } = this
    if (work.includes(pool)) return direct === 'task' ? undefined : places
    return direct === 'request' ? directPlaces : undefined
  }

  /** Validates input and callback URL, then accepts the task. See `Tasks.submit` for errors. */
  async submit(
    definition: AnyTaskDefinition, input: unknown,
    { startAt, delayMs, ...submitted }: Submitted & Pick<OwnedSubmitOptions, 'startAt' | 'delayMs'>,
  ): Promise<AcceptedTask> {
    // A copy, so that later changes by the caller have no effect. What does not survive JSON shows
    // at once.
    const text = JSON.stringify(input) as string | undefined
    if (text !== undefined && Buffer.byteLength(text) > this.maxInputBytes) {
      throw httpError('body_too_large')
    }
    const copy: unknown = text === undefined ? undefined : JSON.parse(text)
    await this.validate(definition, copy)
    const { callbackUrl, owner } = submitted
    if (callbackUrl !== undefined) await this.checkCallback(callbackUrl, owner)
    const start = await startOf(this.core.engine, { startAt, delayMs })
    const json = text === undefined ? undefined : Json.of(copy, text)
    return this.accept(definition, copy, { ...submitted, start, json })
  }

  /** Validates input by the schema and `check` of its definition. Throws what clients may see. */
  async validate(definition: AnyTaskDefinition, input: unknown): Promise<void> {
    this.mustHave(definition)
    if (definition.input || definition.check) await validateInput(definition, input)
  }

  /**
   * Checks the callback URL of a task of this owner.
   *
   * @throws {HttpError} 400 `invalid_callback_url` or `callback_url_forbidden`
   * @throws {TypeError} `createTasks` has no `callbacks`, or no secret for this owner
   */
  async checkCallback(url: unknown, owner: string | undefined): Promise<string> {
    return this.requireDeliveries().check(url, owner)
  }

  /** Accepts a task whose input and callback URL were validated. */
  accept(
    definition: AnyTaskDefinition, input: unknown, submitted: Submitted,
  ): MaybePromise<AcceptedTask> {
    return acceptTask(this.core, definition, input, submitted)
  }

  /** Returns the time of the engine, in milliseconds since 1970. */
  async now(): Promise<number> {
    return this.core.engine.now()
  }

  /** Reads a task, whoever owns it. Returns no promise if the engine does not. */
  read(id: string): MaybePromise<TaskSnapshot | undefined> {
    return isTaskId(id) ? after(this.core.read(id), toSnapshotOf) : undefined
  }

  /** Returns the pool in which a task waits or was run; `undefined` if there is no such task. */
  async poolOfTask(id: string): Promise<string | undefined> {
    return (await this.core.read(id))?.pool
  }

  /** Waits until a task is final, for up to `timeoutMs`. The process stays alive meanwhile. */
  async wait(
    id: string, options: Omit<VisibleWaitOptions, 'isVisible'>,
    isVisible: VisibleWaitOptions['isVisible'],
  ): Promise<TaskSnapshot | undefined> {
    if (!isTaskId(id)) return undefined
    return waitFor(this.subscriptions, id, { ...options, isVisible }, true)
  }

  /** Cancels a task. `moved` is `false` if it was final before. See `cancelTask`. */
  async cancel(
    id: string, maySee: MaySee, check?: Condition,
  ): Promise<{ readonly task: TaskSnapshot, readonly moved: boolean } | undefined> {
    const cancelled = await cancelTask(this.core, id, maySee, check)
    return cancelled && { ...cancelled, task: toSnapshot(cancelled.task) }
  }

  /** Retries a failed or cancelled task. See `retryTask`. */
  async retry(id: string, request: RetryRequest): Promise<TaskSnapshot | undefined> {
    const task = await retryTask(this.core, id, request)
    return task && toSnapshot(task)
  }

  /**
   * Sends the callback of a final task again. See `Tasks.redeliver`.
   *
   * @param unlessPending - `true`: does nothing while a delivery is under way
   */
  async redeliver(id: string, unlessPending = false): Promise<boolean> {
    const deliveries = this.requireDeliveries()
    return isTaskId(id) && deliveries.redeliver(id, unlessPending)
  }

  /** Deletes a final task. See `deleteTask`. */
  forget(id: string, maySee: MaySee, check?: Condition): Promise<Deleted> {
    return deleteTask(this.core, id, maySee, check)
  }

  /** Returns a page of tasks. See `listTasks`. */
  list(filter: ListFilter, cursor: string | undefined): Promise<SnapshotPage> {
    return listTasks(this.core.engine, filter, cursor)
  }

  async counts(): Promise<PoolCounts[]> {
    const { engine } = this.core
    return Promise.all([...this.pools.pools.keys()].map(async (pool) => (
      { pool, ...await engine.counts(pool) }
    )))
  }

  /** Reports whether the engine answers, and the load of this process. Never rejects. */
  async health(): Promise<{ readonly ok: boolean, readonly running: number, readonly waiting: number }> {
    const ok = !this.closing && await this.isReachable()
    return { ok, running: this.running.size + this.directRuns.size, waiting: this.waiters.size }
  }

  /** Drains this process. See `Tasks.close`. */
  close(drainMs: number): Promise<void> {
    this.closing ??= this.drain(drainMs)
    return this.closing
  }

  private async drain(drainMs: number): Promise<void> {
    this.core.isClosing = true
    // After the drain time nothing waits for an engine that is away, or for a receiver of a callback.
    const endWaiting = () => {
      this.core.retry.stop()
      this.deliveries?.close()
    }
    const timer = setTimeout(endWaiting, Math.min(drainMs, MAX_TIMER_MS))
    const direct = this.directRuns.close(drainMs)
    for (const run of this.running) this.handOver(run, drainMs)
    try {
      await this.core.engine.close({ drainMs })
    } finally {
      clearTimeout(timer)
      endWaiting()
      this.waiters.close()
      await direct
    }
  }

  private run(run: TaskRun): Promise<void> {
    return new RunningTask(this.core, run, this.running).perform()
  }

  /** Lets another process continue a run from its checkpoint, because this one closes. */
  private handOver(run: RunningTask, graceMs: number): void {
    if (run.isResumable) run.abort(new WorkerClosingError(), graceMs)
  }

  private async isReachable(): Promise<boolean> {
    try {
      await this.core.engine.now()
      return true
    } catch {
      return false
    }
  }

  private requireDeliveries(): CallbackDeliveries {
    if (this.deliveries) return this.deliveries
    throw noCallbacks()
  }
}

function toSnapshotOf(task: StoredTask | undefined): TaskSnapshot | undefined {
  return task && toSnapshot(task)
}

/** Maximum number of tasks that are read together. */
const READ_TOGETHER = 64
/**
 * Length of the tasks after which a page ends, in UTF-16 units. A result may have a megabyte, so 200
 * tasks would have 200.
 */
const MAX_LENGTH = 4 * 1024 * 1024

export interface SnapshotPage {
  readonly items: TaskSnapshot[]
  /** Cursor of the next page; `undefined` on the last one. */
  readonly next: string | undefined
}

/**
 * Returns a page of tasks, up to the limit of the filter. A page of long tasks ends early, at
 * `MAX_LENGTH`.
 *
 * @throws {HttpError} 400 `invalid_cursor`
 */
export async function listTasks(
  engine: TaskEngine, filter: ListFilter, cursor: string | undefined,
): Promise<SnapshotPage> {
  let after: TaskQuery['after'] = cursor === undefined ? undefined : readCursor(cursor, filter)
  const items: TaskSnapshot[] = []
  let length = 0
  for (;;) {
    // One more than is shown, which tells whether there is another page.
    const limit = Math.min(filter.limit + 1 - items.length, READ_TOGETHER)
    const tasks = await engine.list({ ...filter, limit, after })
    for (const task of tasks) {
      const item = toSnapshot(task)
      const last = items.at(-1)
      length += item.text.length
      if (last && (items.length === filter.limit || length > MAX_LENGTH)) {
        return { items, next: toCursor(last, filter) }
      }
      items.push(item)
    }
    if (tasks.length < limit) return { items, next: undefined }
    after = tasks.at(-1)
  }
}
