import assert from 'node:assert/strict'
import {
  Places, type RunLimits, type TaskEngine, type TaskQuery, type TaskRun, type Transaction,
} from '../../src/engine/engine.js'
import type {
  Changed, Created, Expected, NewTask, StoredTask, TaskChange, TaskRef,
} from '../../src/engine/task.js'
import { Json } from '../../src/runtime/json.js'
import type { MaybePromise } from '../../src/runtime/maybe-promise.js'
import { isStoreUnavailable } from '../../src/stores/store.js'
import { deferred, Waits } from '../wait.js'
import type { SuiteOptions } from '../runner.js'

/** Settings of the engines of a case. */
export interface EngineSettings {
  /** Lease of a run, in milliseconds. */
  readonly leaseMs: number
  /** Share of the final tasks of one caller. Default: the default of the engine. */
  readonly share?: { readonly tasks: number, readonly bytes: number } | undefined
  /**
   * Maximum number of tasks. Set only if the suite has the option `isBounded`. Default: the default
   * of the engine.
   */
  readonly capacity?: number
}

/** Processes with the same tasks, for one case. There are no tasks at first. */
export interface EngineFixture {
  /** Starts a process. Called once if the engine is not shared. */
  open(): Promise<EngineProcess>
  /** Ends all processes, including killed and frozen ones, and deletes their data. */
  close(): Promise<void> | void
  /** Begins a transaction of the application. Required by the option `hasTransactions`. */
  begin?(): Promise<OpenTransaction>
  /**
   * Copies all that the engine has stored. The result puts it back, as a server does that loses its last
   * writes in a fail-over. Absent if the engine is not shared.
   */
  snapshot?(): Promise<() => Promise<void>>
}

/**
 * A process with one engine. In a test it is usually a separate connection instead of a process of
 * the operating system.
 */
export interface EngineProcess {
  readonly engine: TaskEngine
  /**
   * Disconnects the process like a network that loses all packets: it sends and receives nothing,
   * so it renews no lease. Its timers run. Absent if the engine is not shared.
   */
  freeze?(): Promise<void> | void
  /** Ends `freeze`. Sends and receives what waited, unless the process has given it up. */
  thaw?(): Promise<void> | void
  /**
   * Ends the process at once, like `kill -9`: closes its connections without draining, and rejects
   * all further calls. Absent if the engine is not shared.
   */
  kill?(): Promise<void> | void
}

/** A transaction of the application that is open. */
export interface OpenTransaction {
  readonly transaction: Transaction
  /** Commits the transaction. */
  commit(): Promise<void>
  /** Rolls the transaction back. */
  rollback(): Promise<void>
}

/** Options of `engineConformance`. */
export interface EngineConformanceOptions extends SuiteOptions {
  /**
   * `true` if several processes see the same tasks: registers cases with several processes. Default
   * `true`.
   */
  readonly isShared?: boolean
  /** `true` if the engine obeys the setting `capacity`. Default `false`. */
  readonly isBounded?: boolean
  /** `true` if the fixture has `begin`. Default `false`. */
  readonly hasTransactions?: boolean
  /**
   * `true` if the engine calls `remove` again within `timeoutMs` after a failure. Default `false`.
   */
  readonly removesAgainSoon?: boolean
  /** Lease in cases that wait for the end of a lease, in milliseconds. Default 400. */
  readonly leaseMs?: number
  /** Maximum number of cases that run at the same time, each with its own fixture. Default 4. */
  readonly concurrency?: number
}

/** Options with their defaults. */
export type CheckedOptions = Required<EngineConformanceOptions>

/** One hour in milliseconds. */
export const HOUR = 3_600_000

let births = 0

/** The processes of one case. */
export class EngineContext extends Waits {
  private readonly isShared: boolean
  private readonly workers: Worker[] = []

  constructor(
    readonly fixture: EngineFixture,
    /** The process that every case has. */
    readonly first: EngineProcess,
    /** Lease of a run, in milliseconds. */
    readonly leaseMs: number,
    { isShared, timeoutMs, toleranceMs }: CheckedOptions,
  ) {
    super(timeoutMs, toleranceMs)
    this.isShared = isShared
  }

  get engine(): TaskEngine {
    return this.first.engine
  }

  /** A delay in milliseconds that is longer than the tolerance. */
  get delayMs(): number {
    return 2 * this.toleranceMs + 50
  }

  /** A delay in milliseconds that is longer than a slow machine takes for a few calls. */
  get windowMs(): number {
    return 6 * this.delayMs
  }

  /** Starts another process. Returns the first one if the engine is not shared. */
  async open(): Promise<EngineProcess> {
    return this.isShared ? this.fixture.open() : this.first
  }

  /** Returns a function that returns the engines of two processes by turns. */
  async sides(): Promise<(n: number) => TaskEngine> {
    const other = (await this.open()).engine
    return (n) => n % 2 === 0 ? this.engine : other
  }

  /** Returns a new task with an id, other properties, and defaults. */
  task({ id, ...others }: Partial<NewTask> & { readonly id: string }): NewTask {
    return {
      id, birth: newBirth(), name: 'report', pool: 'default', priority: 0, input: Json.of({ id }),
      details: { made: id }, keepMs: HOUR, ...others,
    }
  }

  /** Creates a task, which must succeed. */
  async created(
    task: Partial<NewTask> & { readonly id: string }, engine = this.engine,
  ): Promise<StoredTask> {
    const created = await this.soon(engine.create(this.task(task)), 'create resolves')
    assert.equal(created.outcome, 'created')
    return taskOf(created)
  }

  /** Makes a change, which must succeed. */
  async changed(
    ref: TaskRef, expected: Expected, change: TaskChange, engine = this.engine,
  ): Promise<StoredTask> {
    const changed = await this.soon(engine.change(ref, expected, change), 'change resolves')
    assert.equal(changed.outcome, 'changed')
    return taskOf(changed)
  }

  /** Creates a task in a pool without workers, and makes a change that ends it. */
  async ended(
    task: Partial<NewTask> & { readonly id: string }, change: TaskChange = { status: 'failed' },
  ): Promise<StoredTask> {
    return this.changed(await this.created({ pool: 'nobody', ...task }), { version: 1 }, change)
  }

  /** Makes a change, which must be a conflict. Returns the current task. */
  async conflict(
    ref: TaskRef, expected: Expected, change: TaskChange, engine = this.engine,
  ): Promise<StoredTask | undefined> {
    const changed = await this.soon(engine.change(ref, expected, change), 'change resolves')
    assert.equal(changed.outcome, 'conflict')
    return changed.outcome === 'conflict' ? changed.task : undefined
  }

  /** Reads a task, which must exist. */
  async stored(id: string, engine = this.engine): Promise<StoredTask> {
    const task = await this.soon(engine.read(id), 'read resolves')
    assert.ok(task, `the task ${id} is absent`)
    return task
  }

  /** Asserts that there is no task with an id, and none with its key. */
  async absent(id: string, key: string, engine = this.engine): Promise<void> {
    assert.equal(await engine.read(id), undefined)
    assert.equal(await engine.readByKey(key), undefined)
    assert.ok(!(await this.ids({}, engine)).includes(id), 'an absent task is listed')
  }

  /** Reads a page. */
  async listed(query: Partial<TaskQuery> = {}, engine = this.engine): Promise<readonly StoredTask[]> {
    const page = engine.list({ of: 'all', order: 'oldest', limit: 1000, ...query })
    return this.soon(page, 'list resolves')
  }

  /** Returns the ids of a page. */
  async ids(query: Partial<TaskQuery> = {}, engine = this.engine): Promise<string[]> {
    return (await this.listed(query, engine)).map(({ id }) => id)
  }

  /** Begins to work with a process, and records its runs, callbacks and removals. */
  work(options: WorkerOptions = {}, { engine }: Pick<EngineProcess, 'engine'> = this.first): Worker {
    const worker = new Worker(engine, options, this)
    this.workers.push(worker)
    return worker
  }

  /** Begins to work. Each run makes the change with its number. A run without a change crashes. */
  script(changes: Readonly<Record<number, TaskChange>>, options: WorkerOptions = {}): Worker {
    return this.work({
      ...options,
      run: async ({ task }, begun) => {
        const change = changes[task.run]
        if (change) await begun.change(change)
      },
    })
  }

  /** Creates a task, and waits until it runs. The run lasts until its latch is opened. */
  async running(
    task: Partial<NewTask> & { readonly id: string } = { id: 'one' }, options: WorkerOptions = {},
  ): Promise<{ readonly worker: Worker, readonly task: StoredTask, readonly begun: Begun }> {
    const worker = this.work({ ...options, run: untilOpened })
    const created = await this.created(task)
    return { worker, task: created, begun: await worker.ran(task.id) }
  }

  /** Waits until a task has a status. */
  async reaches(id: string, status: StoredTask['status'], engine = this.engine): Promise<StoredTask> {
    let found: StoredTask | undefined
    await this.eventually(async () => {
      found = await engine.read(id)
      return found?.status === status
    }, `${id} is ${status}`)
    return found as StoredTask
  }

  /** Waits until the clock of the engine is past a time. */
  async past(time: number): Promise<void> {
    await this.eventually(async () => await this.engine.now() > time, 'the time comes')
  }

  /** Asserts that something came after a delay. */
  waited(ms: number, delayMs: number, what: string): void {
    assert.ok(ms >= delayMs - this.toleranceMs, `${what} after ${String(ms)} ms`)
  }

  async end(): Promise<void> {
    await this.fixture.close()
    const [error] = this.workers.flatMap(({ errors }) => errors)
    if (error !== undefined) throw error as Error
  }
}

/** Returns a random string that no other task has. */
export function newBirth(): string {
  return `${String(++births)}-${Math.random().toString(36).slice(2)}`
}

/** Returns the task of an outcome that has one. */
export function taskOf(outcome: Created | Changed): StoredTask {
  assert.ok('task' in outcome && outcome.task, `the outcome ${outcome.outcome} has no task`)
  return outcome.task
}

/** Handlers of a worker. Each default ends the run, callback or task that it gets. */
export interface WorkerOptions {
  /** Places by pool. Default: 4 places of the pool `default`. */
  readonly places?: Readonly<Record<string, number>>
  /** Maximum number of callbacks that are sent at the same time. Default 4. */
  readonly callbacks?: number
  /** Limits of what runs, by pool. Default: none. */
  readonly limits?: Readonly<Record<string, RunLimits>>
  /** Performs a run. Default: completes the task. */
  readonly run?: (run: TaskRun, begun: Begun) => Promise<void>
  /** Sends a callback. Default: records that it was sent. */
  readonly callback?: (task: StoredTask) => Promise<void>
  /** Deletes files. Default: succeeds. */
  readonly remove?: (task: StoredTask) => Promise<boolean>
  /** Ends an unfinished task. Default: fails it. */
  readonly abandon?: (task: StoredTask) => MaybePromise<void>
}

/** A run that a worker has begun. */
export class Begun {
  readonly at = performance.now()
  /** Ends the run, if its handler waits for it. */
  readonly latch = deferred()

  constructor(readonly run: TaskRun, private readonly engine: TaskEngine) {}

  get task(): StoredTask {
    return this.run.task
  }

  /** Makes a change for this run. */
  async change(change: TaskChange): Promise<Changed> {
    return this.engine.change(this.task, { lease: this.run.lease }, change)
  }

  /** Makes a change for this run, and ends its handler. */
  async end(change: TaskChange): Promise<Changed> {
    const changed = await this.change(change)
    this.latch.resolve()
    return changed
  }
}

/** Runs, callbacks and removals of one process. */
export class Worker {
  readonly places: Places
  readonly begun: Begun[] = []
  readonly callbacks: StoredTask[] = []
  readonly removed: StoredTask[] = []
  readonly abandoned: StoredTask[] = []
  /** Errors of the handlers of the case. */
  readonly errors: unknown[] = []

  constructor(
    readonly engine: TaskEngine,
    { places = { default: 4 }, callbacks = 4, limits, ...handlers }: WorkerOptions,
    private readonly waits: Waits,
  ) {
    const {
      run = async (_run, begun) => { await begun.change({ status: 'completed', result: '1' }) },
      callback = async (task) => {
        await engine.change(task, { callbackRun: task.callbackRun }, { callbackMs: null })
      },
      remove = async () => true,
      abandon = async (task) => {
        await engine.change(task, { version: task.version }, { status: 'failed' })
      },
    } = handlers
    this.places = new Places(new Map(Object.entries(places)))
    const runLimits = limits && new Map(Object.entries(limits))
    engine.work({ places: this.places, callbacks, limits: runLimits }, {
      run: async (each) => {
        const begun = new Begun(each, this.engine)
        this.begun.push(begun)
        await run(each, begun).catch(this.note)
      },
      callback: async (task) => {
        this.callbacks.push(task)
        await callback(task).catch(this.note)
      },
      remove: async (task) => {
        this.removed.push(task)
        return remove(task)
      },
      abandon: async (task) => {
        this.abandoned.push(task)
        await abandon(task)
      },
    })
  }

  /** Notes an error of a handler. A call that fails in a killed process is not an error. */
  private readonly note = (error: unknown): void => {
    if (!isStoreUnavailable(error)) this.errors.push(error)
  }

  /** The ids of the tasks of all runs, in the order of their begin. */
  get ids(): string[] {
    return this.begun.map(({ task }) => task.id)
  }

  /** Returns all runs of a task. */
  of(id: string): Begun[] {
    return this.begun.filter(({ task }) => task.id === id)
  }

  /** Waits for the nth run of a task. */
  async ran(id: string, count = 1): Promise<Begun> {
    const what = `run ${String(count)} of ${id} begins`
    await this.waits.eventually(() => this.of(id).length >= count, what)
    return this.of(id)[count - 1] as Begun
  }

  /** Waits for the nth run of this worker. */
  async began(count: number): Promise<Begun> {
    const what = `${String(count)} runs begin`
    await this.waits.eventually(() => this.begun.length >= count, what)
    return this.begun[count - 1] as Begun
  }
}

/** A handler that ends a run, without a change, when its latch is opened. */
export async function untilOpened(_run: TaskRun, begun: Begun): Promise<void> {
  await begun.latch.promise
}

/** A handler that ends a run when its signal aborts. */
export function untilAborted(run: TaskRun): Promise<void> {
  return new Promise((resolve) => { run.onAbort(() => { resolve() }) })
}
