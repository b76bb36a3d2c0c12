import {
  LeasedRun, LeasedWork, nameFault, type Changed, type Created, type Expected, type NewTask,
  type PoolCounts, type StoredTask, type TaskChange, type TaskEngine, type TaskQuery, type TaskRef,
  type WorkHandlers, type WorkOptions,
} from 'longhaul/engine'
import { StoreUnavailableError } from 'longhaul/stores'
import { isBusy, type SqliteDatabase } from '../../adapters/sqlite/client.js'
import { SmallFile } from './small-file.js'
import type { ModelSettings, ModelTasks } from './model-tasks.js'

/**
 * The smallest shared engine: a file of SQLite, and the rules of `ModelTasks`, which scan all tasks. The
 * guide builds it step by step.
 */
export class SmallEngine implements TaskEngine {
  readonly shared = true
  readonly durable = true
  readonly hasTransactions = false
  private readonly file: SmallFile
  private readonly watches = new Set<{ readonly id: string, readonly listener: () => void }>()
  private readonly runs = new Set<LeasedRun>()
  private readonly timer = setInterval(() => { this.lookForOthers() }, 50)
  private working: LeasedWork | undefined

  constructor(database: SqliteDatabase, private readonly settings: ModelSettings) {
    this.file = new SmallFile(database, settings)
  }

  async create(task: NewTask): Promise<Created> {
    const fault = nameFault(task)
    if (fault) throw fault
    return this.call((tasks) => tasks.create(task))
  }

  async change(ref: TaskRef, expected: Expected, change: TaskChange): Promise<Changed> {
    const changed = await this.call((tasks) => tasks.change(ref, expected, change))
    if (changed.outcome === 'changed') this.working?.leases.note(changed.task, 'lease' in expected)
    return changed
  }

  read(id: string): Promise<StoredTask | undefined> {
    return this.call((tasks) => tasks.row(id)?.task)
  }

  readByKey(key: string): Promise<StoredTask | undefined> {
    return this.call((tasks) => tasks.withKey(key)?.task)
  }

  delete(ref: TaskRef, version: number): Promise<StoredTask | undefined> {
    return this.call((tasks) => tasks.delete(ref, version))
  }

  list(query: TaskQuery): Promise<StoredTask[]> {
    return this.call((tasks) => tasks.list(query))
  }

  counts(pool: string): Promise<PoolCounts> {
    return this.call((tasks) => tasks.counts(pool))
  }

  now(): Promise<number> {
    return this.call((tasks) => tasks.now())
  }

  setPaused(pool: string, isPaused: boolean): Promise<void> {
    return this.call(({ paused }) => {
      if (isPaused) paused.add(pool)
      else paused.delete(pool)
    })
  }

  pausedPools(): Promise<string[]> {
    return this.call(({ paused }) => [...paused].sort())
  }

  /** Applies a rule in a transaction. Waits up to three seconds while another process has the lock. */
  private async call<T>(rule: (tasks: ModelTasks) => T): Promise<T> {
    for (const end = performance.now() + 3000; ;) {
      try {
        const { outcome, changed } = this.file.transact(rule)
        if (changed.length > 0) this.tell(changed)
        return outcome
      } catch (error) {
        if (!isBusy(error) || performance.now() > end) {
          throw new StoreUnavailableError('SQLite failed', { cause: error })
        }
        await new Promise((resolve) => { setTimeout(resolve, 5) })
      }
    }
  }

  async watch(id: string, listener: () => void): Promise<() => void> {
    // Changes from before are in the file, so they call no listener.
    await this.now()
    const watch = { id, listener }
    this.watches.add(watch)
    return () => { this.watches.delete(watch) }
  }

  private tell(changed: readonly string[]): void {
    for (const watch of this.watches) {
      if (!changed.includes(watch.id)) continue
      setImmediate(() => {
        try {
          if (this.watches.has(watch)) watch.listener()
        } catch { /* It harms neither the writer nor others. */ }
      })
    }
    this.working?.lookIn(0)
  }

  /** Every 50 ms. */
  private lookForOthers(): void {
    if (this.file.hasForeignChange()) this.checkRuns()
  }

  work(options: WorkOptions, handlers: WorkHandlers): void {
    const working: LeasedWork = new LeasedWork(options, handlers, {
      leaseMs: this.settings.leaseMs,
      renew: (runs) => this.call((tasks) => (
        runs.map(({ task, lease }) => tasks.renew(task, lease) ? 'renewed' : 'lost')
      )),
      look: () => this.look(working),
    })
    this.working = working
    options.places.onFree(() => { working.lookIn(0) })
    working.lookIn(0)
  }

  async close({ drainMs }: { readonly drainMs: number }): Promise<void> {
    await this.working?.close(drainMs)
    clearInterval(this.timer)
  }

  /** Begins what is due in one transaction, and then performs it. */
  private async look(working: LeasedWork): Promise<void> {
    const { places, limits } = working.options
    const { runs, callbacks, removals } = await this.call((tasks) => {
      places.setPaused([...tasks.paused])
      return {
        runs: [...places.pools.keys()].flatMap((pool) => (
          take(places.freeIn(pool), () => this.begin(tasks, pool, limits?.get(pool)))
        )),
        callbacks: take(working.freeCallbacks, () => tasks.takeCallback()),
        removals: take(working.freeRemovals, () => tasks.takeRemoval()),
      }
    })
    for (const run of runs) this.perform(working, run)
    for (const task of callbacks) void working.callBack(task)
    for (const task of removals) {
      void working.remove(task, (isRemoved) => (
        this.call((tasks) => { if (isRemoved) tasks.removed(task) })
      ))
    }
  }

  private begin(tasks: ModelTasks, ...of: Parameters<ModelTasks['take']>): LeasedRun | undefined {
    const taken = tasks.take(...of)
    if (taken === undefined) return undefined
    const { before, row: { task, lease, input, checkpoint } } = taken
    return new LeasedRun({
      task, lease, input: input?.text ?? '', checkpoint,
      crashed: before.status === 'processing' ? before : undefined,
      leaseEnd: performance.now() + this.settings.leaseMs,
    })
  }

  private perform(working: LeasedWork, run: LeasedRun): void {
    const { places } = working.options
    places.tryAcquire(run.task.pool)
    this.runs.add(run)
    void working.perform(run).finally(() => {
      this.runs.delete(run)
      places.release(run.task.pool)
    })
  }

  /** Aborts runs that another process has ended. */
  private checkRuns(): void {
    this.call((tasks) => [...this.runs].map((run) => [run, tasks.row(run.task.id)] as const)).then((all) => {
      for (const [, row] of all) if (row) this.working?.leases.note(row.task, false)
      // A renewal finds a run whose task is gone, or runs elsewhere.
      if (all.some(([run, row]) => row?.lease !== run.lease)) void this.working?.leases.renew()
    }, () => undefined)
  }
}

/** Calls `next` until there is nothing more, or `max` times. */
function take<T>(max: number, next: () => T | undefined): T[] {
  const all: T[] = []
  for (let one: T | undefined; all.length < max && (one = next()) !== undefined;) all.push(one)
  return all
}
