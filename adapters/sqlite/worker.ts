import { hasWorker, type WorkHandlers, type WorkOptions } from '../../src/engine/engine.js'
import { LeasedWork } from '../../src/engine/leased-work.js'
import { LeasedRun, type Renewal } from '../../src/engine/runs.js'
import type { StoredTask } from '../../src/engine/task.js'
import type { Database } from './database.js'
import { findDue, type Due } from './due.js'
import { beginRun, isActive, isRunning, toTask, type TaskRow } from './rows.js'
import { RunLimiter } from './run-limits.js'
import { SELECT, type Tasks, type Texts } from './tasks.js'

/** Maximum number of tasks that become ready, or begin, in one transaction. */
const MAX_READY = 500
/** Time after which a callback or a removal without an outcome is tried again, in milliseconds. */
const AGAIN_MS = 60_000
/** Delay before files are removed again after a failure, in milliseconds. */
const REMOVE_FAILED_MS = 1000

interface Working {
  readonly work: LeasedWork
  readonly pools: readonly string[]
  /** Runs of this process by the id of their task. */
  readonly runs: Map<string, LeasedRun>
}

/**
 * Starts work that is due, at the end of a transaction that made it due, or after a look. So the
 * end of a run and the begin of the next one share a transaction, and a new task begins with its
 * creation.
 */
export class Worker {
  private working: Working | undefined
  /** Tasks may wait for a place. */
  private isWanted = false
  /** Something else may be due. */
  private isDue = false
  /** The next transaction releases tasks that are held. */
  private hasHeld = false
  /** Pools in which tasks may wait for a place. */
  private readonly waiting = new Set<string>()
  private readonly limiter: RunLimiter
  private stop = (): void => undefined

  constructor(
    private readonly database: Database, private readonly tasks: Tasks,
    private readonly leaseMs: number,
  ) {
    this.limiter = new RunLimiter(database, tasks)
    const runEnded: Tasks['onRunEnd'] = (row) => {
      if (!this.limiter.isLimited(row.pool)) return
      this.limiter.release(row)
      this.noteReady()
    }
    tasks.onRunEnd = runEnded
    database.setLastStep({
      isWanted: () => this.isWanted && this.working?.work.isClosing === false,
      run: () => { this.handOut(this.working as Working) },
      failed: (error) => { this.working?.work.noteFailure('take', error) },
    })
  }

  start(options: WorkOptions, handlers: WorkHandlers): void {
    if (this.working) throw hasWorker('sqlite')
    const work = new LeasedWork(options, handlers, {
      leaseMs: this.leaseMs, keepsAlive: true,
      renew: (runs) => this.database.write('renew', () => runs.map((run) => this.renew(run))),
      look: () => this.look(),
    })
    const pools = [...options.places.pools.keys()]
    this.working = { work, pools, runs: new Map() }
    this.limiter.begin(pools, options.limits)
    options.places.onFree((pool) => {
      if (work.isClosing || !this.waiting.has(pool)) return
      this.isWanted = true
      this.database.schedule()
    })
    this.stop = this.database.onForeignChange(() => {
      this.checkRuns()
      work.lookIn(0)
    })
    work.lookIn(0)
  }

  /**
   * Returns whether a new task can begin here, because a place is free and nothing waits. Call it in a
   * transaction.
   */
  canBegin(pool: string): boolean {
    const { working } = this
    if (working === undefined || working.work.isClosing || this.limiter.isLimited(pool)) return false
    return working.work.options.places.freeIn(pool) > 0 && this.tasks.isIdle(pool)
  }

  /** Inserts a new task as one that runs. Returns `false` if a task has one of its names. */
  begin(row: TaskRow, input: string): boolean {
    const { database, tasks } = this
    const working = this.working as Working
    const { pool } = row
    const { places } = working.work.options
    const lease = beginRun(row, database.now, this.leaseMs)
    if (!tasks.insert(row, input)) return false
    tasks.keep(row)
    const run = this.toRun(row, lease, { input, checkpoint: null }, undefined)
    places.tryAcquire(pool)
    database.after(() => { this.perform(run, pool, working) }, () => { places.release(pool) })
    return true
  }

  /** Notes in a transaction that a task waits for a place. */
  noteReady(): void {
    this.isWanted = this.working !== undefined
  }

  /** Notes in a transaction that work is due now, or after a time in milliseconds. */
  noteDue(delayMs: number): void {
    if (delayMs > 0) this.database.after(() => { this.working?.work.lookIn(delayMs) })
    else this.isDue = this.isWanted = this.working !== undefined
  }

  /** Notes in a transaction that the status of a task has changed. */
  noteStatus(task: StoredTask, isOwn: boolean): void {
    this.database.after(() => { this.working?.work.leases.note(task, isOwn) })
  }

  /** Pauses a pool or ends its pause, in a transaction. */
  setPaused(pool: string, isPaused: boolean): void {
    const { database, tasks } = this
    tasks.setPaused(pool, isPaused)
    const paused = tasks.pausedPools()
    database.after(() => {
      this.working?.work.options.places.setPaused(paused)
      if (!isPaused) this.working?.work.lookIn(0)
    })
  }

  async close(drainMs: number): Promise<void> {
    await this.working?.work.close(drainMs)
    this.stop()
  }

  /** Reads whether anything is due, and only then writes: each write makes other processes look. */
  private async look(): Promise<void> {
    const { isNow, hasHeld, nextMs: first } = await this.readDue()
    let nextMs = first
    if (isNow) {
      this.isWanted = true
      this.isDue = true
      this.hasHeld = hasHeld
      const at = await this.database.write('take', () => this.database.now)
      // A task that has become due since then was not handed out.
      if (this.working) nextMs = (await this.readDue(at)).nextMs
    }
    if (nextMs !== undefined) this.working?.work.lookIn(Math.max(nextMs, 1))
  }

  private readDue(at = this.database.now): Promise<Due> {
    const { pools, work } = this.working as Working
    return this.database.read('look', () => {
      work.options.places.setPaused(this.tasks.pausedPools())
      return findDue(this.database, { limiter: this.limiter, pools, work, now: at })
    })
  }

  /** Begins what is due, in a transaction. */
  private handOut(working: Working): void {
    this.database.after(() => {
      this.isWanted = false
      this.isDue = false
      this.hasHeld = false
      working.work.noteSuccess('take')
    })
    if (this.isDue) {
      this.tasks.expire(MAX_READY)
      if (this.hasHeld) this.limiter.releaseHeld()
      for (const pool of working.pools) this.makeReady(pool)
      this.takeCallbacks(working.work)
      this.takeRemovals(working.work)
    }
    for (const pool of working.pools) this.take(pool, working)
  }

  /** Gives a turn to tasks that are due, and to those whose lease has ended. */
  private makeReady(pool: string): void {
    const { database, tasks, working } = this
    const due = database.all<TaskRow>(
      `${SELECT} WHERE pool = ? AND turn IS NULL AND held IS NULL AND status = 0 AND dueAt <= ?
ORDER BY dueAt LIMIT ?`, pool, database.now, MAX_READY,
    )
    const lost = database.all<TaskRow>(
      `${SELECT} WHERE pool = ? AND status = 1 AND turn IS NULL AND held IS NULL AND leaseUntil < ?
LIMIT ?`, pool, database.now, MAX_READY,
    )
    for (const before of [...due, ...lost]) {
      const row = { ...before }
      // The clock of the machine was set forward: the run is here.
      if (working?.runs.get(row.id)?.lease === row.lease) {
        row.leaseUntil = database.now + this.leaseMs
      } else {
        if (isRunning(row)) tasks.onRunEnd(row)
        row.turn = tasks.turnOf(row)
      }
      tasks.update(before, row)
    }
    if (due.length + lost.length >= MAX_READY) this.wantAgain()
  }

  private take(pool: string, working: Working): void {
    const { database } = this
    const { places } = working.work.options
    let count = 0
    while (count < MAX_READY && places.tryAcquire(pool)) count++
    const runs: LeasedRun[] = []
    const release = (): void => {
      for (let n = runs.length; n < count; n++) places.release(pool)
    }
    // The places that are released here begin no further transaction.
    this.waiting.delete(pool)
    database.after(() => {
      release()
      if (runs.length === count) this.waiting.add(pool)
      for (const run of runs) this.perform(run, pool, working)
    }, () => {
      runs.length = 0
      release()
    })
    if (count === 0) return
    const hasMore = this.limiter.take(pool, count, (row) => { runs.push(this.beginRun(row)) })
    if (hasMore) this.wantAgain()
    const delayMs = this.limiter.startDelay(pool)
    if (delayMs > 0) this.noteDue(delayMs)
  }

  private beginRun(before: TaskRow): LeasedRun {
    const { database, tasks, leaseMs } = this
    const crashed = isRunning(before) ? toTask(before) : undefined
    const row = { ...before }
    const lease = beginRun(row, database.now, leaseMs)
    tasks.update(before, row)
    tasks.keep(row)
    tasks.notify(row.id)
    return this.toRun(row, lease, tasks.texts(row), crashed)
  }

  private toRun(
    row: TaskRow, lease: string, { input, checkpoint }: Texts, crashed: StoredTask | undefined,
  ): LeasedRun {
    return new LeasedRun({
      task: toTask(row), lease, input, checkpoint: checkpoint ?? undefined, crashed,
      leaseEnd: performance.now() + this.leaseMs,
    })
  }

  private perform(run: LeasedRun, pool: string, { work, runs }: Working): void {
    const { id } = run.task
    runs.set(id, run)
    run.onAbort(() => { if (runs.get(id) === run) runs.delete(id) })
    void work.perform(run).finally(() => {
      if (runs.get(id) === run) runs.delete(id)
      work.options.places.release(pool)
    })
  }

  private takeCallbacks(work: LeasedWork): void {
    const { database, tasks } = this
    const rows = database.all<TaskRow>(
      `${SELECT} WHERE callbackAt <= ? AND listed >= 2 AND expiresAt > ? ORDER BY callbackAt LIMIT ?`,
      database.now, database.now, Math.max(work.freeCallbacks, 0),
    )
    for (const before of rows) {
      const row = { ...before }
      row.callbackRun = Number(row.callbackRun) + 1
      row.callbackAt = database.now + AGAIN_MS
      tasks.update(before, row)
      const task = toTask(row)
      database.after(() => { void work.callBack(task) })
    }
  }

  private takeRemovals(work: LeasedWork): void {
    const { database } = this
    const rows = database.all<{ readonly row: string, readonly task: string }>(
      'SELECT row, task FROM longhaul_removals WHERE at <= ? ORDER BY at LIMIT ?',
      database.now, Math.max(work.freeRemovals, 0),
    )
    for (const { row, task } of rows) {
      this.removeAgainAt(row, database.now + AGAIN_MS)
      database.after(() => {
        void work.remove(JSON.parse(task) as StoredTask, (isRemoved) => database.write('delete', () => {
          if (isRemoved) database.run('DELETE FROM longhaul_removals WHERE row = ?', row)
          else this.removeAgainAt(row, database.now + REMOVE_FAILED_MS)
        }))
      })
    }
  }

  private removeAgainAt(row: string, at: number): void {
    this.database.run('UPDATE longhaul_removals SET at = ? WHERE row = ?', at, row)
  }

  private wantAgain(): void {
    this.database.after(() => { this.working?.work.lookIn(0) })
  }

  private renew({ task: { id, birth }, lease }: LeasedRun): Renewal {
    const before = this.tasks.current(id)
    if (before?.birth !== birth || before.lease !== lease) return 'lost'
    // Its lease was found over, and another run may have its place.
    if (!isActive(before) && this.limiter.isLimited(before.pool)) return 'lost'
    const row = { ...before }
    row.leaseUntil = this.database.now + this.leaseMs
    row.turn = null
    row.held = null
    this.tasks.update(before, row)
    return 'renewed'
  }

  /** Aborts runs that another process has ended. */
  private checkRuns(): void {
    const { runs, work: { leases } } = this.working as Working
    const read = (): [LeasedRun, TaskRow | undefined][] => (
      [...runs.values()].map((run) => [run, this.tasks.live(run.task.id)])
    )
    this.database.read('read', read).then((pairs) => {
      for (const [, row] of pairs) if (row) leases.note(toTask(row), false)
      const isLost = pairs.some(([{ task: { birth }, lease }, row]) => (
        row?.birth !== birth || isRunning(row) && row.lease !== lease
      ))
      // A renewal finds a run whose task is gone, or runs elsewhere.
      if (isLost) void leases.renew()
    }, () => undefined)
  }
}
