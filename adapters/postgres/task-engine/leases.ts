import timers from 'node:timers'
import type { TaskRun } from '../../../src/engine/engine.js'
import { RunSignal } from '../../../src/engine/run-signal.js'
import { RunReplacedError } from '../../../src/engine/stop-reasons.js'
import type { StoredTask } from '../../../src/engine/task.js'
import { Json } from '../../../src/runtime/json.js'
import type { Query } from '../connections.js'
import { toTask, type TaskRow } from './rows.js'

// Captured at once: the server keeps real time, also under a test's fake timers.
const { setTimeout, clearTimeout } = timers

/** Number of times that the leases are looked at while one lasts. */
const TICKS = 15
/** Longest time between two looks, in milliseconds. */
const MAX_TICK_MS = 5000

/** A run as the statement that begins it returns it. */
export interface RunRow extends TaskRow {
  readonly input: string
  readonly checkpoint: string | null
  readonly has_crashed: boolean
  readonly lost_run_started_at: number | null
}

/** A run of this process. */
export class ActiveRun extends RunSignal implements TaskRun {
  readonly task: StoredTask
  readonly input: Json
  readonly checkpoint: string | undefined
  readonly crashed: StoredTask | undefined

  /** @param leaseEnd - by the monotonic clock */
  constructor(row: RunRow, public leaseEnd: number) {
    super()
    const task = this.task = toTask(row)
    this.input = Json.fromText(row.input)
    this.checkpoint = row.checkpoint?.slice(1)
    this.crashed = row.has_crashed ? {
      ...task, version: task.version - 1, run: task.run - 1, attempt: task.attempt - 1,
      crashes: task.crashes - 1, runStartedAt: row.lost_run_started_at ?? undefined,
    } : undefined
  }
}

/**
 * Renews the leases of all runs of this process by one statement, at a third of the lease. Aborts
 * runs that have another end, and those whose lease could not be renewed in time. Times are of the
 * monotonic clock, from before the statement was sent.
 */
export class Leases {
  private readonly runs = new Map<string, ActiveRun>()
  private readonly tickMs: number
  private timer: ReturnType<typeof setTimeout> | undefined
  private renewedAt = 0
  private isRenewing = false

  /** @param sql - `renew` of `WorkerSql` */
  constructor(
    private readonly query: Query, private readonly sql: string, private readonly leaseMs: number,
  ) {
    this.tickMs = Math.min(leaseMs / TICKS, MAX_TICK_MS)
  }

  get size(): number {
    return this.runs.size
  }

  /** Begins to renew the lease of a run. */
  add(run: ActiveRun): void {
    this.runs.get(run.task.id)?.abort(new RunReplacedError())
    this.runs.set(run.task.id, run)
    if (this.timer !== undefined) return
    this.renewedAt = performance.now()
    this.tick()
  }

  /** Stops to renew the lease of a run. */
  remove(run: ActiveRun): void {
    if (this.runs.get(run.task.id) === run) this.runs.delete(run.task.id)
    if (this.runs.size === 0) this.stop()
  }

  /**
   * Ends the lease of the run of a task that has changed, if the run is over.
   *
   * @param isOwn - the run itself has made the change
   */
  note(task: StoredTask, isOwn: boolean): void {
    const run = this.runs.get(task.id)
    if (run?.task.birth !== task.birth || run.task.run > task.run) return
    if (run.task.run === task.run && task.status === 'processing') return
    if (isOwn) this.runs.delete(task.id)
    else this.lose(run)
  }

  /** Aborts all runs. Their leases are renewed until they end. */
  abort(reason: Error): void {
    for (const run of this.runs.values()) run.abort(reason)
  }

  /** Renews all leases now, to see which runs are over. */
  async renew(): Promise<void> {
    if (this.isRenewing || this.runs.size === 0) return
    const runs = [...this.runs.values()]
    const sentAt = performance.now()
    this.isRenewing = true
    try {
      const rows = await this.query<{ readonly id: string, readonly is_renewed: boolean }>(
        this.sql, [
          runs.map(({ task }) => task.id), runs.map(({ task }) => task.birth),
          runs.map(({ task }) => task.run), this.leaseMs,
        ],
      )
      const renewed = new Map(rows.map(({ id, is_renewed: isRenewed }) => [id, isRenewed]))
      for (const run of runs) {
        const isRenewed = renewed.get(run.task.id)
        if (isRenewed === undefined) this.lose(run)
        // The row is locked by a change of the run itself. The next renewal comes in time.
        else if (isRenewed) run.leaseEnd = sentAt + this.leaseMs
      }
      this.renewedAt = sentAt
    } catch {
      // Tried again soon, until the leases have ended.
    } finally {
      this.isRenewing = false
    }
  }

  stop(): void {
    clearTimeout(this.timer)
    this.timer = undefined
  }

  private tick(): void {
    const now = performance.now()
    for (const run of this.runs.values()) {
      // Another process may take the task from its end on, so the run is aborted a little before.
      if (now >= run.leaseEnd - 2 * this.tickMs) this.lose(run)
    }
    if (now - this.renewedAt >= this.leaseMs / 3) void this.renew()
    this.timer = setTimeout(() => { this.tick() }, this.tickMs)
    this.timer.unref()
  }

  private lose(run: ActiveRun): void {
    if (this.runs.get(run.task.id) !== run) return
    this.runs.delete(run.task.id)
    run.abort(new RunReplacedError())
  }
}
