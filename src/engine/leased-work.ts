import { OwnContext } from '../runtime/own-context.js'
import { clearTimeout, setTimeout, settles } from '../runtime/timers.js'
import type { WorkHandlers, WorkOptions } from './engine.js'
import { Leases, WorkerClosingError, type LeasedRun, type Renewal } from './runs.js'
import type { StoredTask } from './task.js'

/** Longest interval between two looks for what is due, in milliseconds. */
const LOOK_MS = 1000
/** Maximum number of tasks whose files are removed at the same time. */
const REMOVALS = 10
/** Time for aborted runs to end, in milliseconds. */
const ABORT_GRACE_MS = 2000

/** `look` finds what is due, and `take` begins runs. */
export type WorkerCall = 'look' | 'take'

/** Calls of an engine that `LeasedWork` makes. */
export interface WorkSource {
  /** Time after which the lease of a run ends, unless it is renewed, in milliseconds. */
  readonly leaseMs: number
  /** `true` keeps the process alive. Default `false`. */
  readonly keepsAlive?: boolean
  /** Renews leases. Resolves to an outcome for each run. */
  readonly renew: (runs: readonly LeasedRun[]) => Promise<readonly Renewal[]>
  /** Looks for what is due, one look at a time. After a failure, the next look tries again. */
  readonly look: () => Promise<void>
}

/**
 * Work of one process, for an engine that several processes share. It looks for what is due every
 * second and when it is notified, calls the handlers in the async context of `work`, renews the
 * leases, aborts runs that are lost, and waits for all of it in `close`. An engine creates one in
 * `work`.
 *
 * @example
 * function begin(options: WorkOptions, handlers: WorkHandlers, take: () => Promise<LeasedRun[]>): LeasedWork {
 *   const work: LeasedWork = new LeasedWork(options, handlers, {
 *     leaseMs: 15_000,
 *     renew: async (runs) => runs.map(() => 'renewed'),
 *     look: async () => { for (const run of await take()) void work.perform(run) },
 *   })
 *   work.lookIn(0)
 *   return work
 * }
 */
export class LeasedWork {
  /** Leases of the active runs. An engine calls `note` for each change of status that it knows. */
  readonly leases: Leases
  /** The async context of `work`, for the handlers and for the calls of the worker itself. */
  readonly context = new OwnContext()
  /** `true` once `close` was called: an engine then begins nothing. */
  isClosing = false
  private callbacks = 0
  private removals = 0
  /** Number of looks, runs, callbacks and removals that have not ended. */
  private pending = 0
  private onIdle: (() => void) | undefined
  private looking: Promise<void> = Promise.resolve()
  private timer: ReturnType<typeof setTimeout> | undefined
  private lookAt = Infinity
  /** Calls that have failed since they last succeeded. */
  private readonly failing = new Set<WorkerCall>()

  constructor(
    readonly options: WorkOptions, private readonly handlers: WorkHandlers,
    private readonly source: WorkSource,
  ) {
    this.leases = new Leases(source.leaseMs, (runs) => this.context.run(source.renew, runs))
  }

  /** Number of callbacks that may be taken now. */
  get freeCallbacks(): number {
    return this.options.callbacks - this.callbacks
  }

  /** Number of tasks whose files may be removed now. */
  get freeRemovals(): number {
    return REMOVALS - this.removals
  }

  /** Looks for what is due, at the latest after `ms` milliseconds. */
  lookIn(ms: number): void {
    const at = performance.now() + ms
    if (this.isClosing || at >= this.lookAt) return
    this.lookAt = at
    clearTimeout(this.timer)
    this.timer = setTimeout(() => {
      this.looking = this.looking.then(() => this.look())
    }, ms)
    if (this.source.keepsAlive !== true) this.timer.unref()
  }

  /** Performs a run that has begun, and renews its lease. Resolves when it has ended. */
  async perform(run: LeasedRun): Promise<void> {
    this.leases.add(run)
    if (this.isClosing) run.abort(new WorkerClosingError())
    await this.track(() => this.handlers.run(run)).finally(() => { this.leases.remove(run) })
  }

  /** Makes an attempt at the callback of a task. Never rejects. */
  async callBack(task: StoredTask): Promise<void> {
    this.callbacks++
    await this.track(() => this.handlers.callback(task)).catch(() => undefined)
    if (this.callbacks-- === this.options.callbacks) this.lookIn(0)
  }

  /** Removes the files of a task. `note` records the outcome in the engine. */
  async remove(task: StoredTask, note: (isRemoved: boolean) => Promise<unknown>): Promise<void> {
    this.removals++
    await this.track(() => this.handlers.remove(task).then(note)).catch(() => undefined)
    if (this.removals-- === REMOVALS) this.lookIn(0)
  }

  /** Calls `work` in the async context of the worker. `close` waits for it. */
  async track<R>(work: () => Promise<R>): Promise<R> {
    this.pending++
    try {
      return await this.context.run(work)
    } finally {
      this.pending--
      if (this.pending === 0) this.onIdle?.()
    }
  }

  /** Reports the first failure of an outage. */
  noteFailure(call: WorkerCall, error: unknown): void {
    if (this.isClosing) return
    if (this.failing.size === 0) this.handlers.outage?.(error)
    this.failing.add(call)
  }

  /** Ends an outage of one call. */
  noteSuccess(call: WorkerCall): void {
    this.failing.delete(call)
  }

  /** Takes nothing more. Waits until all work has ended, or aborts the runs and waits shortly. */
  async close(drainMs: number): Promise<void> {
    this.isClosing = true
    clearTimeout(this.timer)
    if (!await this.idle(drainMs)) {
      this.leases.abort(new WorkerClosingError())
      await this.idle(ABORT_GRACE_MS)
    }
    this.leases.stop()
  }

  private async look(): Promise<void> {
    this.lookAt = Infinity
    if (this.isClosing) return
    await this.track(this.source.look).then(
      () => { this.noteSuccess('look') },
      (error: unknown) => { this.noteFailure('look', error) },
    )
    this.lookIn(LOOK_MS)
  }

  /** Resolves to `true` when all work has ended, or to `false` after `ms` milliseconds. */
  private idle(ms: number): Promise<boolean> {
    const idle = new Promise<void>((resolve) => {
      this.onIdle = resolve
      if (this.pending === 0) resolve()
    })
    return settles(idle, ms)
  }
}
