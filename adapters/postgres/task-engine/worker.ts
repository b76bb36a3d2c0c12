import type { WorkHandlers, WorkOptions } from '../../../src/engine/engine.js'
import {
  Leases, WorkerClosingError, type LeasedRun, type Renewal,
} from '../../../src/engine/runs.js'
import { newId } from '../../../src/runtime/random-id.js'
import {
  clearTimeout, setImmediate, setTimeout, settles,
} from '../../../src/runtime/timers.js'
import { observed } from '../../../src/stores/calls.js'
import type { Database } from '../database.js'
import type { ChangeNotices } from '../notices.js'
import { toRun, toTask, type RunRow, type TaskRow } from './rows.js'
import { workerSql, type WorkerSql } from './worker-sql.js'

/** Longest and shortest time between two looks for what is due, in milliseconds. */
const [LOOK_MS, MIN_LOOK_MS] = [1000, 10]
/** Maximum number of runs that one statement begins in one pool. */
const MAX_TAKEN = 50
/** Number of tasks whose files are removed at the same time. */
const REMOVALS = 10
/** Milliseconds that aborted runs have to end. */
const ABORT_GRACE_MS = 1000

/** Hint that something has become due. With the name of a pool: that a task waits in it. */
export const DUE = '!'
/** Hint that the run of some task was ended from outside. */
export const STOP = '?'

interface Found {
  /** Pools in which tasks wait. */
  readonly pools: readonly string[]
  readonly next_start_ms: number | null
  readonly next_callback_ms: number | null
  readonly has_removals: boolean
  readonly has_more: boolean
}

/**
 * Hands out what is due. A look every second, or when the next task is due, gives waiting tasks
 * their turn, and finds what else there is to do. Runs are taken when something says that tasks
 * wait: a call of this process, a hint of another one, or a look.
 */
export class Worker {
  readonly leases: Leases<LeasedRun>
  private readonly sql: WorkerSql
  /** Pools in which tasks may wait. */
  private readonly waiting = new Set<string>()
  /**
   * Statements that may have begun runs, and whose replies were lost: the end of the lease by name. A
   * run that this process does not know would otherwise wait for that end, and count as a crash.
   */
  private readonly unanswered = new Map<string, number>()
  private hasToLook = false
  private hasCallbacks = false
  private isActive = false
  private isRemoving = false
  private isClosing = false
  private runs = 0
  private callbacks = 0
  private timer: ReturnType<typeof setTimeout> | undefined
  private timerAt = Infinity
  private onIdle: (() => void) | undefined

  constructor(
    private readonly database: Database, private readonly notices: ChangeNotices,
    private readonly leaseMs: number, private readonly options: WorkOptions,
    private readonly handlers: WorkHandlers,
  ) {
    const { places } = options
    this.sql = workerSql(database.schema)
    this.leases = new Leases(leaseMs, (runs) => observed('renew', () => this.renew(runs)))
    places.onFree((pool) => { if (this.waiting.has(pool)) void this.act() })
    // What this process does not hear of, it finds when it looks.
    void notices.watch(DUE, () => { this.look() })
    void notices.watch(STOP, () => { void this.leases.renew() })
    for (const pool of places.pools.keys()) {
      void notices.watch(DUE + pool, () => { this.takeFrom(pool) })
    }
    this.look()
  }

  /** Takes tasks of a pool. Returns `false` if no place is free. */
  takeFrom(pool: string): boolean {
    const { places } = this.options
    if (this.isClosing || !places.pools.has(pool)) return false
    this.waiting.add(pool)
    void this.act()
    return this.hasPlace(pool)
  }

  hasPlace(pool: string): boolean {
    return !this.isClosing && this.options.places.freeIn(pool) > 0
  }

  /** Begins attempts at callbacks. Returns `false` if no place is free. */
  takeCallbacks(): boolean {
    this.hasCallbacks = true
    void this.act()
    return !this.isClosing && this.callbacks < this.options.callbacks
  }

  /** Looks for what is due, now. */
  look(): void {
    this.hasToLook = true
    void this.act()
  }

  /** Looks for what is due after some milliseconds, or earlier. */
  lookIn(ms: number): void {
    const at = performance.now() + ms
    if (this.isClosing || at >= this.timerAt) return
    clearTimeout(this.timer)
    this.timerAt = at
    this.timer = setTimeout(() => {
      this.timerAt = Infinity
      this.look()
    }, Math.min(ms, LOOK_MS))
    // A worker waits for a server that is down. Nothing else keeps its process alive then.
    if (!this.database.shared) this.timer.unref()
  }

  async close(drainMs: number): Promise<void> {
    this.isClosing = true
    clearTimeout(this.timer)
    await this.idle(drainMs)
    this.leases.abort(new WorkerClosingError())
    await this.idle(ABORT_GRACE_MS)
    this.leases.stop()
  }

  private async act(): Promise<void> {
    if (this.isActive || this.isClosing) return
    this.isActive = true
    // In a later turn of the event loop, so that what comes together is taken together.
    await new Promise<void>((resolve) => { setImmediate(resolve) })
    try {
      while (this.hasWork()) {
        if (this.hasToLook) await this.lookNow()
        for (const pool of [...this.waiting]) await this.beginRuns(pool)
        await this.beginCallbacks()
      }
    } catch {
      this.lookIn(LOOK_MS)
    }
    this.isActive = false
    this.onIdle?.()
  }

  private hasWork(): boolean {
    const { places, callbacks } = this.options
    return !this.isClosing && (this.hasToLook || (this.hasCallbacks && this.callbacks < callbacks)
      || [...this.waiting].some((pool) => places.freeIn(pool) > 0))
  }

  private async lookNow(): Promise<void> {
    clearTimeout(this.timer)
    this.timerAt = Infinity
    await this.giveBack()
    const pools = [...this.options.places.pools.keys()]
    const [found] = await observed('look', () => this.database.query<Found>(this.sql.look, [pools]))
    if (!found) return
    this.hasToLook = found.has_more
    for (const pool of found.pools) this.waiting.add(pool)
    const { next_start_ms: nextStart, next_callback_ms: nextCallback } = found
    if (nextCallback !== null && nextCallback <= 0) this.hasCallbacks = true
    if (found.has_removals) void this.removeFiles()
    const next = [nextStart, nextCallback].filter((ms) => ms !== null && ms > 0) as number[]
    this.lookIn(Math.max(Math.min(LOOK_MS, ...next), MIN_LOOK_MS))
  }

  /** Begins runs in a pool in which tasks wait. */
  private async beginRuns(pool: string): Promise<void> {
    const { places } = this.options
    let count = 0
    while (!this.isClosing && count < MAX_TAKEN && places.tryAcquire(pool)) count++
    if (count === 0) return
    this.waiting.delete(pool)
    const leaseEnd = performance.now() + this.leaseMs
    const name = newId()
    let rows: readonly RunRow[] = []
    try {
      rows = await observed('take', () => (
        this.database.query(this.sql.take, [pool, count, this.leaseMs, name])
      ))
      if (rows.length === count) this.waiting.add(pool)
    } catch (error) {
      this.unanswered.set(name, leaseEnd)
      this.waiting.add(pool)
      throw error
    } finally {
      for (let n = rows.length; n < count; n++) places.release(pool)
    }
    // Other processes may have a place for what is left.
    if (rows.length === count && places.freeIn(pool) <= 0) this.notices.send(DUE + pool)
    for (const row of rows) this.run(row, leaseEnd)
  }

  private run(row: RunRow, leaseEnd: number): void {
    const run = toRun(row, leaseEnd)
    this.runs++
    this.leases.add(run)
    this.notices.notify(run.task.id)
    // The process closed while the statement was under way.
    if (this.isClosing) run.abort(new WorkerClosingError())
    const end = (): void => {
      this.runs--
      this.leases.remove(run)
      this.options.places.release(run.task.pool)
      this.onIdle?.()
    }
    void this.handlers.run(run).then(end, end)
  }

  private async beginCallbacks(): Promise<void> {
    const places = this.options.callbacks - this.callbacks
    if (this.isClosing || !this.hasCallbacks || places <= 0) return
    this.hasCallbacks = false
    this.callbacks += places
    let rows: readonly TaskRow[] = []
    try {
      rows = await observed('take', () => this.database.query(this.sql.takeCallbacks, [places]))
    } finally {
      this.callbacks -= places - rows.length
    }
    this.hasCallbacks ||= rows.length === places
    const end = (): void => {
      this.callbacks--
      this.onIdle?.()
      if (this.hasCallbacks) void this.act()
    }
    for (const row of rows) void this.handlers.callback(toTask(row)).then(end, end)
  }

  /** Removes the files of some expired tasks. Never rejects: the next look finds them again. */
  private async removeFiles(): Promise<void> {
    const { sql, database: { background } } = this
    if (this.isRemoving) return
    this.isRemoving = true
    try {
      const rows = await background<TaskRow>(sql.takeRemovals, [REMOVALS])
      await Promise.all(rows.map(async (row) => {
        // The row may have made way for another task with its id.
        const id = row.id.slice(row.id.lastIndexOf('~') + 1)
        const isRemoved = await this.handlers.remove(toTask({ ...row, id })).catch(() => false)
        await background(isRemoved ? sql.removed : sql.removeLater, [row.id, row.birth])
      }))
      if (rows.length === REMOVALS) this.look()
    } catch {
      // The server is away.
    } finally {
      this.isRemoving = false
    }
  }

  /** Gives back what lost takes have begun, until their leases have ended: a statement may be late. */
  private async giveBack(): Promise<void> {
    const now = performance.now()
    for (const [name, leaseEnd] of this.unanswered) {
      if (leaseEnd < now) this.unanswered.delete(name)
    }
    if (this.unanswered.size > 0) {
      await this.database.query(this.sql.giveBack, [[...this.unanswered.keys()]])
    }
  }

  /** Renews the leases of runs by one statement. Returns the outcome for each. */
  private async renew(runs: readonly LeasedRun[]): Promise<readonly Renewal[]> {
    const tasks = runs.map(({ task }) => task)
    const rows = await this.database.query<{ readonly id: string, readonly is_renewed: boolean }>(
      this.sql.renew, [
        tasks.map(({ id }) => id), tasks.map(({ birth }) => birth), tasks.map(({ run }) => run),
        this.leaseMs,
      ],
    )
    const found = new Map(rows.map((row) => [row.id, row.is_renewed ? 'renewed' : 'busy'] as const))
    return tasks.map(({ id }) => found.get(id) ?? 'lost')
  }

  /** Resolves when nothing runs, or after some milliseconds. */
  private async idle(ms: number): Promise<void> {
    const isIdle = (): boolean => this.runs + this.callbacks === 0 && !this.isActive
    if (isIdle()) return
    await settles(new Promise<void>((resolve) => {
      this.onIdle = () => { if (isIdle()) resolve() }
    }), ms)
    this.onIdle = undefined
  }
}
