import { callbackSettings } from '../callbacks/index.js'
import { isPending } from '../http/around.js'
import { httpError } from '../http/errors.js'
import type { MaybePromise } from '../http/exchange.js'
import { newId } from '../http/random-id.js'
import { warn } from '../http/warning.js'
import type { Attempt, DeadReason, Job, Queue } from '../queues/queue.js'
import type { Entry, Store } from '../stores/store.js'
import { Intake, type Accepted, type SubmitOptions } from './accept.js'
import { taskEvents, tellAccepted } from './channels.js'
import { isVisible, type Asker } from './asker.js'
import { checkNumbers } from './check-options.js'
import { snapshotOf, toSnapshot, type TaskSnapshot } from './codec.js'
import { Courier } from './courier.js'
import type { AnyTaskDefinition } from './define.js'
import { CALLBACK_JOB } from './delivery.js'
import { Executor } from './execute.js'
import { isTaskId } from './ids.js'
import { settleClaim } from './idempotency.js'
import { releaseKept } from './kept.js'
import { Leases } from './leases.js'
import { Ledger, taskKey } from './ledger.js'
import type { TaskRecord } from './record.js'
import { toInput } from './run.js'
import { freeSlot } from './slots.js'
import type { TasksOptions } from './tasks-options.js'
import { isFinal } from './state.js'
import type { TaskView, Typed } from './view.js'
import { answers, Follower, Waiters } from './wait.js'

/** What to wait for, and for how long. */
export interface WaitOptions {
  readonly timeoutMs: number
  /** Ends the wait early. */
  readonly signal?: AbortSignal
  readonly owner?: Asker
  /** What to wait for. Default: that the task is final. */
  readonly until?: (task: TaskSnapshot) => boolean
}

/**
 * Takes tasks in, keeps their records, runs them. Made by `createTasks`; endpoints and the host's own
 * code share it.
 */
export class Tasks {
  /** For code that builds on longhaul: where the records lie. */
  readonly store: Store
  /** Bounds long polls and event streams. */
  readonly waiters: Waiters
  readonly maxInputBytes: number
  readonly maxResultBytes: number
  readonly retentionMs: number
  readonly pendingMs: number
  private readonly ledger: Ledger
  private readonly queue: Queue
  private readonly definitions: ReadonlyMap<string, AnyTaskDefinition>
  private readonly executor: Executor
  private readonly courier: Courier | undefined
  private readonly callbackQueue: Queue | undefined
  private readonly leases: Leases | undefined
  private closing: Promise<void> | undefined

  /** Use `createTasks`. */
  constructor(options: TasksOptions) {
    const fault = (what: string) => new TypeError(`createTasks: ${what}`)
    const { store, queue, definitions, worker = true, concurrency = 10, retentionMs = 86_400_000 } = options
    const { onError = warn } = options
    if (queue.durable && !store.shared) {
      throw fault('this queue spans processes but the store does not; use a store that does, such as longhaul/redis')
    }
    const local = definitions.find(({ shared }) => shared === false)
    if (queue.durable && local) {
      throw fault(`this queue spans processes but ${local.name} needs what only one has; give it blobs that all processes see`)
    }
    checkNumbers(options)
    this.definitions = new Map(definitions.map((definition) => [definition.name, definition]))
    if (this.definitions.size < definitions.length) throw fault('two definitions have the same name')
    this.store = store
    this.queue = queue
    this.retentionMs = retentionMs
    this.pendingMs = options.pendingMs ?? 7 * 86_400_000
    this.maxInputBytes = options.maxInputBytes ?? 1_048_576
    this.maxResultBytes = options.maxResultBytes ?? 1_048_576
    this.waiters = new Waiters(options.maxWaiters ?? 1000)
    const holder = store.shared && !queue.durable ? newId() : undefined
    this.ledger = new Ledger(store, holder)
    this.executor = new Executor({
      ledger: this.ledger, definitions: this.definitions, durable: queue.durable, retentionMs, onError,
      maxResultBytes: this.maxResultBytes, progressIntervalMs: options.progressIntervalMs ?? 200,
      onFinal: (record) => this.afterFinal(record),
    })
    if (this.definitions.has(CALLBACK_JOB)) throw fault(`a definition can't be named ${CALLBACK_JOB}`)
    if (options.callbacks) {
      const settings = callbackSettings(options.callbacks, queue, concurrency)
      if (settings.queue.durable && !store.shared) throw fault('the queue of callbacks spans processes but the store does not')
      this.courier = new Courier({ ...settings, ledger: this.ledger, onError })
      if (settings.ownQueue) this.callbackQueue = settings.queue
    }
    if (holder !== undefined) this.leases = new Leases(store, holder, (id, of) => this.executor.interrupt(id, of), options.leaseMs ?? 15_000)
    if (worker) {
      queue.process((job, attempt) => this.run(job, attempt), { concurrency, onDead: (job, reason) => this.bury(job, reason) })
      // Callbacks that find no place put themselves off, and some have to be taken up for that.
      this.callbackQueue?.process((job, attempt) => this.run(job, attempt), {
        concurrency: 2 * (options.callbacks?.maxInFlight ?? 20), onDead: (job, reason) => this.bury(job, reason),
      })
    }
  }

  /** The definition of this name, or `undefined`. */
  definition(name: string): AnyTaskDefinition | undefined {
    return this.definitions.get(name)
  }

  /** The names of all definitions. */
  get names(): readonly string[] {
    return [...this.definitions.keys()]
  }

  /**
   * Judges the input, then takes the task in. Resolves once it is on record and in the queue.
   * Throws `HttpError`s: 400 `invalid_input`, what `check` throws, 413 `body_too_large`, 429
   * `too_many_tasks`, 400 `invalid_callback_url` and `callback_url_forbidden`, 503 `queue_full`, `shutting_down`, or a `StoreUnavailableError`.
   */
  async submit(definition: AnyTaskDefinition, input: unknown, options: SubmitOptions = {}): Promise<{ id: string; created: boolean }> {
    // A copy, so that the caller's later changes stay the caller's; and what does not survive JSON shows at once.
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
    if (this.definitions.get(definition.name) !== definition) {
      throw new TypeError(`${definition.name} is not among the definitions of createTasks`)
    }
    if (definition.input || definition.check) return judgeBy(definition, input)
  }

  /** Whether tasks may have callbacks here. */
  get hasCallbacks(): boolean {
    return this.courier !== undefined
  }

  /**
   * Judges a callback URL for a task of this owner. Throws 400 `invalid_callback_url` or `callback_url_forbidden`, and a
   * `TypeError` when `createTasks` has no `callbacks`, or no secret for this owner.
   */
  async checkCallback(url: unknown, owner: string | undefined): Promise<string> {
    return this.mustHave().check(url, owner)
  }

  /**
   * Takes in a task whose input and callback URL have been judged; see `Intake`. `claim` is the store's key of an
   * idempotency claim that stands for the task.
   */
  accept(
    definition: AnyTaskDefinition, input: unknown, options: SubmitOptions & { readonly claim?: string | undefined } = {},
  ): MaybePromise<Accepted> {
    if (options.callbackUrl !== undefined) this.mustHave()
    if (this.closing) throw httpError('shutting_down', { headers: { 'retry-after': '5' } })
    const taken = new Intake(this.ledger, this.queue, this.pendingMs, definition, input, options).take()
    return taskEvents.hasSubscribers ? tellAccepted(definition.name, taken) : taken
  }

  /** The task as its status resource shows it, or `undefined`; with `owner`, only that owner's. */
  async get<R = unknown>(
    id: string, options: { readonly owner?: Asker; readonly definition?: Typed<R> } = {},
  ): Promise<TaskView<R> | undefined> {
    const task = await this.look(id, options.owner)
    return task && (JSON.parse(task.face) as TaskView<R>)
  }

  /** To be told of each record that is read: its process may have died. */
  readonly see = (task: TaskSnapshot): void => { this.leases?.see(task) }
  /** The record as endpoints need it. Whoever is not its owner learns nothing. */
  async look(id: string, owner?: Asker): Promise<TaskSnapshot | undefined> {
    return this.glance(id, owner)
  }

  /** As `look`, and without a promise where the store needs none. */
  glance(id: string, owner?: Asker): MaybePromise<TaskSnapshot | undefined> {
    if (!isTaskId(id)) return undefined
    const entry = this.store.get(taskKey(id))
    return isPending(entry) ? entry.then((late) => this.seen(id, late, owner)) : this.seen(id, entry, owner)
  }

  private seen(id: string, entry: Entry | undefined, owner: Asker): TaskSnapshot | undefined {
    const task = entry && toSnapshot(id, entry.value)
    if (task) this.see(task)
    return task && isVisible(task, owner) ? task : undefined
  }

  /**
   * Waits until the task is final, for up to `timeoutMs`, and resolves to it as it is then; `undefined`
   * when there is none. Reports of progress do not end the wait.
   */
  async wait(id: string, options: WaitOptions): Promise<TaskSnapshot | undefined> {
    const { timeoutMs, signal = new AbortController().signal, owner, until = (task) => isFinal(task.state) } = options
    if (!isTaskId(id)) return undefined
    const deadline = Date.now() + timeoutMs
    const follower = await Follower.open(this.store, taskKey(id))
    try {
      for (;;) {
        const entry = await follower.next(deadline - Date.now(), signal)
        const task = entry && toSnapshot(id, entry.value)
        if (!task || !isVisible(task, owner)) return undefined
        this.see(task)
        if (until(task) || Date.now() >= deadline || signal.aborted) return task
      }
    } finally {
      follower.close()
    }
  }

  /**
   * Cancels a task: its record is final at once, and its run, in whatever process, is told by its
   * signal. `moved` is false when it had ended before. `undefined` when there is none.
   */
  async cancel(id: string, options: { readonly owner?: Asker } = {}): Promise<{ task: TaskSnapshot; moved: boolean } | undefined> {
    const held = isTaskId(id) ? await this.ledger.load(id) : undefined
    if (!held || !isVisible(held.record, options.owner)) return undefined
    const finishedAt = Date.now()
    const retentionMs = this.executor.retention(held.record.name)
    const now = await this.ledger.move(held, (record) => (isFinal(record.state) ? undefined : { state: 'cancelled', finishedAt, expiresAt: finishedAt + retentionMs }))
    if (!now) return undefined
    if (now.moved) {
      this.executor.abort(id)
      // While the job is there, it makes up for what this process could not do: it finds the final record.
      await this.afterFinal(now.record)
      await this.queue.remove(id).catch(() => false)
    }
    return { task: snapshotOf(now.record), moved: now.moved }
  }

  /**
   * Makes the callback of a task that has ended once more, from the first attempt on, whatever became of it before. `false` when there is no
   * such task, or it has no callback. Rejects when it could not be enqueued.
   */
  async redeliver(id: string): Promise<boolean> {
    const courier = this.mustHave()
    const held = isTaskId(id) ? await this.ledger.load(id) : undefined
    const now = held && await this.ledger.move(held, ({ state, callback }) => (
      callback && isFinal(state) ? { callback: { url: callback.url, state: 'pending', attempts: callback.attempts, lastStatus: callback.lastStatus } } : undefined
    ))
    if (!now?.moved || !now.record.callback) return false
    await courier.redeliver(now.record, now.record.callback)
    return true
  }

  /** Forgets a task that has ended. `false` when there is none or it has not ended. */
  async delete(id: string): Promise<boolean> {
    const held = isTaskId(id) ? await this.ledger.load(id) : undefined
    return held !== undefined && isFinal(held.record.state) && this.store.delete(taskKey(id), held.revision)
  }

  /** Whether the store answers, and how busy this process is. Never rejects. */
  async health(): Promise<{ readonly ok: boolean; readonly running: number; readonly waiting: number }> {
    const ok = !this.closing && await answers(this.store)
    return { ok, running: this.executor.size, waiting: this.waiters.size }
  }

  /**
   * Takes nothing new, answers those who wait, gives running work `drainMs` (default 10 seconds) to
   * finish, then stops it. The store and its client stay the caller's to close.
   */
  close(options: { readonly drainMs?: number } = {}): Promise<void> {
    this.closing ??= (async () => {
      const { drainMs = 10_000 } = options
      const end = Date.now() + drainMs
      if (this.courier && !this.callbackQueue) this.courier.closing = true
      try {
        await this.queue.close({ drainMs })
        // After the other: tasks that end while it drains have callbacks too.
        await this.callbackQueue?.close({ drainMs: Math.max(end - Date.now(), 0) })
      } finally {
        this.waiters.close()
        await this.leases?.close()
      }
    })()
    return this.closing
  }

  private run(job: Job, attempt: Attempt): Promise<void> {
    return job.name === CALLBACK_JOB ? this.mustHave().run(job, attempt) : this.executor.run(job, attempt)
  }

  private bury(job: Job, reason: DeadReason): Promise<void> {
    return job.name === CALLBACK_JOB ? this.mustHave().bury(job) : this.executor.bury(job, reason)
  }

  private mustHave(): Courier {
    if (this.courier) return this.courier
    throw new TypeError('There is a callback URL but createTasks has no callbacks: give it { sender: httpSender(), secrets }')
  }

  private afterFinal(record: TaskRecord): MaybePromise<void> {
    const { claim, slot, callback, keeps } = record
    if (claim !== undefined || slot !== undefined || callback !== undefined || keeps !== undefined) return this.letGo(record)
  }

  private async letGo(record: TaskRecord): Promise<void> {
    if (record.callback?.state === 'pending') await this.mustHave().announce(record)
    if (record.claim !== undefined) await settleClaim(this.store, record.claim, record.expiresAt).catch(() => undefined)
    if (record.slot !== undefined) await freeSlot(this.store, record.slot, record.id).catch(() => undefined)
    if (record.keeps !== undefined) await releaseKept(this.definitions.get(record.name), record.keeps)
  }
}

async function judgeBy(definition: AnyTaskDefinition, input: unknown): Promise<void> {
  const value = await toInput(definition, input)
  await definition.check?.(value)
}

/** Tasks over a store and a queue: `createTasks({ ...memory(), definitions: [report] })`. */
export function createTasks(options: TasksOptions): Tasks {
  return new Tasks(options)
}
