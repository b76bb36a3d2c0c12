import { Places, type PoolCounts as Counts } from '../../engine/engine.js'
import { WorkerClosingError } from '../../engine/runs.js'
import type { StoredTask } from '../../engine/task.js'
import { httpError } from '../../http/errors.js'
import { LinkedList } from '../../runtime/collections.js'
import { Json } from '../../runtime/json.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import { setGlobalTimeout, settles } from '../../runtime/timers.js'
import { WORKER_ID } from '../../runtime/warning.js'
import { StoreUnavailableError } from '../../stores/store.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import { reportingTo } from '../record/diagnostics.js'
import { isTaskId } from '../record/details.js'
import { Subscriptions, Waiters } from '../record/subscriptions.js'
import { toInput, DirectRuns } from '../run/run.js'
import { readTasksOptions, type TasksOptions, type TasksSettings } from '../tasks-options.js'
import {
  acceptTask, startOf, type AcceptedTask, type OwnedSubmitOptions, type Submission,
} from './accept-task.js'
import { abandonTask } from './change-task.js'
import { RunningTask } from './run-task.js'
import { TaskCore, noCallbacks, type CallbackDeliveries } from './task-core.js'

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

/** Accepts tasks, runs them and shows them. */
export class TaskService {
  readonly settings: TasksSettings
  readonly core: TaskCore
  readonly waiters: Waiters
  readonly subscriptions: Subscriptions
  readonly directRuns = new DirectRuns()
  private readonly places: Places
  /** Places for synchronous requests, of the pools that this process does not work for. */
  private readonly directPlaces: Places
  private readonly deliveries: CallbackDeliveries | undefined
  private readonly running = new LinkedList<RunningTask>()
  private readonly schedules: readonly (() => Promise<void>)[] = []
  private closing: Promise<void> | undefined

  constructor(options: TasksOptions) {
    const settings = readTasksOptions(options)
    const { engine, blobs, definitions, callbacks, pools, work } = settings
    this.settings = settings
    this.core = new TaskCore({
      ...settings, blobs,
      definitions: new Map(definitions.map((definition) => [definition.name, definition])),
      maxFileBytesPerOwner: settings.maxFileBytesPerOwner ?? (blobs?.maxBytes ?? 40 * 2 ** 30) / 4,
      hasCallbacks: callbacks !== undefined,
      tracing: settings.tracing,
      onError: reportingTo(settings.onError),
    })
    this.waiters = new Waiters(settings.maxWaiters, settings.maxWaitersPerOwner)
    this.subscriptions = new Subscriptions({
      read: (id) => this.read(id), watch: (id, listener) => engine.watch(id, listener),
    })
    this.places = new Places(new Map([...pools].filter(([name]) => work.includes(name))))
    this.directPlaces = new Places(new Map([...pools].filter(([name]) => !work.includes(name))))
    this.deliveries = callbacks?.open(this.core)
    if (work.length === 0) return
    engine.work({ places: this.places, callbacks: callbacks?.concurrency ?? 0, limits: settings.limits }, {
      run: (run) => new RunningTask(this.core, run, this.running).perform(),
      callback: async (task) => this.deliveries?.deliver(task),
      remove: (task) => this.core.removeFiles(task),
      abandon: (task) => abandonTask(this.core, task),
      outage: (error) => { this.core.report(outageOf(error), { id: WORKER_ID, name: 'worker', attempt: 0 }) },
    })
    this.schedules = definitions.flatMap((definition) => {
      const { name, schedule, pool } = definition
      if (schedule === undefined || !work.includes(pool)) return []
      return schedule.begin({
        name, store: settings.store, now: () => engine.now(),
        submit: (id, input) => this.submit(definition, input, { id, owner: undefined, caller: undefined }),
        onError: (error) => { this.core.report(error, { id: `schedule:${name}`, name, attempt: 0 }) },
      })
    })
  }

  /** @throws {TypeError} The definition is not registered. */
  mustHave(definition: AnyTaskDefinition): void {
    if (definition && this.core.definition(definition.name) === definition) return
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

  /** Returns true for a pool that this process does not work for, so that no worker notes its pauses. */
  hasForeignPauses(pool: string): boolean {
    return this.settings.direct === 'request' && this.directPlaces.pools.has(pool)
  }

  /** Notes the paused pools for synchronous requests. */
  async readPauses(): Promise<void> {
    this.directPlaces.setPaused(await this.settings.engine.pausedPools())
  }

  /** Validates input and callback URL, then accepts the task. See `Tasks.submit` for errors. */
  async submit(
    definition: AnyTaskDefinition, input: unknown,
    options: OwnedSubmitOptions & Pick<Submission, 'owner' | 'caller'>,
  ): Promise<AcceptedTask> {
    // A copy, so that later changes by the caller have no effect. What does not survive JSON shows
    // at once.
    const text = JSON.stringify(input) as string | undefined
    if (text !== undefined && Buffer.byteLength(text) > this.settings.maxInputBytes) {
      throw httpError('body_too_large')
    }
    const copy: unknown = text === undefined ? undefined : JSON.parse(text)
    this.mustHave(definition)
    const valid = definition.input ? await toInput(definition, copy) : copy
    if (definition.check) await definition.check(valid)
    const { callbackUrl, owner, startAt, delayMs, ...others } = options
    if (callbackUrl !== undefined) await this.checkCallback(callbackUrl, owner)
    const start = await startOf(this.core.engine, { startAt, delayMs })
    const json = text === undefined ? undefined : Json.of(copy, text)
    return acceptTask(this.core, { ...others, definition, input: copy, json, owner, callbackUrl }, start)
  }

  /** Throws 400 `invalid_callback_url` or `callback_url_forbidden`, or a `TypeError`. */
  async checkCallback(url: unknown, owner: string | undefined): Promise<string> {
    if (this.deliveries === undefined) throw noCallbacks()
    return this.deliveries.check(url, owner)
  }

  read(id: string): MaybePromise<StoredTask | undefined> {
    return isTaskId(id) ? this.core.engine.read(id) : undefined
  }

  async redeliver(id: string, unlessPending = false): Promise<boolean> {
    if (this.deliveries === undefined) throw noCallbacks()
    return isTaskId(id) && this.deliveries.redeliver(id, unlessPending)
  }

  async counts(): Promise<PoolCounts[]> {
    const { engine, pools } = this.settings
    const paused = await engine.pausedPools()
    return Promise.all([...pools.keys()].map(async (pool) => (
      { pool, isPaused: paused.includes(pool), ...await engine.counts(pool) }
    )))
  }

  /** @throws {TypeError} There is no pool of this name. */
  async setPaused(pool: string, isPaused: boolean): Promise<void> {
    const { engine, pools } = this.settings
    if (!pools.has(pool)) {
      const call = isPaused ? 'pause' : 'resume'
      throw new TypeError(`tasks.${call}: the pool must be one of ${[...pools.keys()].join(', ')}, not ${String(pool)}`)
    }
    await engine.setPaused(pool, isPaused)
  }

  async health(): Promise<TasksHealth> {
    const failure = await this.failureOfEngine()
    const { engine } = this.settings
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
      const { engine } = this.settings
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
    this.core.isClosing = true
    const firings = Promise.all(this.schedules.map((end) => end()))
    // After the drain time nothing waits for an unavailable engine, or for a receiver of a callback.
    const endWaiting = () => {
      this.core.retries.abort()
      this.deliveries?.close()
    }
    const timer = setGlobalTimeout(endWaiting, drainMs)
    const direct = this.directRuns.close(drainMs)
    // Another process continues these runs from their checkpoints.
    for (const run of this.running) {
      if (run.isResumable) run.abort(new WorkerClosingError(), drainMs)
    }
    try {
      await this.settings.engine.close({ drainMs })
    } finally {
      clearTimeout(timer)
      endWaiting()
      this.waiters.close()
      await direct
      // A firing that has submitted its task notes it before the application closes the store.
      if (this.schedules.length > 0) await settles(firings, drainMs)
    }
  }
}

/** Returns the error of a worker that finds or takes no tasks. Its `cause` is that of the driver. */
function outageOf(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  return new StoreUnavailableError(
    `This process takes no tasks until the task engine works again: ${error.message}`,
    { cause: error.cause ?? error },
  )
}
