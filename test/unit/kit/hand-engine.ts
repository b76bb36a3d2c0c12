import assert from 'node:assert/strict'
import type { PoolCounts, TaskEngine, TaskRun, WorkHandlers } from '../../../src/engine/engine.js'
import { RunReplacedError, RunSignal, WorkerClosingError } from '../../../src/engine/runs.js'
import {
  isFinalStatus, type CallerLimit, type Changed, type Created, type Expected, type NewTask, type StoredTask,
  type TaskChange, type TaskRef,
} from '../../../src/engine/task.js'
import { Json } from '../../../src/runtime/json.js'
import { StoredNode } from '../../../adapters/memory/stored-task.js'

/** A task as the engine keeps it. */
class Kept extends StoredNode {
  readonly text: string
  limit: CallerLimit | undefined
  crashed: StoredTask | undefined
  /** Time from which the next run may begin. */
  dueAt: number

  constructor(task: NewTask, now: number) {
    const { start } = task
    const at = start === undefined ? now : 'at' in start ? start.at : now + start.delayMs
    super(task, now, at > now ? at : undefined)
    this.text = task.input.text
    this.limit = task.limit
    this.dueAt = Math.max(at, now)
  }
}

/** A run that a process has begun. */
class HandRun extends RunSignal implements TaskRun {
  readonly task: StoredTask
  readonly lease: string
  readonly input: Json
  readonly checkpoint: string | undefined
  readonly crashed: StoredTask | undefined

  constructor(readonly kept: Kept) {
    super()
    this.task = kept.toTask()
    this.lease = String(kept.run)
    this.input = Json.fromText(kept.text)
    this.checkpoint = kept.checkpoint
    this.crashed = kept.crashed
  }
}

/** What the processes of one engine share. */
class Shared {
  readonly tasks = new Map<string, Kept>()
  readonly runs = new Set<HandRun>()
  readonly listeners = new Map<string, Set<() => void>>()
  readonly startedAt = Math.floor(Date.now() - performance.now())
  skippedMs = 0
}

/** One process of an engine that hands out what the test says: twice, late, or never. */
export class HandEngine implements TaskEngine {
  readonly shared: boolean
  readonly hasTransactions = false
  private handlers: WorkHandlers | undefined
  private readonly own = new Map<HandRun, Promise<void>>()

  constructor(readonly durable = true, private readonly all = new Shared()) {
    this.shared = durable
  }

  /** Returns the engine of another process, with the same tasks. */
  another(): HandEngine {
    return new HandEngine(this.durable, this.all)
  }

  /** Removes a task, as if it had expired. */
  drop(id: string): void {
    const kept = this.kept(id)
    this.all.tasks.delete(id)
    this.replaceRuns(kept)
  }

  /** Lets time pass. */
  pass(ms: number): void { this.all.skippedMs += ms }

  /** Never goes back, unlike the clock of the computer. */
  now(): number { return this.all.startedAt + Math.floor(performance.now()) + this.all.skippedMs }

  /** Returns a task as it is stored. */
  at(id: string): StoredTask { return this.kept(id).toTask() }

  /** Returns the newest checkpoint of a task. */
  checkpointOf(id: string): string | undefined { return this.kept(id).checkpoint }

  /** Returns the delay until the next run may begin, in milliseconds. */
  delayOf(id: string): number { return this.kept(id).dueAt - this.now() }

  /**
   * Begins a run in this process, and resolves once its handler has ended.
   *
   * @param how - `isKilled`: nothing tells the run that it was replaced, as if its process were dead
   */
  async deliver(id: string, how: { readonly isKilled?: boolean } = {}): Promise<void> {
    const kept = this.kept(id)
    assert.equal(kept.status, 'queued')
    assert.ok(kept.dueAt <= this.now(), 'the run is not due yet')
    kept.crashed = undefined
    return this.begin(kept, how)
  }

  /** The same for a task whose run has lost its lease: that run may continue. */
  async takeOver(id: string, how: { readonly isKilled?: boolean } = {}): Promise<void> {
    const kept = this.kept(id)
    assert.equal(kept.status, 'processing')
    kept.crashed = kept.toTask()
    return this.begin(kept, how)
  }

  /** Makes an attempt at a callback, and resolves once its handler has ended. */
  async deliverCallback(id: string): Promise<void> {
    const kept = this.kept(id)
    const { callbackAt } = kept
    assert.ok(callbackAt !== undefined && callbackAt <= this.now(), 'no attempt is due')
    kept.beginCallback(this.now() + 60_000)
    const hold = setInterval(() => undefined, 60_000)
    await this.handlers?.callback(kept.toTask()).finally(() => { clearInterval(hold) })
  }

  create(task: NewTask): Created {
    const { id, key, birth, limit } = task
    const existing = this.read(id) ?? (key === undefined ? undefined : this.readByKey(key))
    if (existing) return { outcome: existing.birth === birth ? 'created' : 'exists', task: existing }
    if (!this.mayAdd(task.caller, limit)) return { outcome: 'caller_full' }
    const kept = new Kept(task, this.now())
    this.all.tasks.set(id, kept)
    return { outcome: 'created', task: kept.toTask() }
  }

  read(id: string): StoredTask | undefined { return this.live(id)?.toTask() }

  readByKey(key: string): StoredTask | undefined {
    return [...this.all.tasks.keys()].map((id) => this.read(id)).find((task) => task?.key === key)
  }

  change(ref: TaskRef, expected: Expected, change: TaskChange): Changed {
    const kept = this.live(ref.id)
    if (kept?.birth !== ref.birth) return { outcome: 'conflict', task: undefined }
    if (!kept.holds(expected, change)) return { outcome: 'conflict', task: kept.toTask() }
    const isRetry = isFinalStatus(kept.status) && change.status === 'queued'
    if (isRetry) {
      if (!this.mayAdd(kept.caller, change.limit)) return { outcome: 'caller_full' }
      kept.limit = change.limit
    }
    kept.change(expected, change, this.now())
    if (change.status === 'queued') kept.dueAt = this.now() + (change.delayMs ?? 0)
    if (change.status !== undefined && !('lease' in expected)) this.replaceRuns(kept)
    for (const listener of this.all.listeners.get(ref.id) ?? []) listener()
    return { outcome: 'changed', task: kept.toTask() }
  }

  delete(ref: TaskRef, version: number): StoredTask | undefined {
    const kept = this.live(ref.id)
    if (kept?.birth !== ref.birth) return undefined
    const task = kept.toTask()
    if (task.version !== version || !isFinalStatus(task.status)) return task
    this.all.tasks.delete(ref.id)
    if (kept.hasFiles) void this.handlers?.remove(task)
    return undefined
  }

  work(_: unknown, handlers: WorkHandlers): void { this.handlers = handlers }

  watch(id: string, listener: () => void): () => void {
    const listeners = this.all.listeners.get(id) ?? new Set()
    this.all.listeners.set(id, listeners.add(listener))
    return () => { listeners.delete(listener) }
  }

  list(): StoredTask[] { return [...this.all.tasks.values()].map((kept) => kept.toTask()) }
  counts(): PoolCounts { return { running: this.own.size, waiting: 0, delayed: 0 } }

  setPaused(): void { assert.fail('this engine has no pauses') }
  pausedPools(): readonly string[] { return [] }

  async close(): Promise<void> {
    for (const run of this.own.keys()) run.abort(new WorkerClosingError())
    await Promise.all(this.own.values())
    if (this.durable) return
    for (const task of this.list()) {
      if (!isFinalStatus(task.status) || task.callbackAt !== undefined) await this.handlers?.abandon(task)
    }
  }

  private async begin(
    kept: Kept, { isKilled = false }: { readonly isKilled?: boolean },
  ): Promise<void> {
    assert.ok(this.handlers, 'this process runs no tasks')
    kept.begin(this.now())
    this.replaceRuns(kept)
    const run = new HandRun(kept)
    // A process that is killed is not told of anything.
    if (!isKilled) this.all.runs.add(run)
    // Timers of the library let a process end.
    const hold = isKilled ? undefined : setInterval(() => undefined, 60_000)
    const ended = this.handlers.run(run)
    this.own.set(run, ended)
    try {
      await ended
    } finally {
      clearInterval(hold)
      this.all.runs.delete(run)
      this.own.delete(run)
    }
  }

  private replaceRuns(kept: Kept): void {
    for (const run of this.all.runs) if (run.kept === kept) run.abort(new RunReplacedError())
  }

  private kept(id: string): Kept {
    const kept = this.live(id)
    assert.ok(kept, `there is no task ${id}`)
    return kept
  }

  private live(id: string): Kept | undefined {
    const kept = this.all.tasks.get(id)
    return kept && kept.expiresAt > this.now() ? kept : undefined
  }

  private mayAdd(caller: string | undefined, limit: CallerLimit | undefined): boolean {
    if (caller === undefined || limit === undefined) return true
    const counted = [...this.all.tasks.values()].filter((kept) => (
      kept.caller === caller && kept.limit?.group === limit.group && !isFinalStatus(kept.status)
    ))
    return counted.length < limit.max
  }
}
