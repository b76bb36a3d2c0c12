import { Json } from '../runtime/json.js'
import { clearInterval, setInterval } from '../runtime/timers.js'
import type { TaskRun } from './engine.js'
import type { StoredTask } from './task.js'

const REPLACED = Symbol.for('longhaul.RunReplacedError')
const CLOSING = Symbol.for('longhaul.WorkerClosingError')

/**
 * Abort reason of a run whose task has ended or has a later run, or whose lease has ended. Test for
 * it with `isRunReplaced`.
 */
export class RunReplacedError extends Error {
  override readonly name = 'RunReplacedError'
  readonly [REPLACED] = true
  constructor() {
    super('The task has ended, or another run has begun')
  }
}

/** Returns whether `error` is a `RunReplacedError` of any copy of this package. */
export function isRunReplaced(error: unknown): error is RunReplacedError {
  return typeof error === 'object' && error !== null && REPLACED in error
}

/** Abort reason of a run whose process closes. Test for it with `isWorkerClosing`. */
export class WorkerClosingError extends Error {
  override readonly name = 'WorkerClosingError'
  readonly [CLOSING] = true
  constructor() {
    super('This process is closing')
  }
}

/** Returns whether `error` is a `WorkerClosingError` of any copy of this package. */
export function isWorkerClosing(error: unknown): error is WorkerClosingError {
  return typeof error === 'object' && error !== null && CLOSING in error
}

/** The signal of a run, made when it is read, because a signal costs a quarter of an accept. */
export class RunSignal {
  #controller: AbortController | undefined
  /** True once `abort` was called. */
  aborted = false
  /** Reason of the abort. */
  reason: unknown
  #listener: ((reason: unknown) => void) | undefined

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.aborted) this.#controller.abort(this.reason)
    }
    return this.#controller.signal
  }

  /** Calls `listener` when the run is aborted; at once if it was. */
  onAbort(listener: (reason: unknown) => void): void {
    if (this.aborted) return listener(this.reason)
    const earlier = this.#listener
    this.#listener = earlier === undefined ? listener : (reason) => {
      earlier(reason)
      listener(reason)
    }
  }

  /** Stops the run. Later calls do nothing. */
  abort(reason: unknown): void {
    if (this.aborted) return
    this.aborted = true
    this.reason = reason
    this.#controller?.abort(reason)
    this.#listener?.(reason)
  }
}

const CHECKS = 15
/** Longest time between two checks, in milliseconds. */
const MAX_CHECK_MS = 5000

/** A run that an engine with leases has begun. */
export interface BegunRun {
  readonly task: StoredTask
  /** Random token of this begin, which the engine stores with the task. */
  readonly lease: string
  /** JSON text. */
  readonly input: string
  readonly checkpoint: string | undefined
  /** The task before this run, if the run before was lost. */
  readonly crashed: StoredTask | undefined
  /** End of the lease, by the monotonic clock. */
  readonly leaseEnd: number
}

/** A run with a lease, which `Leases` renews. */
export class LeasedRun extends RunSignal implements TaskRun {
  readonly task: StoredTask
  readonly lease: string
  readonly input: Json
  readonly checkpoint: string | undefined
  readonly crashed: StoredTask | undefined
  /** End of the lease, by the monotonic clock. */
  leaseEnd: number

  constructor({ task, lease, input, checkpoint, crashed, leaseEnd }: BegunRun) {
    super()
    this.task = task
    this.lease = lease
    this.input = Json.fromText(input)
    this.checkpoint = checkpoint
    this.crashed = crashed
    this.leaseEnd = leaseEnd
  }
}

/** `lost`: the run has ended, or another one has begun. `busy`: the renewal is tried again soon. */
export type Renewal = 'renewed' | 'lost' | 'busy'

/** Renews the leases of all runs of this process together. Times are of the monotonic clock. */
export class Leases {
  private readonly runs = new Map<string, LeasedRun>()
  private readonly checkMs: number
  private timer: ReturnType<typeof setInterval> | undefined
  private isRenewing = false
  private isWanted = false

  /** @param send - renews leases; resolves to an outcome for each run */
  constructor(
    private readonly leaseMs: number,
    private readonly send: (runs: readonly LeasedRun[]) => Promise<readonly Renewal[]>,
  ) {
    this.checkMs = Math.min(leaseMs / CHECKS, MAX_CHECK_MS)
  }

  /** Begins to renew the lease of a run. An earlier run of its task is aborted. */
  add(run: LeasedRun): void {
    this.runs.get(run.task.id)?.abort(new RunReplacedError())
    this.runs.set(run.task.id, run)
    if (this.timer !== undefined) return
    this.timer = setInterval(() => { this.check() }, this.checkMs)
    this.timer.unref()
  }

  /** Stops the renewal of the lease of a run, because its handler has ended. */
  remove(run: LeasedRun): void {
    if (this.runs.get(run.task.id) === run) this.runs.delete(run.task.id)
    if (this.runs.size === 0) this.stop()
  }

  /** Ends the lease of a run that is over. `isOwn`: the run itself has made the change. */
  note(task: StoredTask, isOwn: boolean): void {
    const run = this.runs.get(task.id)
    if (run?.task.birth !== task.birth || run.task.run > task.run) return
    if (run.task.run === task.run && task.status === 'processing') return
    if (isOwn) this.remove(run)
    else this.lose(run)
  }

  /** Aborts all runs. Their leases are renewed until they end. */
  abort(reason: Error): void {
    for (const run of this.runs.values()) run.abort(reason)
  }

  /** Renews all leases now, to see which runs are over. Never rejects. */
  async renew(): Promise<void> {
    this.isWanted = true
    if (this.isRenewing) return
    this.isRenewing = true
    while (this.isWanted && this.runs.size > 0) {
      this.isWanted = false
      // After a failure, the next check tries again, until the leases have ended.
      await this.renewAll().catch(() => undefined)
    }
    this.isRenewing = false
  }

  /** Renews nothing more. */
  stop(): void {
    clearInterval(this.timer)
    this.timer = undefined
  }

  private check(): void {
    const now = performance.now()
    let isDue = false
    for (const run of this.runs.values()) {
      const left = run.leaseEnd - now
      // Another process may take the task from its end on, so the run is aborted a little before.
      if (left <= 2 * this.checkMs) this.lose(run)
      else if (left <= this.leaseMs * 2 / 3) isDue = true
    }
    if (isDue && !this.isRenewing) void this.renew()
  }

  private async renewAll(): Promise<void> {
    const runs = [...this.runs.values()]
    const sentAt = performance.now()
    const renewals = await this.send(runs)
    for (const [n, run] of runs.entries()) {
      if (renewals[n] === 'renewed') run.leaseEnd = sentAt + this.leaseMs
      else if (renewals[n] === 'lost') this.lose(run)
    }
  }

  private lose(run: LeasedRun): void {
    if (this.runs.get(run.task.id) !== run) return
    this.remove(run)
    run.abort(new RunReplacedError())
  }
}
