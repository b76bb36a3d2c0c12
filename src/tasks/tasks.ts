import { HttpError, httpError } from '../http/errors.js'
import type { MaybePromise } from '../http/exchange.js'
import { warn } from '../http/warning.js'
import type { Queue } from '../queues/queue.js'
import type { Store } from '../stores/store.js'
import { Intake, type Accepted, type SubmitOptions } from './accept.js'
import { snapshotOf, toSnapshot, type TaskSnapshot } from './codec.js'
import { isDuration, type AnyTaskDefinition, type TaskContext } from './define.js'
import { Executor } from './execute.js'
import { isTaskId } from './ids.js'
import { settleClaim } from './idempotency.js'
import { Ledger, taskKey } from './ledger.js'
import type { TaskFailure, TaskProgress, TaskRecord } from './record.js'
import { toInput } from './run.js'
import { freeSlot } from './slots.js'
import { isFinal } from './state.js'
import { Follower, Waiters } from './wait.js'

/** Times are in milliseconds, sizes in bytes. */
export interface TasksOptions {
  readonly store: Store
  readonly queue: Queue
  readonly definitions: readonly AnyTaskDefinition[]
  /** Whether this process runs tasks; `false` for one that only takes them in. Default `true`. */
  readonly worker?: boolean
  /** Tasks that run at once in this process. Default 10. */
  readonly concurrency?: number
  /** How long a finished task can be asked for. Default 24 hours. */
  readonly retentionMs?: number
  /** How long an unfinished task is kept at the most. Default 7 days. */
  readonly pendingMs?: number
  /** Default 1 MiB. */
  readonly maxInputBytes?: number
  /** Default 1 MiB; a larger result fails its task (`result_too_large`). */
  readonly maxResultBytes?: number
  /** Long polls and event streams open at once in this process; above it they are answered at once. Default 1000. */
  readonly maxWaiters?: number
  /** Progress is written no more often than this. Default 200. */
  readonly progressIntervalMs?: number
  /** Hears of every failure that clients see masked. Default: a process warning, as of the error boundary. */
  readonly onError?: (error: unknown, at: { taskId: string; name: string; attempt: number }) => void
}

/** The result as it is kept: always an object with a message (SPEC 2.5). */
export type TaskResult<R> = R extends readonly unknown[] ? { message: string; value: R }
  : R extends object ? { message: string } & R
    : { message: string; value: R }

/** A task as `get` shows it: the task face, parsed. Times are ISO 8601. */
export interface TaskView<R = unknown> {
  readonly taskId: string
  readonly status: 'processing' | 'completed' | 'failed' | 'cancelled'
  readonly message: string
  readonly task: string
  readonly progress?: TaskProgress
  readonly result?: TaskResult<R>
  readonly error?: TaskFailure
  readonly createdAt: string
  readonly startedAt?: string
  readonly finishedAt?: string
}

/** What to wait for, and for how long. */
export interface WaitOptions {
  readonly timeoutMs: number
  /** Ends the wait early. */
  readonly signal?: AbortSignal
  readonly owner?: Asker
  /** What to wait for. Default: that the task is final. */
  readonly until?: (task: TaskSnapshot) => boolean
}

/** Names the type of a result: a definition that gives it. */
export interface Typed<R> {
  readonly run: (input: never, context: TaskContext) => MaybePromise<R>
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
    if (!Number.isInteger(concurrency) || concurrency < 1) throw fault('concurrency must be a whole number from 1')
    if (!isDuration(retentionMs, 1000)) throw fault('retentionMs must be from 1000 to 100 years')
    if (!isDuration(options.pendingMs ?? 1000, 1000)) throw fault('pendingMs must be from 1000 to 100 years')
    if (!isDuration(options.progressIntervalMs ?? 0, 0)) throw fault('progressIntervalMs must be 0 or more')
    for (const name of ['maxInputBytes', 'maxResultBytes', 'maxWaiters'] as const) {
      const value = options[name] ?? 0
      if (!(value >= 0)) throw fault(`${name} must be 0 or more, not ${String(value)}`)
    }
    this.definitions = new Map(definitions.map((definition) => [definition.name, definition]))
    if (this.definitions.size < definitions.length) throw fault('two definitions have the same name')
    this.store = store
    this.queue = queue
    this.retentionMs = retentionMs
    this.pendingMs = options.pendingMs ?? 7 * 86_400_000
    this.maxInputBytes = options.maxInputBytes ?? 1_048_576
    this.maxResultBytes = options.maxResultBytes ?? 1_048_576
    this.waiters = new Waiters(options.maxWaiters ?? 1000)
    this.ledger = new Ledger(store)
    this.executor = new Executor({
      ledger: this.ledger, definitions: this.definitions, durable: queue.durable, retentionMs, onError,
      maxResultBytes: this.maxResultBytes, progressIntervalMs: options.progressIntervalMs ?? 200,
      onFinal: (record) => this.afterFinal(record),
    })
    if (worker) {
      queue.process((job, attempt) => this.executor.run(job, attempt), {
        concurrency, onDead: (job, reason) => this.executor.bury(job, reason),
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
   * `too_many_tasks`, 503 `queue_full`, `shutting_down`, or a `StoreUnavailableError`.
   */
  async submit(definition: AnyTaskDefinition, input: unknown, options: SubmitOptions = {}): Promise<{ id: string; created: boolean }> {
    // A copy, so that the caller's later changes stay the caller's; and what does not survive JSON shows at once.
    const text = JSON.stringify(input) as string | undefined
    if (text !== undefined && Buffer.byteLength(text) > this.maxInputBytes) throw httpError('body_too_large')
    const copy: unknown = text === undefined ? undefined : JSON.parse(text)
    await this.judge(definition, copy)
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

  /**
   * Takes in a task whose input has been judged; see `Intake`. `claim` is the store's key of an
   * idempotency claim that stands for the task.
   */
  accept(
    definition: AnyTaskDefinition, input: unknown, options: SubmitOptions & { readonly claim?: string | undefined } = {},
  ): Promise<Accepted> {
    if (this.closing) return Promise.reject(httpError('shutting_down', { headers: { 'retry-after': '5' } }))
    return new Intake(this.ledger, this.queue, this.pendingMs, definition, input, options).take()
  }

  /** The task as its status resource shows it, or `undefined`; with `owner`, only that owner's. */
  async get<R = unknown>(
    id: string, options: { readonly owner?: Asker; readonly definition?: Typed<R> } = {},
  ): Promise<TaskView<R> | undefined> {
    const task = await this.look(id, options.owner)
    return task && (JSON.parse(task.face) as TaskView<R>)
  }

  /** The record as endpoints need it. Whoever is not its owner learns nothing. */
  async look(id: string, owner?: Asker): Promise<TaskSnapshot | undefined> {
    if (!isTaskId(id)) return undefined
    const entry = await this.store.get(taskKey(id))
    const task = entry && toSnapshot(id, entry.value)
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
      // A job that stays in the queue finds a final record and does nothing.
      await this.queue.remove(id).catch(() => false)
      await this.afterFinal(now.record)
    }
    return { task: snapshotOf(now.record), moved: now.moved }
  }

  /** Forgets a task that has ended. `false` when there is none or it has not ended. */
  async delete(id: string): Promise<boolean> {
    const held = isTaskId(id) ? await this.ledger.load(id) : undefined
    return held !== undefined && isFinal(held.record.state) && this.store.delete(taskKey(id), held.revision)
  }

  /** Whether the store answers, and how busy this process is. Never rejects. */
  async health(): Promise<{ readonly ok: boolean; readonly running: number; readonly waiting: number }> {
    const ok = await this.store.get('health').then(() => true, () => false)
    return { ok: ok && !this.closing, running: this.executor.size, waiting: this.waiters.size }
  }

  /**
   * Takes nothing new, answers those who wait, gives running work `drainMs` (default 10 seconds) to
   * finish, then stops it. The store and its client stay the caller's to close.
   */
  close(options: { readonly drainMs?: number } = {}): Promise<void> {
    this.closing ??= (async () => {
      try {
        await this.queue.close({ drainMs: options.drainMs ?? 10_000 })
      } finally {
        this.waiters.close()
      }
    })()
    return this.closing
  }

  private afterFinal(record: TaskRecord): MaybePromise<void> {
    if (record.claim !== undefined || record.slot !== undefined) return this.letGo(record)
  }

  private async letGo(record: TaskRecord): Promise<void> {
    if (record.claim !== undefined) await settleClaim(this.store, record.claim, record.expiresAt).catch(() => undefined)
    if (record.slot !== undefined) await freeSlot(this.store, record.slot, record.id).catch(() => undefined)
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

/** Who asks: an owner, `null` for somebody who is nobody (sees what has no owner), `undefined` for the host itself. */
export type Asker = string | null | undefined

function isVisible(task: { readonly owner?: string | undefined }, asker: Asker): boolean {
  return asker === undefined || task.owner === (asker ?? undefined)
}

/** The error that a failed or cancelled task stands for, to those who waited for its result. */
export function toTaskError(task: TaskSnapshot): HttpError {
  if (task.state === 'cancelled') return httpError('task_cancelled')
  const { error } = JSON.parse(task.face) as TaskView
  return new HttpError(task.errorStatus ?? 500, error?.code ?? 'task_failed', { message: error?.message ?? 'The task failed.' })
}
