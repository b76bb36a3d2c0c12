import { after, type MaybePromise } from '../runtime/maybe-promise.js'
import { httpError } from '../http/errors.js'
import { checkNames } from '../runtime/option-names.js'
import { newId } from '../runtime/random-id.js'
import type { ProcessOptions, RunJob } from '../queues/queue.js'
import type { Store } from '../stores/store.js'
import {
  Intake, SUBMIT, type AcceptOptions, type Accepted, type IntakeSettings, type SubmitOptions,
} from './intake/accept.js'
import { taskEvents, tellAccepted } from './record/channels.js'
import { CALLBACK_JOB, noCallbacks, type CallbackDispatcher } from './record/callbacks.js'
import { runCallback } from './run/callback-run.js'
import { MAX_TIMER } from './definition/bounds.js'
import { checkOptions } from './check-options.js'
import { snapshotOf, type TaskSnapshot } from './record/codec.js'
import type { AnyTaskDefinition } from './definition/define.js'
import { DirectRuns, shuttingDown } from './run/direct-runs.js'
import type { ExecutorSettings } from './run/attempt.js'
import { Executor } from './run/execute.js'
import { Feeds } from './record/feed.js'
import { HandBacks } from './run/hand-back.js'
import { isTaskId } from './record/ids.js'
import { jobId } from './record/job-id.js'
import { Leases } from './run/leases.js'
import { Ledger, taskKey } from './record/ledger.js'
import type { TaskRecord } from './record/record.js'
import { OwnedTasks, type OwnerCalls } from './owned-tasks.js'
import { checkOwnerId, ownerToSubmitFor, refuseOwner, type OwnerId } from './record/owner-id.js'
import {
  belongsTo, countedAsOwner, countedWithoutOwner, everybodys, type Mine,
} from './record/owner-rules.js'
import { judgeInput } from './run/run.js'
import { RunPlaces } from './run/run-places.js'
import type { TasksOptions } from './tasks-options.js'
import { isFinal } from './record/state.js'
import { StoreIdentity } from './record/store-identity.js'
import { Sweep } from './run/sweep.js'
import { warnOfTask } from './record/tell.js'
import { hasTies, untie } from './run/ties.js'
import type { TaskView, Typed } from './record/view.js'
import { answers, waitFor, Waiters, WAIT, type WaitOptions } from './record/wait.js'

/**
 * Takes tasks in, keeps their records, runs them. Made by `createTasks`; endpoints and the host's
 * own code share it.
 */
export class Tasks {
  /** For code that builds on longhaul: where the records lie. */
  readonly store: Store
  /** Bounds long polls and event streams. */
  readonly waiters: Waiters
  /** The tasks that long polls, event streams and `wait` follow. */
  readonly feeds: Feeds
  /** Knows the runs of direct answers. */
  readonly direct = new DirectRuns()
  /** Places that the runs of queued tasks and of direct answers have in common. */
  readonly places: RunPlaces
  /** Whether direct answers are worked on in this process. */
  readonly directHere: boolean
  readonly maxInputBytes: number
  readonly maxResultBytes: number
  readonly retentionMs: number
  readonly pendingMs: number
  private readonly ledger: Ledger
  private readonly executor: Executor
  private readonly dispatcher: CallbackDispatcher | undefined
  private readonly leases: Leases | undefined
  private readonly settings: ExecutorSettings
  private readonly intake: IntakeSettings
  private sweep: Sweep | undefined
  private closing: Promise<void> | undefined

  /** Use `createTasks`. */
  constructor(options: TasksOptions) {
    checkOptions(options)
    const { store, queue, index, definitions, worker = true, concurrency = 10, retentionMs = 86_400_000, onError = warnOfTask } = options
    const { sweepMs = 30_000, unknownTaskMs = 3_600_000 } = options
    const byName = new Map(definitions.map((definition) => [definition.name, definition]))
    this.store = store
    this.retentionMs = retentionMs
    this.pendingMs = options.pendingMs ?? 7 * 86_400_000
    this.maxInputBytes = options.maxInputBytes ?? 1_048_576
    this.maxResultBytes = options.maxResultBytes ?? 1_048_576
    this.places = new RunPlaces(concurrency)
    this.directHere = (options.direct ?? (worker ? 'here' : 'queue')) === 'here'
    this.feeds = new Feeds(store, this.see)
    this.waiters = new Waiters(options.maxWaiters ?? 1000, options.maxWaitersPerOwner)
    const holder = store.shared && !queue.durable ? newId() : undefined
    this.ledger = new Ledger(store, holder)
    const identity = new StoreIdentity(store)
    this.intake = { ledger: this.ledger, queue, index, identity, pendingMs: this.pendingMs, sweepMs }
    this.settings = {
      ledger: this.ledger, definitions: byName, durable: queue.durable, retentionMs, unknownTaskMs, onError,
      identity, handBacks: new HandBacks(onError), onFinal: (record) => this.afterFinal(record),
      maxResultBytes: this.maxResultBytes, progressIntervalMs: options.progressIntervalMs ?? 200,
    }
    this.executor = new Executor(this.settings)
    const storeId = () => identity.read()
    this.dispatcher = options.callbacks?.open({ ledger: this.ledger, shared: store.shared, queue, concurrency, onError, storeId })
    if (holder !== undefined) this.leases = new Leases(store, holder, (id, of) => this.executor.interrupt(id, of), options.leaseMs ?? 15_000)
    if (worker) {
      queue.process(this.run, { concurrency, onDead: this.bury })
      if (index) this.sweep = new Sweep({ ...this.settings, index, queue, sweepMs, executor: this.executor, leases: this.leases })
      this.dispatcher?.startProcessing(this.run, this.bury)
    }
  }

  /** Whether `close` was called. */
  get isClosing(): boolean {
    return this.closing !== undefined
  }

  /** The definition of this name, or `undefined`. */
  definition(name: string): AnyTaskDefinition | undefined {
    return this.settings.definitions.get(name)
  }

  /** The names of all definitions. */
  get names(): readonly string[] {
    return [...this.settings.definitions.keys()]
  }

  /**
   * Judges the input, then takes the task in. Resolves once it is on record and in the queue.
   * Throws `HttpError`s: 400 `invalid_input`, what `check` throws, 413 `body_too_large`, 429
   * `too_many_tasks`, 400 `invalid_callback_url` and `callback_url_forbidden`, 503 `queue_full`,
   * `shutting_down`, or a `StoreUnavailableError`.
   */
  async submit(definition: AnyTaskDefinition, input: unknown, options: SubmitOptions = {}): Promise<{ id: string; created: boolean }> {
    checkNames('tasks.submit', options, SUBMIT)
    const owner = ownerToSubmitFor(options)
    return this.submitFor(definition, input, { ...options, owner, ...owner !== undefined && { counted: countedAsOwner(owner) } })
  }

  private async submitFor(definition: AnyTaskDefinition, input: unknown, options: AcceptOptions): Promise<{ id: string; created: boolean }> {
    // A copy, so that the caller's later changes stay the caller's; and what does not survive JSON
    // shows at once.
    const text = JSON.stringify(input) as string | undefined
    if (text !== undefined && Buffer.byteLength(text) > this.maxInputBytes) throw httpError('body_too_large')
    const copy: unknown = text === undefined ? undefined : JSON.parse(text)
    await this.judge(definition, copy)
    if (options.callbackUrl !== undefined) await this.checkCallback(options.callbackUrl, options.owner)
    const { task, created } = await this.accept(definition, copy, options)
    return { id: task.id, created }
  }

  /** Judges input by schema and business rule; throws what the client is to see. */
  judge(definition: AnyTaskDefinition, input: unknown): MaybePromise<void> {
    if (this.settings.definitions.get(definition.name) !== definition) {
      throw new TypeError(`${definition.name} is not among the definitions of createTasks`)
    }
    if (definition.input || definition.check) return judgeInput(definition, input)
  }

  /** Whether tasks may have callbacks here. */
  get hasCallbacks(): boolean {
    return this.dispatcher !== undefined
  }

  /**
   * Judges a callback URL for a task of this owner. Throws 400 `invalid_callback_url` or
   * `callback_url_forbidden`, and a `TypeError` when `createTasks` has no `callbacks`, or no secret
   * for this owner.
   */
  async checkCallback(url: unknown, owner: string | undefined): Promise<string> {
    return this.mustHave().check(url, owner)
  }

  /**
   * Takes in a task whose input and callback URL have been judged; see `Intake`.
   */
  accept(definition: AnyTaskDefinition, input: unknown, options: AcceptOptions): MaybePromise<Accepted> {
    if (options.callbackUrl !== undefined) this.mustHave()
    if (this.closing) throw shuttingDown()
    this.sweep?.start()
    const taken = new Intake(this.intake, definition, input, options).take()
    return taskEvents.hasSubscribers ? tellAccepted(definition.name, taken) : taken
  }

  /**
   * Returns the tasks of one owner, for calls on a client's behalf:
   * `tasks.ownedBy(user?.id).get(id)`. `undefined` is an anonymous client, who has the tasks
   * without an owner; it never means all tasks.
   *
   * @throws {TypeError} `owner` is neither `undefined` nor a text that is not empty.
   */
  ownedBy(owner: OwnerId): OwnedTasks {
    return new OwnedTasks(checkOwnerId('tasks.ownedBy: the id', owner), this.ownerCalls)
  }

  /**
   * Returns the task as its status resource shows it, whoever its owner is; `undefined` when there
   * is none.
   */
  async get<R = unknown>(id: string, options: { readonly definition?: Typed<R> } = {}): Promise<TaskView<R> | undefined> {
    refuseOwner('get', options)
    checkNames('tasks.get', options, { definition: 0 })
    const task = await this.look(id)
    return task && (JSON.parse(task.face) as TaskView<R>)
  }

  /** To be told of each record that is read: its process may have died. */
  readonly see = (task: TaskSnapshot): void => { this.leases?.see(task) }

  private readonly seen = (task: TaskSnapshot | undefined): TaskSnapshot | undefined => {
    if (task) this.see(task)
    return task
  }

  /** The record as endpoints need it, whoever its owner is. */
  async look(id: string): Promise<TaskSnapshot | undefined> {
    return this.glance(id)
  }

  /** As `look`, and without a promise where the store needs none. */
  glance(id: string): MaybePromise<TaskSnapshot | undefined> {
    return isTaskId(id) ? after(this.ledger.glance(id), this.seen) : undefined
  }

  /**
   * Waits until the task is final, for up to `timeoutMs`, and resolves to it as it is then;
   * `undefined` when there is none. Reports of progress do not end the wait. The process does not
   * end while this waits.
   */
  async wait(id: string, options: WaitOptions): Promise<TaskSnapshot | undefined> {
    refuseOwner('wait', options)
    checkNames('tasks.wait', options, WAIT)
    return this.waitIf(id, options, everybodys)
  }

  /**
   * Cancels a task: its record is final at once, and its run, in whatever process, is told by its
   * signal. `moved` is false when it had ended before. `undefined` when there is none.
   */
  async cancel(id: string, options: object = {}): Promise<{ task: TaskSnapshot; moved: boolean } | undefined> {
    refuseOwner('cancel', options)
    checkNames('tasks.cancel', options, {})
    return this.cancelIf(id, everybodys)
  }

  private async cancelIf(id: string, mine: Mine): Promise<{ task: TaskSnapshot; moved: boolean } | undefined> {
    const held = isTaskId(id) ? await this.ledger.load(id) : undefined
    if (!held || !mine(held.record)) return undefined
    const finishedAt = Date.now()
    const retentionMs = this.executor.retention(held.record.name)
    const now = await this.ledger.move(held, (record) => (
      isFinal(record.state) || !mine(record) ? undefined : { state: 'cancelled', finishedAt, expiresAt: finishedAt + retentionMs }
    ))
    // Another task may have come under this id meanwhile.
    if (!now || !mine(now.record)) return undefined
    if (now.moved) {
      this.executor.abort(jobId(now.record))
      // While the job is there, it makes up for what this process could not do: it finds the final
      // record.
      await this.afterFinal(now.record)
      await this.intake.queue.remove(jobId(now.record)).catch(() => false)
    }
    return { task: snapshotOf(now.record), moved: now.moved }
  }

  /**
   * Makes the callback of a task that has ended once more, from the first attempt on, whatever
   * became of it before. `false` when there is no such task, or it has no callback. Rejects when it
   * could not be enqueued.
   */
  async redeliver(id: string): Promise<boolean> {
    const dispatcher = this.mustHave()
    return isTaskId(id) && dispatcher.redeliver(id)
  }

  /** Forgets a task that has ended. `false` when there is none or it has not ended. */
  async delete(id: string): Promise<boolean> {
    return this.deleteIf(id, everybodys)
  }

  private async deleteIf(id: string, mine: Mine): Promise<boolean> {
    const held = isTaskId(id) ? await this.ledger.load(id) : undefined
    return held !== undefined && mine(held.record) && isFinal(held.record.state) && this.store.delete(taskKey(id), held.revision)
  }

  /**
   * Whether the store answers, and how busy this process is: runs, those of direct answers among
   * them, and requests that wait. `ok` is false once `close` was called. Never rejects.
   */
  async health(): Promise<{ readonly ok: boolean; readonly running: number; readonly waiting: number }> {
    const ok = !this.closing && await answers(this.store)
    return { ok, running: this.executor.size + this.direct.size, waiting: this.waiters.size }
  }

  /**
   * Takes nothing new, answers those who wait, gives running work `drainMs` (default 10 seconds) to
   * finish, then stops it. A direct answer whose run is stopped is a 503 `shutting_down`. The store
   * and its client stay the caller's to close.
   */
  close(options: { readonly drainMs?: number } = {}): Promise<void> {
    checkNames('tasks.close', options, { drainMs: 0 })
    this.closing ??= (async () => {
      const { drainMs = 10_000 } = options
      const end = performance.now() + drainMs
      // What a run came to is worth minutes of waiting for a store that is away, but not more than
      // the drain time.
      const patient = setTimeout(() => { this.ledger.patience.end() }, Math.min(drainMs, MAX_TIMER))
      this.dispatcher?.beginClose()
      const swept = this.sweep?.close()
      const direct = this.direct.close(drainMs)
      try {
        await this.intake.queue.close({ drainMs })
        await this.dispatcher?.close(Math.max(end - performance.now(), 0))
      } finally {
        clearTimeout(patient)
        this.ledger.patience.end()
        this.waiters.close()
        await swept
        await this.leases?.close()
        await direct
      }
    })()
    return this.closing
  }

  private readonly run: RunJob = (job, attempt) => (
    job.name === CALLBACK_JOB ? runCallback(job, attempt, this.settings, this.dispatcher)
      : this.places.hold(attempt, () => this.executor.run(job, attempt))
  )

  private readonly bury: ProcessOptions['onDead'] = (job, reason) => (
    job.name === CALLBACK_JOB ? this.mustHave().onDead(job) : this.executor.bury(job, reason)
  )

  private async waitIf(id: string, options: WaitOptions, mine: Mine): Promise<TaskSnapshot | undefined> {
    return isTaskId(id) ? waitFor(this.feeds, id, { ...options, isVisible: mine }, true) : undefined
  }

  /** What `OwnedTasks` calls. */
  private readonly ownerCalls: OwnerCalls = {
    submit: (owner, definition, input, options) => this.submitFor(definition, input, {
      ...options, owner, counted: owner === undefined ? countedWithoutOwner(undefined) : countedAsOwner(owner),
    }),
    look: async (owner, id) => {
      const task = await this.look(id)
      return task && belongsTo(task, owner) ? task : undefined
    },
    wait: (owner, id, options) => this.waitIf(id, options, (task) => belongsTo(task, owner)),
    cancel: (owner, id) => this.cancelIf(id, (task) => belongsTo(task, owner)),
    redeliver: async (owner, id) => await this.ownerCalls.look(owner, id) !== undefined && this.redeliver(id),
    delete: (owner, id) => this.deleteIf(id, (task) => belongsTo(task, owner)),
  }

  private mustHave(): CallbackDispatcher {
    if (this.dispatcher) return this.dispatcher
    throw noCallbacks()
  }

  private async afterFinal(record: TaskRecord): Promise<void> {
    if (hasTies(record)) await untie(record, this.store, this.settings.definitions, (told) => this.mustHave().dispatch(told))
    this.intake.index?.remove(jobId(record))
  }
}

/** Tasks over a store and a queue: `createTasks({ ...memory(), definitions: [report] })`. */
export function createTasks(options: TasksOptions): Tasks {
  return new Tasks(options)
}
