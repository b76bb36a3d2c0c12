import { httpError } from '../http/errors.js'
import { after, type MaybePromise } from '../runtime/maybe-promise.js'
import { newId } from '../runtime/random-id.js'
import { DEFAULT_POOL } from '../queues/queue-pools.js'
import type { ProcessOptions, Queue, RunJob } from '../queues/queue.js'
import type { Blobs } from '../stores/blobs.js'
import type { Store } from '../stores/store.js'
import type { TaskIndex } from '../stores/task-index.js'
import type { Transaction } from '../stores/transaction.js'
import { checkOptions } from './check-options.js'
import { MAX_TIMER } from './definition/bounds.js'
import type { AnyTaskDefinition } from './definition/define.js'
import type { Accepted } from './intake/accept-task.js'
import { Intake } from './intake/intake.js'
import { queueTime } from './intake/start-time.js'
import type { OpenTransaction } from './intake/open-transaction.js'
import type { AcceptOptions } from './intake/submit-options.js'
import { TaskLister } from './list-tasks.js'
import { CALLBACK_JOB, noCallbacks, type CallbackDispatcher } from './record/callbacks.js'
import type { TaskSnapshot } from './record/codec.js'
import { Subscriptions } from './record/subscriptions.js'
import { isTaskId, jobId, taskKey } from './record/ids.js'
import { Ledger } from './record/ledger.js'
import type { IsVisible } from './record/owner.js'
import type { TaskRecord } from './record/record.js'
import { StoreIdentity } from './record/store-identity.js'
import { reportingTo } from './record/report-error.js'
import { waitFor, type VisibleWaitOptions } from './record/wait.js'
import { Waiters } from './record/waiters.js'
import type { ExecutorSettings } from './run/executor-settings.js'
import { endCheckpoint } from './run/checkpoint-entry.js'
import { runCallback } from './run/run-callback.js'
import { cancelTask, type Cancelled } from './run/cancel-task.js'
import { DirectRuns } from './run/direct-runs.js'
import { Executor } from './run/execute.js'
import { forgetTask, type Forgotten, type Precondition } from './run/forget-task.js'
import { HandBacks } from './run/hand-back.js'
import { holdingInput } from './run/input-memory.js'
import { Leases } from './run/leases.js'
import { retryTask, type RetryRequest } from './run/retry-task.js'
import { validateInput } from './run/run.js'
import { Pools } from './run/pools.js'
import { Sweep } from './run/sweep.js'
import { needsCleanup, cleanUp } from './run/cleanup.js'
import type { TasksHealth } from './service-types.js'
import type { TasksOptions } from './tasks-options.js'

/**
 * Accepts tasks, keeps their records and runs them. Internal: applications have `Tasks`, and
 * `serviceOf` finds the service behind it for endpoints.
 */
export class TaskService {
  readonly store: Store
  readonly blobs: Blobs | undefined
  /** Limits how many long polls and event streams wait at once. */
  readonly waiters: Waiters
  /** The tasks that long polls, event streams and `wait` watch. */
  readonly subscriptions: Subscriptions
  /** The active runs of direct answers. */
  readonly directRuns = new DirectRuns()
  /** Pools, with the slots for runs that queued tasks and direct answers share. */
  readonly pools: Pools
  readonly lister: TaskLister
  readonly maxInputBytes: number
  readonly maxResultBytes: number
  readonly retentionMs: number
  readonly pendingMs: number
  private readonly ledger: Ledger
  private readonly executor: Executor
  private readonly dispatcher: CallbackDispatcher | undefined
  private readonly leases: Leases | undefined
  private readonly settings: ExecutorSettings
  readonly intake: Intake
  private readonly queue: Queue
  private readonly index: TaskIndex | undefined
  private sweep: Sweep | undefined
  private closing: Promise<void> | undefined

  constructor(options: TasksOptions) {
    checkOptions(options)
    const {
      store, queue, index, definitions, worker = true, concurrency = 10, retentionMs = 86_400_000,
      sweepMs = 30_000, unknownTaskMs = 3_600_000,
    } = options
    const onError = reportingTo(options.onError)
    this.store = store
    this.blobs = options.blobs
    this.retentionMs = retentionMs
    this.pendingMs = options.pendingMs ?? 7 * 86_400_000
    this.maxInputBytes = options.maxInputBytes ?? 1_048_576
    this.maxResultBytes = options.maxResultBytes ?? 1_048_576
    this.pools = new Pools(options)
    this.waiters = new Waiters(options.maxWaiters ?? 1000, options.maxWaitersPerOwner)
    const holder = store.shared && !queue.durable ? newId() : undefined
    this.lister = new TaskLister(index, (ids) => Promise.all(ids.map(async (id) => this.read(id))))
    this.ledger = new Ledger(store, holder, index)
    this.subscriptions = new Subscriptions({
      read: (id) => this.read(id), watch: (id, listener) => store.watch(taskKey(id), listener),
    })
    const identity = new StoreIdentity(store)
    const { ledger, maxResultBytes, pendingMs } = this
    this.queue = queue
    this.index = index
    const byName = new Map(definitions.map((definition) => [definition.name, definition]))
    this.intake = new Intake({
      ledger, queue, index, identity, pendingMs, retentionMs, sweepMs, definitions: byName,
      hasCallbacks: options.callbacks !== undefined, isWorker: worker, isClosing: () => this.isClosing,
    })
    this.settings = {
      ledger, durable: queue.durable, retentionMs, unknownTaskMs, onError, identity,
      definitions: byName,
      handBacks: new HandBacks(onError), onFinal: (record) => this.afterFinal(record),
      maxResultBytes, progressIntervalMs: options.progressIntervalMs ?? 200,
      blobs: options.blobs, maxFileBytes: options.maxFileBytes ?? 10 * 2 ** 30,
    }
    const executor = this.executor = new Executor(this.settings)
    this.dispatcher = options.callbacks?.open({
      ledger, shared: store.shared, queue, concurrency, onError, storeId: () => identity.read(),
    })
    if (holder !== undefined) {
      const { leaseMs = 15_000 } = options
      this.leases = new Leases(store, holder, (...task) => executor.interrupt(...task), leaseMs)
    }
    if (!worker) return
    this.startWork()
    const sweepSettings = { ...this.settings, queue, sweepMs, executor, leases: this.leases }
    if (index) this.sweep = new Sweep({ ...sweepSettings, index })
    this.dispatcher?.startProcessing(this.runCallback, this.onDead)
  }

  private startWork(): void {
    this.pools.work((queue, slots) => {
      const run: RunJob = (job, attempt) => (
        job.name === CALLBACK_JOB ? this.runCallback(job, attempt)
          : holdingInput(job, attempt, () => (
            slots.run(attempt, () => this.executor.run(job, attempt))
          ))
      )
      queue.process(run, { concurrency: slots.count, onDead: this.onDead })
    })
  }

  get isClosing(): boolean {
    return this.closing !== undefined
  }

  /** Returns whether tasks may have callbacks. */
  get hasCallbacks(): boolean {
    return this.dispatcher !== undefined
  }

  /** Returns the definition of this name. */
  definition(name: string): AnyTaskDefinition | undefined {
    return this.settings.definitions.get(name)
  }

  /** Throws a `TypeError` unless the definition is registered. */
  mustHave(definition: AnyTaskDefinition): void {
    if (definition && this.settings.definitions.get(definition.name) === definition) return
    const name = definition?.name
    throw new TypeError(name === undefined
      ? 'pass a definition that createTasks has; tasks.definition(name) finds it by its name'
      : `${name} is not among the definitions of createTasks; add it there`)
  }

  /** Validates input and callback URL, then accepts the task. See `Tasks.submit` for errors. */
  async submit(
    definition: AnyTaskDefinition, input: unknown,
    { transaction, ...options }: AcceptOptions & { readonly transaction?: Transaction | undefined },
  ): Promise<Accepted> {
    // A copy, so that later changes by the caller have no effect. What does not survive JSON shows
    // at once.
    const text = JSON.stringify(input) as string | undefined
    if (text !== undefined && Buffer.byteLength(text) > this.maxInputBytes) {
      throw httpError('body_too_large')
    }
    const copy: unknown = text === undefined ? undefined : JSON.parse(text)
    await this.validate(definition, copy)
    const { callbackUrl, owner } = options
    if (callbackUrl !== undefined) await this.checkCallback(callbackUrl, owner)
    const opened = transaction === undefined ? undefined : await this.intake.open(transaction)
    return this.accept(definition, copy, options, opened)
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
    return this.requireDispatcher().check(url, owner)
  }

  /**
   * Returns the time by the clock of the queue, in milliseconds since 1970.
   *
   * @throws {HttpError} 503 `service_unavailable`: the queue does not answer.
   */
  async queueTime(): Promise<number> {
    try {
      return await queueTime(this.queue)
    } catch (cause) {
      throw httpError('service_unavailable', { headers: { 'retry-after': '1' }, cause })
    }
  }

  /** Accepts a task whose input and callback URL were validated. */
  async accept(
    definition: AnyTaskDefinition, input: unknown, options: AcceptOptions,
    transaction?: OpenTransaction,
  ): Promise<Accepted> {
    this.sweep?.start()
    return this.intake.accept(definition, input, options, transaction)
  }

  /** Call for every record that is read. Fails the task if the process that owned it has died. */
  readonly noteRead = (task: TaskSnapshot): void => { this.leases?.noteRead(task) }

  /** Reads a task, whoever owns it. Returns no promise if the store does not. */
  read(id: string): MaybePromise<TaskSnapshot | undefined> {
    return isTaskId(id) ? after(this.ledger.read(id), this.noted) : undefined
  }

  /** Returns the pool in which a task waits or was run; `undefined` if there is no such task. */
  async poolOfTask(id: string): Promise<string | undefined> {
    const found = await this.ledger.load(id)
    return found && (found.record.pool ?? DEFAULT_POOL)
  }

  private readonly noted = (task: TaskSnapshot | undefined): TaskSnapshot | undefined => {
    if (task) this.noteRead(task)
    return task
  }

  /** Waits until a task is final, for up to `timeoutMs`. The process stays alive meanwhile. */
  async wait(
    id: string, options: Omit<VisibleWaitOptions, 'isVisible'>, isVisible: IsVisible,
  ): Promise<TaskSnapshot | undefined> {
    if (!isTaskId(id)) return undefined
    return waitFor(this.subscriptions, id, { ...options, isVisible }, true)
  }

  /** Cancels a task. `moved` is `false` if it was final before. See `cancelTask`. */
  async cancel(
    id: string, isVisible: IsVisible, check?: Precondition,
  ): Promise<Cancelled | undefined> {
    const { ledger, executor, queue } = this
    const onFinal = (record: TaskRecord) => this.afterFinal(record)
    return cancelTask({ ledger, executor, queue, onFinal }, id, isVisible, check)
  }

  /** Retries a failed or cancelled task. See `retryTask`. */
  async retry(id: string, request: RetryRequest): Promise<TaskSnapshot | undefined> {
    this.sweep?.start()
    const { settings, unfinished } = this.intake
    return retryTask({ ...settings, blobs: this.blobs, unfinished }, id, request)
  }

  /**
   * Sends the callback of a final task again. See `Tasks.redeliver`.
   *
   * @param unlessPending - `true`: does nothing while a delivery is under way
   */
  async redeliver(id: string, unlessPending = false): Promise<boolean> {
    const dispatcher = this.requireDispatcher()
    return isTaskId(id) && dispatcher.redeliver(id, unlessPending)
  }

  /** Deletes a final task. See `forgetTask`. */
  forget(id: string, isVisible: IsVisible, check?: Precondition): Promise<Forgotten> {
    return forgetTask(this.settings, id, isVisible, check)
  }

  /** Reports whether the store answers, and the load of this process. Never rejects. */
  async health(): Promise<TasksHealth> {
    const ok = !this.closing && await this.ledger.isReachable()
    return { ok, running: this.executor.size + this.directRuns.size, waiting: this.waiters.size }
  }

  /** Drains this process. See `Tasks.close`. */
  close(drainMs: number): Promise<void> {
    this.closing ??= this.drain(drainMs)
    return this.closing
  }

  private async drain(drainMs: number): Promise<void> {
    const end = performance.now() + drainMs
    // Writing an outcome may wait minutes for a store that is away, but not beyond the drain time.
    const stopRetries = () => { this.ledger.retry.stop() }
    const timer = setTimeout(stopRetries, Math.min(drainMs, MAX_TIMER))
    this.dispatcher?.beginClose()
    const swept = this.sweep?.close()
    await this.intake.commits.close()
    const direct = this.directRuns.close(drainMs)
    this.executor.handOver(drainMs)
    try {
      await this.queue.close({ drainMs })
      await this.dispatcher?.close(Math.max(end - performance.now(), 0))
    } finally {
      clearTimeout(timer)
      stopRetries()
      this.waiters.close()
      await swept
      await this.leases?.close()
      await direct
    }
  }

  private readonly runCallback: RunJob = (job, attempt) => (
    runCallback(job, attempt, this.settings, this.dispatcher)
  )

  private readonly onDead: ProcessOptions['onDead'] = (job, reason) => (
    job.name === CALLBACK_JOB ? this.requireDispatcher().onDead(job) : this.executor.failDead(job, reason)
  )

  private requireDispatcher(): CallbackDispatcher {
    if (this.dispatcher) return this.dispatcher
    throw noCallbacks()
  }

  private async afterFinal(record: TaskRecord): Promise<void> {
    this.intake.unfinished.remove(record.id)
    // The process that made it final may have died before its entry was written.
    this.ledger.noteListed(record)
    if (needsCleanup(record)) {
      const dispatch = (final: TaskRecord) => this.requireDispatcher().dispatch(final)
      await cleanUp(record, this.settings, dispatch)
    }
    await endCheckpoint(this.store, this.definition(record.name), record)
    this.index?.remove(jobId(record))
  }
}
