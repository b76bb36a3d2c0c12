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
const DUE = '!'
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
  private work: { readonly options: WorkOptions, readonly handlers: WorkHandlers } | undefined
  private isRemoving = false
  /** Pools in which tasks may wait. */
  private readonly waiting = new Set<string>()
  /**
   * Statements that may have begun runs, and whose replies were lost, by name. A run that this
   * process does not know would otherwise wait for the end of its lease, and count as a crash.
   */
  private readonly unanswered = new Map<string, { readonly pool: string, readonly leaseEnd: number }>()
  private hasToLook = false
  private hasCallbacks = false
  private isActive = false
  private isClosing = false
  private runs = 0
  private callbacks = 0
  private timer: ReturnType<typeof setTimeout> | undefined
  private timerAt = Infinity
  private closed: Promise<void> | undefined
  private onIdle: (() => void) | undefined

  constructor(
    private readonly database: Database, private readonly notices: ChangeNotices,
    private readonly leaseMs: number,
  ) {
    this.sql = workerSql(database.schema)
    this.leases = new Leases(leaseMs, (runs) => observed('renew', () => this.renew(runs)))
  }

  begin(options: WorkOptions, handlers: WorkHandlers): void {
    if (this.work) throw new Error('work() was called already: an engine has one worker')
    this.work = { options, handlers }
    options.places.onFree((pool) => { if (this.waiting.has(pool)) this.act() })
    this.listen(options)
    this.look()
  }

  /** Notes that a task waits in a pool. Another process hears of it if this one has no place. */
  noteWaiting(pool: string): void {
    const places = this.work?.options.places
    if (!this.isClosing && places?.pools.has(pool)) {
      this.waiting.add(pool)
      this.act()
      if (places.freeIn(pool) > 0) return
    }
    this.notices.send(DUE + pool)
  }

  /** Notes that a task of a pool waits after some milliseconds, without a turn. */
  noteDelayed(pool: string, delayMs: number): void {
    if (delayMs > 0) return this.lookIn(delayMs)
    this.look()
    if (!((this.work?.options.places.freeIn(pool) ?? 0) > 0)) this.notices.send(DUE)
  }

  /** Notes that a callback is due in some milliseconds. */
  noteCallback(delayMs: number): void {
    if (delayMs > 0) return this.lookIn(delayMs)
    this.hasCallbacks = true
    this.act()
    if (!((this.work?.options.callbacks ?? 0) > this.callbacks)) this.notices.send(DUE)
  }

  /** Looks for what is due, now. */
  look(): void {
    this.hasToLook = true
    this.act()
  }

  close(drainMs: number): Promise<void> {
    this.closed ??= this.shutDown(drainMs)
    return this.closed
  }

  private act(): void {
    if (this.isActive || this.isClosing || !this.work) return
    this.isActive = true
    // In a later turn of the event loop, so that what comes together is taken together.
    setImmediate(() => {
      this.actAll().then(() => {
        this.isActive = false
        // Something may have come after the last step.
        if (this.hasWork()) this.act()
      }, () => {
        this.isActive = false
        this.lookIn(LOOK_MS)
      }).finally(() => { this.onIdle?.() })
    })
  }

  private hasWork(): boolean {
    const { places, callbacks } = (this.work as NonNullable<typeof this.work>).options
    return this.hasToLook || (this.hasCallbacks && this.callbacks < callbacks)
      || [...this.waiting].some((pool) => places.freeIn(pool) > 0)
  }

  private async actAll(): Promise<void> {
    for (let isBusy = true; isBusy && !this.isClosing;) {
      isBusy = this.hasToLook
      if (this.hasToLook) await this.lookNow()
      if (await this.takeRuns()) isBusy = true
      if (await this.takeCallbacks()) isBusy = true
    }
  }

  private async lookNow(): Promise<void> {
    const { options: { places } } = this.work as NonNullable<typeof this.work>
    clearTimeout(this.timer)
    this.timer = undefined
    this.timerAt = Infinity
    const { query } = this.database
    await this.giveBack()
    const pools = [...places.pools.keys()]
    const [found] = await observed('look', () => query<Found>(this.sql.look, [pools]))
    this.hasToLook = found?.has_more ?? false
    for (const pool of found?.pools ?? []) this.waiting.add(pool)
    const nextCallback = found?.next_callback_ms ?? Infinity
    if (nextCallback <= 0) this.hasCallbacks = true
    if (found?.has_removals) void this.removeFiles()
    const next = [found?.next_start_ms ?? Infinity, nextCallback].filter((ms) => ms > 0)
    this.lookIn(Math.max(Math.min(LOOK_MS, ...next), MIN_LOOK_MS))
  }

  private lookIn(ms: number): void {
    const at = performance.now() + ms
    if (this.isClosing || !this.work || at >= this.timerAt) return
    clearTimeout(this.timer)
    this.timerAt = at
    this.timer = setTimeout(() => {
      this.timerAt = Infinity
      this.look()
    }, Math.min(ms, LOOK_MS))
    // A worker waits for a server that is down. Nothing else keeps its process alive then.
    if (!this.database.shared) this.timer.unref()
  }

  /** Begins runs in the pools in which tasks wait. Resolves to `true` if more may be left. */
  private async takeRuns(): Promise<boolean> {
    let hasTaken = false
    for (const pool of [...this.waiting]) if (await this.takeFrom(pool)) hasTaken = true
    return hasTaken
  }

  private async takeFrom(pool: string): Promise<boolean> {
    const { options: { places } } = this.work as NonNullable<typeof this.work>
    let count = 0
    while (count < MAX_TAKEN && places.tryAcquire(pool)) count++
    if (count === 0) return false
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
      this.unanswered.set(name, { pool, leaseEnd })
      this.waiting.add(pool)
      throw error
    } finally {
      this.release(pool, count - rows.length)
    }
    // Other processes may have a place for what is left.
    if (rows.length === count && places.freeIn(pool) <= 0) this.notices.send(DUE + pool)
    for (const row of rows) this.run(row, leaseEnd)
    return rows.length > 0
  }

  private release(pool: string, count: number): void {
    for (let n = 0; n < count; n++) this.work?.options.places.release(pool)
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
      this.release(run.task.pool, 1)
      this.onIdle?.()
    }
    void this.work?.handlers.run(run).then(end, end)
  }

  /** Begins attempts at callbacks. Resolves to `true` if more may be left. */
  private async takeCallbacks(): Promise<boolean> {
    const { options, handlers } = this.work as NonNullable<typeof this.work>
    const places = options.callbacks - this.callbacks
    if (!this.hasCallbacks || places <= 0) return false
    this.hasCallbacks = false
    this.callbacks += places
    let rows: readonly TaskRow[] = []
    try {
      const { query } = this.database
      rows = await observed('take', () => query<TaskRow>(this.sql.takeCallbacks, [places]))
    } finally {
      this.callbacks -= places - rows.length
    }
    this.hasCallbacks ||= rows.length === places
    const end = (): void => {
      this.callbacks--
      this.onIdle?.()
      if (this.hasCallbacks) this.act()
    }
    for (const row of rows) void handlers.callback(toTask(row)).then(end, end)
    return rows.length > 0
  }

  /** Removes the files of some expired tasks. Never rejects: the next look finds them again. */
  private async removeFiles(): Promise<void> {
    const { handlers } = this.work as NonNullable<typeof this.work>
    const { background } = this.database
    if (this.isRemoving) return
    this.isRemoving = true
    try {
      const rows = await background<TaskRow>(this.sql.takeRemovals, [REMOVALS])
      await Promise.all(rows.map(async (row) => {
        // The row may have made way for another task with its id.
        const id = row.id.slice(row.id.lastIndexOf('~') + 1)
        const isRemoved = await handlers.remove(toTask({ ...row, id })).catch(() => false)
        await background(this.sql.removed, [row.id, row.birth, isRemoved])
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
    for (const [name, { leaseEnd }] of this.unanswered) {
      if (leaseEnd < now) this.unanswered.delete(name)
    }
    if (this.unanswered.size === 0) return
    const pools = new Set([...this.unanswered.values()].map(({ pool }) => pool))
    await this.database.query(this.sql.giveBack, [[...pools], [...this.unanswered.keys()]])
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

  /** Listens to hints. What this process does not hear of, it finds when it looks. */
  private listen({ places }: WorkOptions): void {
    void this.notices.watch(DUE, () => { this.look() })
    void this.notices.watch(STOP, () => { void this.leases.renew() })
    for (const pool of places.pools.keys()) {
      void this.notices.watch(DUE + pool, () => {
        this.waiting.add(pool)
        this.act()
      })
    }
  }

  private async shutDown(drainMs: number): Promise<void> {
    this.isClosing = true
    clearTimeout(this.timer)
    await this.idle(drainMs)
    this.leases.abort(new WorkerClosingError())
    await this.idle(ABORT_GRACE_MS)
    this.leases.stop()
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
