import timers from 'node:timers'
import type { TaskRun } from '../../../src/engine/engine.js'
import { RunSignal } from '../../../src/engine/run-signal.js'
import { RunReplacedError } from '../../../src/engine/stop-reasons.js'
import type { StoredTask } from '../../../src/engine/task.js'
import { Json } from '../../../src/runtime/json.js'
import type { TicketJob } from './tickets.js'

// Captured at once: Redis keeps real time, even under a test's fake timers.
const { setInterval, clearInterval } = timers

/** Number of checks of the leases in the time of one lease. */
const CHECKS = 12

/** A run that this process performs. */
export class ActiveRun extends RunSignal implements TaskRun {
  readonly input: Json
  /** Name of the run in Redis. */
  readonly member: string

  /**
   * @param pool - the pool whose place the run has
   * @param leaseEnd - end of the lease by `performance.now()`
   */
  constructor(
    readonly task: StoredTask, input: string, readonly checkpoint: string | undefined,
    readonly crashed: StoredTask | undefined, readonly pool: string, readonly job: TicketJob,
    public leaseEnd: number,
  ) {
    super()
    this.input = Json.fromText(input)
    this.member = `${task.id}\n${String(task.run)}`
  }
}

/** Options of `ActiveRuns`. */
export interface ActiveRunsOptions {
  readonly leaseMs: number
  /** Renews the leases of runs. Resolves to the members of those that were lost. */
  readonly renew: (runs: readonly ActiveRun[]) => Promise<readonly string[]>
}

/**
 * The runs of this process, and their leases. One command renews all of them, three times in the
 * time of one lease. A run whose lease was lost, or may end before it is renewed, is aborted.
 */
export class ActiveRuns {
  private readonly runs = new Set<ActiveRun>()
  private readonly leased = new Map<string, ActiveRun>()
  private renewedAt = performance.now()
  private renewing: Promise<void> | undefined
  private isWanted = false
  private timer: ReturnType<typeof setInterval> | undefined

  constructor(private readonly options: ActiveRunsOptions) {}

  get size(): number {
    return this.runs.size
  }

  start(): void {
    this.timer = setInterval(() => { this.check() }, this.options.leaseMs / CHECKS)
    this.timer.unref()
  }

  stop(): void {
    clearInterval(this.timer)
  }

  add(run: ActiveRun): void {
    this.runs.add(run)
    this.leased.set(run.member, run)
  }

  /** The handler of a run has ended. */
  remove(run: ActiveRun): void {
    this.runs.delete(run)
    this.endLease(run)
  }

  abortAll(reason: Error): void {
    for (const run of this.runs) run.abort(reason)
  }

  /** Renews all leases, and aborts runs that were lost. Never rejects. */
  renew(): Promise<void> {
    this.isWanted = this.renewing !== undefined
    this.renewing ??= this.renewAll().catch(() => undefined).finally(() => {
      this.renewing = undefined
      if (this.isWanted) void this.renew()
    })
    return this.renewing
  }

  private check(): void {
    const { leaseMs } = this.options
    const now = performance.now()
    for (const run of this.leased.values()) {
      if (run.leaseEnd - now <= 2 * leaseMs / CHECKS) this.lose(run)
    }
    if (now - this.renewedAt >= leaseMs / 3 && !this.renewing) void this.renew()
  }

  private async renewAll(): Promise<void> {
    const runs = [...this.leased.values()]
    const sentAt = performance.now()
    if (runs.length > 0) {
      const lost = await this.options.renew(runs)
      for (const run of runs) run.leaseEnd = sentAt + this.options.leaseMs
      for (const member of lost) {
        const run = this.leased.get(member)
        if (run && runs.includes(run)) this.lose(run)
      }
    }
    this.renewedAt = sentAt
  }

  private lose(run: ActiveRun): void {
    this.endLease(run)
    run.abort(new RunReplacedError())
  }

  private endLease(run: ActiveRun): void {
    if (this.leased.get(run.member) === run) this.leased.delete(run.member)
  }
}
