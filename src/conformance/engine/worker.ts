import { Places, type TaskEngine, type TaskRun } from '../../engine/engine.js'
import type { Changed, StoredTask, TaskChange } from '../../engine/task.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import { isStoreUnavailable } from '../../stores/store.js'
import { eventually, Latch } from '../waiting.js'

/** Handlers of a worker. Each default ends what it is handed. */
export interface WorkerOptions {
  /** Places by pool. Default: 4 places of the pool `default`. */
  readonly places?: Readonly<Record<string, number>>
  /** Maximum number of callbacks that are sent at the same time. Default 4. */
  readonly callbacks?: number
  /** Performs a run. Default: completes the task. */
  readonly run?: (run: TaskRun, begun: Begun) => Promise<void>
  /** Sends a callback. Default: records that it was sent. */
  readonly callback?: (task: StoredTask) => Promise<void>
  /** Deletes files. Default: succeeds. */
  readonly remove?: (task: StoredTask) => Promise<boolean>
  /** Ends an unfinished task. Default: fails it. */
  readonly abandon?: (task: StoredTask) => MaybePromise<void>
}

/** A run that a worker was handed. */
export class Begun {
  readonly at = performance.now()
  /** Opens when the run shall end, for handlers that wait for it. */
  readonly latch = new Latch()

  constructor(readonly run: TaskRun, private readonly engine: TaskEngine) {}

  get task(): StoredTask {
    return this.run.task
  }

  /** Makes a change for this run. */
  async change(change: TaskChange): Promise<Changed> {
    return this.engine.change(this.task, { run: this.task.run }, change)
  }
}

/** Runs, callbacks and removals that one process was handed. */
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
    { places = { default: 4 }, callbacks = 4, ...handlers }: WorkerOptions,
    private readonly timeoutMs: number,
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
    engine.work({ places: this.places, callbacks }, {
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

  /** Notes an error of a handler. Calls fail in a process that was killed, which is none. */
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
    await eventually(() => this.of(id).length >= count, this.timeoutMs, what)
    return this.of(id)[count - 1] as Begun
  }

  /** Waits for the nth run of this worker. */
  async began(count: number): Promise<Begun> {
    const what = `${String(count)} runs begin`
    await eventually(() => this.begun.length >= count, this.timeoutMs, what)
    return this.begun[count - 1] as Begun
  }
}

/** A handler that ends a run, without a change, when its latch is opened. */
export async function untilOpened(_run: TaskRun, begun: Begun): Promise<void> {
  await begun.latch.opened
}

/** A handler that ends a run when its signal aborts. */
export function untilAborted(run: TaskRun): Promise<void> {
  return new Promise((resolve) => { run.onAbort(() => { resolve() }) })
}
