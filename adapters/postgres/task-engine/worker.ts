import type { WorkHandlers, WorkOptions } from '../../../src/engine/engine.js'
import { LeasedWork } from '../../../src/engine/leased-work.js'
import type { LeasedRun, Renewal } from '../../../src/engine/runs.js'
import { newId } from '../../../src/runtime/random-id.js'
import { setImmediate } from '../../../src/runtime/timers.js'
import { observed } from '../../../src/stores/calls.js'
import type { Database } from '../database.js'
import type { ChangeNotices } from '../notices.js'
import { toRun, toTask, type RunRow, type TaskRow } from './rows.js'
import { workerSql, type WorkerSql } from './worker-sql.js'

/** Shortest time between two looks for what is due, in milliseconds. */
const MIN_LOOK_MS = 10
/** Maximum number of runs that one statement begins in one pool. */
const MAX_TAKEN = 50

/** Notice that something is due; with the name of a pool, that a task waits in it. */
export const DUE = '!'
/** Notice that the run of some task was ended from outside. */
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
 * Hands out what is due. A look gives waiting tasks their turn, and takes callbacks and removals of
 * files. Runs are taken when a call, a notice or a look says that tasks wait.
 */
export class Worker {
  readonly work: LeasedWork
  private readonly sql: WorkerSql
  private readonly waiting = new Set<string>()
  private isTaking = false
  /** Ends of leases by the names of statements whose replies were lost, and which may have begun runs. */
  private readonly lostTakes = new Map<string, number>()

  constructor(
    private readonly database: Database, private readonly notices: ChangeNotices,
    private readonly leaseMs: number, options: WorkOptions, handlers: WorkHandlers,
  ) {
    this.sql = workerSql(database.schema)
    this.work = new LeasedWork(options, handlers, {
      leaseMs,
      // Nothing else keeps the process alive while the server is down.
      keepsAlive: database.shared,
      renew: (runs) => observed('renew', () => this.renew(runs)),
      look: () => this.look(),
    })
    const { places } = options
    places.onFree((pool) => { if (this.waiting.has(pool)) this.take(pool) })
    // A lost notice is harmless, because the worker also looks every second.
    void notices.watch(DUE, () => { this.work.lookIn(0) })
    void notices.watch(STOP, () => { void this.work.leases.renew() })
    for (const pool of places.pools.keys()) {
      void notices.watch(DUE + pool, () => { this.take(pool) })
    }
    this.work.lookIn(0)
  }

  /** Takes tasks of a pool. Returns `false` if no place is free. */
  take(pool: string): boolean {
    if (!this.work.options.places.pools.has(pool)) return false
    this.waiting.add(pool)
    if (!this.isTaking) void this.work.track(this.takeAll())
    return this.hasPlace(pool)
  }

  hasPlace(pool: string): boolean {
    return !this.work.isClosing && this.work.options.places.freeIn(pool) > 0
  }

  /** Begins runs in the pools in which tasks wait. Never rejects. */
  private async takeAll(): Promise<void> {
    this.isTaking = true
    // In a later turn of the event loop, so that tasks that are created together are taken together.
    await new Promise<void>((resolve) => { setImmediate(resolve) })
    const next = (): string | undefined => [...this.waiting].find((pool) => this.hasPlace(pool))
    try {
      for (let pool = next(); pool !== undefined; pool = next()) await this.takeFrom(pool)
    } catch {
      // The next look tries again.
    }
    this.isTaking = false
  }

  private async takeFrom(pool: string): Promise<void> {
    const { places } = this.work.options
    let count = 0
    while (count < MAX_TAKEN && places.tryAcquire(pool)) count++
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
      this.lostTakes.set(name, leaseEnd)
      this.waiting.add(pool)
      throw error
    } finally {
      for (let n = rows.length; n < count; n++) places.release(pool)
    }
    if (rows.length === count && !this.hasPlace(pool)) this.notices.send(DUE + pool)
    for (const row of rows) {
      this.notices.notify(row.id)
      void this.work.perform(toRun(row, leaseEnd)).finally(() => { places.release(pool) })
    }
  }

  private async look(): Promise<void> {
    const { work, sql, database: { query } } = this
    await this.giveBack()
    const pools = [...work.options.places.pools.keys()]
    const [found] = await observed('look', () => query<Found>(sql.look, [pools]))
    if (!found) return
    for (const pool of found.pools) this.take(pool)
    if (found.has_more) work.lookIn(0)
    const { next_start_ms: nextStart, next_callback_ms: nextCallback } = found
    for (const ms of [nextStart, nextCallback]) {
      if (ms !== null && ms > 0) work.lookIn(Math.max(ms, MIN_LOOK_MS))
    }
    if (nextCallback !== null && nextCallback <= 0 && work.freeCallbacks > 0) {
      const rows = await observed('take', () => (
        query<TaskRow>(sql.takeCallbacks, [work.freeCallbacks])
      ))
      for (const row of rows) void work.callBack(toTask(row))
    }
    if (found.has_removals && work.freeRemovals > 0) {
      for (const row of await query<TaskRow>(sql.takeRemovals, [work.freeRemovals])) {
        // `Creates` may have given the row another id.
        const id = row.id.slice(row.id.lastIndexOf('~') + 1)
        void work.remove(toTask({ ...row, id }), (isRemoved) => (
          query(isRemoved ? sql.removed : sql.removeLater, [row.id, row.birth])
        ))
      }
    }
  }

  /** Gives back the runs of takes without a reply. Repeats it until their leases end: they may be late. */
  private async giveBack(): Promise<void> {
    if (this.lostTakes.size === 0) return
    const now = performance.now()
    await this.database.query(this.sql.giveBack, [[...this.lostTakes.keys()]])
    for (const [name, leaseEnd] of this.lostTakes) if (leaseEnd < now) this.lostTakes.delete(name)
  }

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
}
