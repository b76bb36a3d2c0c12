import type { RunLimits } from '../../src/engine/engine.js'
import type { Database } from './database.js'
import type { TaskRow } from './rows.js'
import { StartLog } from './start-log.js'
import type { Tasks } from './tasks.js'

/** Maximum number of tasks, and of shares, that one transaction or look reads. */
const MAX_READ = 500
/** Time between two releases of a look, in milliseconds: two workers may have different limits. */
const RELEASE_MS = 1000

/** A share that holds tasks: `held` is the name of the definition, or '' for the share in the pool. */
interface HoldingShare {
  readonly caller: string
  readonly held: string
}

/**
 * Limits of what runs. A task has no turn while the running tasks of its caller take the whole
 * share. Its column `held` names the share. When a run of the share ends, the first held task gets
 * a new turn.
 */
export class RunLimiter {
  private readonly starts: StartLog
  private limits: ReadonlyMap<string, RunLimits> = new Map()
  private pools: readonly string[] = []
  /** By pool: the share at which the last look has stopped, if it did not read all shares. */
  private readonly cursors = new Map<string, HoldingShare>()
  private releaseAt = 0

  constructor(private readonly database: Database, private readonly tasks: Tasks) {
    this.starts = new StartLog(database)
  }

  /** @param pools - the pools of the worker */
  begin(pools: readonly string[], limits: ReadonlyMap<string, RunLimits> | undefined): void {
    this.pools = pools
    this.limits = limits ?? new Map()
  }

  /** Returns whether a run in a pool may hold others. Another process may know the limits of the pool. */
  isLimited(pool: string): boolean {
    return this.limits.has(pool) || !this.pools.includes(pool)
  }

  /**
   * Returns the delay until a run may begin, in milliseconds. `Infinity` means that another run
   * must end first.
   */
  delay(pool: string): number {
    const limits = this.limits.get(pool)
    if (limits === undefined) return 0
    if (this.isFull(pool, limits)) return Infinity
    return this.startDelay(pool)
  }

  /** Returns this delay if only the rate of begins counts. */
  startDelay(pool: string): number {
    const rate = this.limits.get(pool)?.startsPer
    return rate === undefined ? 0 : this.starts.delay(pool, rate)
  }

  /**
   * Begins up to `places` ready tasks, and holds tasks whose caller's running tasks take the whole
   * share. Returns `true` if more tasks can be read now.
   */
  take(pool: string, places: number, begin: (row: TaskRow) => void): boolean {
    const limits = this.limits.get(pool)
    const room = limits === undefined ? places : this.room(pool, limits, places)
    const running = limits && hasShares(limits) ? this.running(pool) : undefined
    let [begun, read] = [0, 0]
    while (begun < room && read < MAX_READ) {
      const rows = this.tasks.ready(pool, Math.min(room - begun, MAX_READ - read))
      read += rows.length
      for (const row of rows) {
        if (running !== undefined && limits !== undefined) {
          if (this.holds(row, limits, running)) continue
          running.add(row, 1)
        }
        begin(row)
        begun++
      }
      if (running === undefined || rows.length === 0) break
    }
    if (limits?.startsPer) this.starts.add(pool, limits.startsPer, begun)
    return begun < room && read >= MAX_READ
  }

  /** A run has ended: releases the next task of each share of its caller. */
  release({ pool, caller, name }: TaskRow): void {
    if (caller === '') return
    for (const held of ['', name]) this.releaseFrom(pool, { caller, held }, 1)
  }

  /** Returns whether shares with room hold tasks, because limits have changed or a process has died. */
  hasHeld(): boolean {
    if (performance.now() < this.releaseAt) return false
    return this.pools.some((pool) => this.withRoom(pool).next().done === false)
  }

  /** Releases some of these tasks. */
  releaseHeld(): void {
    this.releaseAt = performance.now() + RELEASE_MS
    for (const pool of this.pools) {
      let released = 0
      for (const [share, room] of this.withRoom(pool)) {
        released += this.releaseFrom(pool, share, Math.min(room, MAX_READ - released))
        if (released >= MAX_READ) break
      }
    }
  }

  private room(pool: string, limits: RunLimits, places: number): number {
    const { maxRunning, startsPer } = limits
    const count = maxRunning === undefined ? 0 : this.count(pool, maxRunning)
    const room = Math.min(places, (maxRunning ?? Infinity) - count)
    return startsPer === undefined || room <= 0 ? room : this.starts.room(pool, startsPer, room)
  }

  private isFull(pool: string, { maxRunning }: RunLimits): boolean {
    return maxRunning !== undefined && this.count(pool, maxRunning) >= maxRunning
  }

  private count(pool: string, max: number): number {
    return Number(this.database.first<{ readonly count: number }>(COUNT, pool, max)?.count)
  }

  private running(pool: string): Running {
    const running = new Running()
    const rows = this.database.all<{ caller: string, name: string, count: number }>(RUNNING, pool)
    for (const row of rows) running.add(row, Number(row.count))
    return running
  }

  /**
   * Holds a task if the running tasks of its caller take one of its shares. Returns true if it was
   * held.
   */
  private holds(row: TaskRow, limits: RunLimits, running: Running): boolean {
    const { pool, caller, name } = row
    if (caller === '') return false
    const isFull = (held: string): boolean => running.of({ caller, held }) >= maxOf(limits, held)
    const full = [name, ''].find(isFull)
    if (full === undefined) return false
    this.database.run(PLACE, null, full, row.rowid)
    // The share of the pool may have released the task, so the next one gets its place.
    if (full !== '' && !isFull('')) this.releaseFrom(pool, { caller, held: '' }, 1)
    return true
  }

  /** Releases up to `max` tasks of a share. Returns their number. */
  private releaseFrom(pool: string, { caller, held }: HoldingShare, max: number): number {
    const { database, tasks } = this
    const rows = database.all<Released>(FIRST, pool, caller, held, max)
    for (const row of rows) database.run(PLACE, tasks.turnOf({ pool, caller, ...row }), null, row.rowid)
    return rows.length
  }

  /** Finds the shares that hold tasks although they have room for more than is ready. */
  private *withRoom(pool: string): Generator<readonly [HoldingShare, number], void> {
    const { database, cursors } = this
    const limits = this.limits.get(pool)
    const next = (after: HoldingShare | undefined): HoldingShare | undefined => (
      database.first(NEXT, pool, after?.caller ?? '', after?.held ?? '')
    )
    let share = next(cursors.get(pool))
    const running = limits && share ? this.running(pool) : new Running()
    for (let n = 1; share !== undefined; n++) {
      const room = maxOf(limits, share.held) - running.of(share)
      const free = room > 0 ? room - this.ready(pool, share) : 0
      if (free > 0) yield [share, free]
      if (n < MAX_READ) share = next(share)
      else break
    }
    if (share === undefined) cursors.delete(pool)
    else cursors.set(pool, share)
  }

  /** Counts the ready tasks of a share. */
  private ready(pool: string, { caller, held }: HoldingShare): number {
    const rows = this.database.all<{ readonly name: string }>(READY, pool, caller, MAX_READ)
    return held === '' ? rows.length : rows.filter(({ name }) => name === held).length
  }
}

/** Numbers of the runs in one pool, by share. */
class Running {
  private readonly counts = new Map<string, number>()

  add({ caller, name }: { readonly caller: string, readonly name: string }, count: number): void {
    for (const held of ['', name]) {
      this.counts.set(`${held}\0${caller}`, this.of({ caller, held }) + count)
    }
  }

  of({ caller, held }: HoldingShare): number {
    return this.counts.get(`${held}\0${caller}`) ?? 0
  }
}

function hasShares({ maxPerCaller, maxPerCallerOf }: RunLimits): boolean {
  return maxPerCaller !== undefined || maxPerCallerOf !== undefined
}

function maxOf(limits: RunLimits | undefined, held: string): number {
  return (held === '' ? limits?.maxPerCaller : limits?.maxPerCallerOf?.get(held)) ?? Infinity
}

type Released = Pick<TaskRow, 'rowid' | 'priority'>

const RUNS = 'longhaul_tasks INDEXED BY longhaul_tasks_lease\n'
  + 'WHERE pool = ? AND status = 1 AND turn IS NULL AND held IS NULL'
const COUNT = `SELECT count(*) AS count FROM (SELECT 1 FROM ${RUNS} LIMIT ?)`
const RUNNING = `SELECT caller, name, count(*) AS count FROM ${RUNS} AND caller <> '' GROUP BY caller, name`
const PLACE = 'UPDATE longhaul_tasks SET turn = ?, held = ? WHERE rowid = ?'
const FIRST = `SELECT rowid, priority FROM longhaul_tasks WHERE pool = ? AND caller = ? AND held = ?
ORDER BY priority, dueAt, rowid LIMIT ?`
const NEXT = `SELECT caller, held FROM longhaul_tasks
WHERE pool = ? AND held IS NOT NULL AND (caller, held) > (?, ?) ORDER BY caller, held LIMIT 1`
const READY = `SELECT name FROM longhaul_tasks
WHERE turn IS NOT NULL AND pool = ? AND caller = ? LIMIT ?`
