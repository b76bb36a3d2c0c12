import { setImmediate as tick } from 'node:timers/promises'
import type { Places, PoolCounts, TaskEngine, TaskQuery, WorkHandlers, WorkOptions } from '../../src/engine/engine.js'
import { RunReplacedError, WorkerClosingError } from '../../src/engine/runs.js'
import {
  isFinalStatus, nameFault, type Changed, type Created, type Expected, type NewTask,
  type StoredTask, type TaskChange, type TaskRef,
} from '../../src/engine/task.js'
import { Json } from '../../src/runtime/json.js'
import { OwnContext } from '../../src/runtime/own-context.js'
import { StoreUnavailableError } from '../../src/stores/store.js'
import type { ModelTasks, Row } from './model-tasks.js'

interface ModelRun {
  readonly task: StoredTask
  readonly lease: string
  readonly controller: AbortController
  renewedAt: number
}

/**
 * A process that works on the tasks of a model. Other processes on the same tasks are other engines
 * with the same `tasks`. `isDurable: false` is an engine in the memory of one process.
 */
export class ModelEngine implements TaskEngine {
  readonly shared: boolean
  readonly durable: boolean
  readonly hasTransactions = false
  isFrozen = false
  isKilled = false
  private readonly runs = new Set<ModelRun>()
  private sending = 0
  private removing = 0
  private timer: ReturnType<typeof setInterval> | undefined
  private handlers: WorkHandlers | undefined
  private closeBy: number | undefined
  private context = new OwnContext()

  constructor(readonly tasks: ModelTasks, { isDurable = true }: { isDurable?: boolean } = {}) {
    this.shared = isDurable
    this.durable = isDurable
  }

  create(task: NewTask): Promise<Created> {
    return this.call(() => {
      const fault = nameFault(task)
      if (fault) throw fault
      return this.tasks.create(task)
    })
  }

  read(id: string): Promise<StoredTask | undefined> {
    return this.call(() => this.tasks.row(id)?.task)
  }

  readByKey(key: string): Promise<StoredTask | undefined> {
    return this.call(() => this.tasks.withKey(key)?.task)
  }

  change(ref: TaskRef, expected: Expected, change: TaskChange): Promise<Changed> {
    return this.call(() => this.tasks.change(ref, expected, change))
  }

  delete(ref: TaskRef, version: number): Promise<StoredTask | undefined> {
    return this.call(() => this.tasks.delete(ref, version))
  }

  list(query: TaskQuery): Promise<StoredTask[]> {
    return this.call(() => this.tasks.list(query))
  }

  counts(pool: string): Promise<PoolCounts> {
    return this.call(() => this.tasks.counts(pool))
  }

  now(): Promise<number> {
    return this.call(() => this.tasks.now())
  }

  watch(id: string, listener: () => void): Promise<() => void> {
    return this.call(() => {
      const guarded = (): void => { if (!this.isFrozen && !this.isKilled) listener() }
      const listeners = this.tasks.watchers.get(id) ?? new Set()
      this.tasks.watchers.set(id, listeners.add(guarded))
      return () => { listeners.delete(guarded) }
    })
  }

  setPaused(pool: string, isPaused: boolean): Promise<void> {
    return this.call(() => {
      if (isPaused) this.tasks.paused.add(pool)
      else this.tasks.paused.delete(pool)
    })
  }

  pausedPools(): Promise<string[]> {
    return this.call(() => [...this.tasks.paused].sort())
  }

  work({ places, callbacks, limits }: WorkOptions, handlers: WorkHandlers): void {
    this.handlers = handlers
    this.context = new OwnContext()
    this.timer = setInterval(() => {
      for (const run of this.runs) this.renew(run)
      if (this.isFrozen) return
      if (this.closeBy === undefined || !this.durable) this.beginRuns(places, handlers, limits)
      if (this.closeBy === undefined) this.sendCallbacks(callbacks, handlers)
      this.removeFiles(handlers)
    }, 4)
  }

  async close({ drainMs }: { readonly drainMs: number }): Promise<void> {
    const end = performance.now() + drainMs
    this.closeBy = this.tasks.now() + drainMs
    while (this.isBusy() && !this.isKilled && performance.now() < end) await tick()
    this.closeBy = 0
    for (const run of this.runs) run.controller.abort(new WorkerClosingError())
    const last = performance.now() + 100
    while (this.runs.size > 0 && performance.now() < last) await tick()
    clearInterval(this.timer)
    if (this.durable || !this.handlers) return
    for (const { task } of this.tasks.live()) {
      if (!isFinalStatus(task.status) || task.callbackAt !== undefined)
        await this.context.run(this.handlers.abandon, task)
    }
  }

  /** Ends all that this process does, as `kill -9`. */
  kill(): void {
    this.isKilled = true
    clearInterval(this.timer)
  }

  private async call<T>(make: () => T): Promise<T> {
    await this.alive()
    const outcome = make()
    await this.alive()
    return outcome
  }

  private async alive(): Promise<void> {
    do await tick(); while (this.isFrozen && !this.isKilled)
    if (this.isKilled) throw new StoreUnavailableError('This process was killed.')
  }

  private beginRuns(
    places: Places, handlers: WorkHandlers, limits: WorkOptions['limits'],
  ): void {
    places.setPaused([...this.tasks.paused])
    for (const pool of places.pools.keys()) {
      while (this.closeBy !== 0 && places.tryAcquire(pool)) {
        const taken = this.tasks.take(pool, limits?.get(pool))
        if (!taken) {
          places.release(pool)
          break
        }
        void this.run(taken.row, taken.before, handlers).finally(() => places.release(pool))
      }
    }
  }

  private async run(row: Row, before: StoredTask, handlers: WorkHandlers): Promise<void> {
    const { task, input, checkpoint } = row
    const controller = new AbortController()
    const { signal } = controller
    const { lease } = row
    const run = { task, lease, controller, renewedAt: performance.now() }
    this.runs.add(run)
    await this.context.run(handlers.run, {
      task,
      lease,
      input: Json.fromText(input?.text ?? ''),
      checkpoint,
      crashed: before.status === 'processing' ? before : undefined,
      signal,
      onAbort: (listener) => {
        if (signal.aborted) listener(signal.reason)
        else signal.addEventListener('abort', () => listener(signal.reason))
      },
    })
    this.runs.delete(run)
  }

  private renew(run: ModelRun): void {
    const { leaseMs } = this.tasks.settings
    const sentAt = performance.now()
    if (sentAt - run.renewedAt >= 0.9 * leaseMs) run.controller.abort(new RunReplacedError())
    if (this.isFrozen || run.controller.signal.aborted) return
    if (this.tasks.renew(run.task, run.lease)) run.renewedAt = sentAt
    else run.controller.abort(new RunReplacedError())
  }

  private sendCallbacks(max: number, handlers: WorkHandlers): void {
    while (this.sending < max) {
      const task = this.tasks.takeCallback()
      if (!task) return
      this.sending++
      void this.context.run(handlers.callback, task).finally(() => { this.sending-- })
    }
  }

  private removeFiles(handlers: WorkHandlers): void {
    for (const row of this.tasks.removals()) {
      if (this.removing >= 10) return
      row.removeAt = this.tasks.now() + 200
      this.removing++
      void this.context.run(handlers.remove, row.task).then((isRemoved) => {
        this.removing--
        if (isRemoved) this.tasks.gone.delete(row)
      })
    }
  }

  private isBusy(): boolean {
    if (this.runs.size + this.sending > 0) return true
    if (this.durable || !this.handlers) return false
    return this.tasks.live().some(({ task, dueAt }) => (
      task.status === 'queued' && dueAt < (this.closeBy ?? 0)
    ))
  }
}
