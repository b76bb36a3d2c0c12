import type { WorkHandlers, WorkOptions } from '../../src/engine/engine.js'
import { LeasedRun, Leases, type Renewal, WorkerClosingError } from '../../src/engine/runs.js'
import { clearTimeout, setTimeout, settles } from '../../src/runtime/timers.js'
import type { StoreEvent } from '../../src/stores/calls.js'
import type { Script } from './client.js'
import { toBegun, toTask, type Row } from './rows.js'
import { REMOVED } from './task-scripts.js'
import type { Ticket, TicketJob, Tickets } from './tickets.js'
import { BEGIN, DUE, RENEW } from './work-scripts.js'

/** Longest interval between two searches for what is due, in milliseconds. */
const TICK_MS = 1000
/** Maximum number of tasks of one kind that one search finds. */
const BATCH = 200
/** Time after which an attempt at a callback, or at a removal, is made again, in milliseconds. */
const AGAIN_MS = 60_000
/** Time after which a removal that has failed is made again, in milliseconds. */
const REMOVE_AGAIN_MS = 2000
/** Number of tasks whose files are removed at the same time. */
const REMOVALS = 10
/** Time after which a begin without a reply is sent again, in milliseconds. */
const AGAIN_BEGIN_MS = 500
/** Time for aborted runs to end, in milliseconds. */
const GRACE_MS = 2000
/** Maximum time to close the connections of BullMQ, in milliseconds. */
const CLOSE_MS = 1500

export interface WorkerEngine {
  readonly tickets: Tickets
  readonly leaseMs: number
  /** Random name of the process, also of its locks in BullMQ. */
  readonly id: string
  /** Runs a script. Rejects with a `StoreUnavailableError`. */
  readonly run: (
    verb: StoreEvent['verb'], script: Script, ...args: (string | number)[]
  ) => Promise<unknown>
  readonly nonce: () => string
  readonly addTickets: (tickets: readonly Ticket[]) => void
  readonly onError: (error: Error) => void
}

class TicketRun extends LeasedRun {
  constructor(
    readonly pool: string, readonly job: TicketJob,
    ...run: ConstructorParameters<typeof LeasedRun>
  ) {
    super(...run)
  }

  /** Name of the run in Redis. */
  get member(): string {
    const { id, birth, run } = this.task
    return `${id}\n${birth}\n${String(run)}`
  }
}

/** Begins runs of ready tasks, finds what is due, and hands out callbacks and removals. */
export class Worker {
  private readonly leases: Leases<TicketRun>
  /** Pools with a new ticket since no place was free. */
  private readonly missed = new Set<string>()
  private readonly sending = new Set<Promise<void>>()
  /** Removals of files that are under way. */
  private readonly removing = new Set<Promise<void>>()
  private timer: ReturnType<typeof setTimeout> | undefined
  private ticking: Promise<void> | undefined
  /** Number of runs that begin, or are performed. */
  private runs = 0
  private nextTick = Infinity
  private isTickWanted = false
  private isFull = false
  /** `true` if there may be more files to remove than are removed at a time. */
  private isRemovingFull = false
  private isReleasing = false
  private isClosing = false
  private onIdle: (() => void) | undefined

  constructor(
    private readonly engine: WorkerEngine, private readonly options: WorkOptions,
    private readonly handlers: WorkHandlers,
  ) {
    this.leases = new Leases(engine.leaseMs, (runs) => this.renew(runs))
    for (const pool of options.places.pools.keys()) engine.tickets.queueOf(pool)
    options.places.onFree((pool) => { if (!this.isReleasing) this.pump(pool) })
    this.tickIn(0)
  }

  /**
   * Takes the next task of a pool if a place is free. Returns `false` if none is.
   *
   * @param done - job of a run that has ended
   */
  pump(pool: string, done?: TicketJob): boolean {
    const { places } = this.options
    if (this.isClosing || !places.tryAcquire(pool)) {
      if (done) void this.engine.tickets.complete(done, this.engine.id)
      if (places.pools.has(pool)) this.missed.add(pool)
      return false
    }
    this.missed.delete(pool)
    void this.take(pool, done)
    return true
  }

  /** Searches for what is due, at the latest after `ms` milliseconds. */
  tickIn(ms: number): void {
    if (this.isClosing) return
    if (this.ticking) {
      if (ms < TICK_MS) this.isTickWanted = true
      return
    }
    const at = performance.now() + ms
    if (at >= this.nextTick) return
    clearTimeout(this.timer)
    this.nextTick = at
    this.timer = setTimeout(() => {
      this.nextTick = Infinity
      this.ticking = this.tick().then((next) => {
        this.ticking = undefined
        this.checkIdle()
        const wait = this.isTickWanted ? Math.min(next, 5) : next
        this.isTickWanted = false
        this.tickIn(wait)
      })
    }, ms)
    this.timer.unref()
  }

  /** Another process may have ended one of the runs. */
  checkRuns(): void {
    void this.leases.renew()
  }

  async close(drainMs: number): Promise<void> {
    this.isClosing = true
    clearTimeout(this.timer)
    const idle = new Promise<void>((resolve) => { this.onIdle = resolve })
    this.checkIdle()
    if (!await settles(idle, drainMs)) {
      this.leases.abort(new WorkerClosingError())
      await settles(idle, GRACE_MS)
    }
    this.leases.stop()
    await this.engine.tickets.close(CLOSE_MS)
  }

  private async take(pool: string, done: TicketJob | undefined): Promise<void> {
    const { tickets, id, onError } = this.engine
    let ended: TicketJob | undefined
    try {
      let job = await tickets.next(pool, id, done)
      while (job !== undefined) {
        if (this.isClosing) {
          await tickets.giveBack(job, id)
          break
        }
        if (await this.perform(pool, job)) {
          ended = job
          break
        }
        job = await tickets.next(pool, id, job)
      }
    } catch (error) {
      if (!this.isClosing) onError(error as Error)
    }
    this.isReleasing = true
    this.options.places.release(pool)
    this.isReleasing = false
    // If there was no task, it is useless to ask again.
    if (ended || this.missed.has(pool)) this.pump(pool, ended)
    this.checkIdle()
  }

  /** Performs a run, if the task of the job is ready. */
  private async perform(pool: string, job: TicketJob): Promise<boolean> {
    this.runs++
    try {
      const run = await this.begin(pool, job)
      if (!run) return false
      this.leases.add(run)
      // The process closed while the script was under way.
      if (this.isClosing) run.abort(new WorkerClosingError())
      await this.handlers.run(run).finally(() => { this.leases.remove(run) })
      return true
    } finally {
      this.runs--
    }
  }

  private async begin(pool: string, job: TicketJob): Promise<TicketRun | undefined> {
    const { leaseMs, id, run, nonce, addTickets } = this.engine
    const args = [pool, job.data.taskId, nonce(), leaseMs, id]
    const sentAt = performance.now()
    let reply: unknown
    while (reply === undefined) {
      reply = await run('take', BEGIN, ...args).catch(async (error: unknown) => {
        // The run may have begun, and only its reply was lost.
        await new Promise((resolve) => { setTimeout(resolve, AGAIN_BEGIN_MS) })
        if (this.isClosing || performance.now() - sentAt > leaseMs / 2) throw error
      })
    }
    const [row, tickets, ready = 0, input, checkpoint] = reply as [
      Row | null, Ticket[], number?, (string | null)?, (string | null)?,
    ]
    addTickets(tickets)
    if (!row) return undefined
    if (ready > 0) this.pump(pool)
    this.tickIn(leaseMs)
    const { task, crashed } = toBegun(row)
    return new TicketRun(
      pool, job, task, input ?? '', checkpoint ?? undefined, crashed, sentAt + leaseMs,
    )
  }

  private async renew(runs: readonly TicketRun[]): Promise<readonly Renewal[]> {
    const { leaseMs, id, run, tickets } = this.engine
    void tickets.renew(runs.map(({ job }) => job), id)
    const pairs = runs.flatMap(({ pool, member }) => [pool, member])
    const lost = new Set(await run('renew', RENEW, leaseMs, ...pairs) as string[])
    return runs.map(({ member }) => lost.has(member) ? 'lost' : 'renewed')
  }

  /** Searches for what is due. Returns the milliseconds until the next search. Never rejects. */
  private async tick(): Promise<number> {
    const { places, callbacks } = this.options
    const { engine, handlers } = this
    try {
      const free = Math.max(callbacks - this.sending.size, 0)
      const pools = [...places.pools].flatMap(([pool, count]) => [pool, count])
      const room = REMOVALS - this.removing.size
      const [tickets, due, removals, next] = await engine.run(
        'look', DUE, free, BATCH, AGAIN_MS, room, ...pools,
      ) as [Ticket[], Row[], Row[], number]
      engine.addTickets(tickets)
      this.isFull = callbacks > 0 && due.length >= free
      this.isRemovingFull = removals.length >= room
      for (const row of due) this.track(this.sending, handlers.callback(toTask(row)))
      for (const row of removals) this.track(this.removing, this.remove(row))
      for (const pool of places.pools.keys()) this.pump(pool)
      // While all places for callbacks are taken, those that are due do not matter.
      return this.isFull ? TICK_MS : Math.min(Math.max(next, 5), TICK_MS)
    } catch {
      return TICK_MS
    }
  }

  private async remove(row: Row): Promise<void> {
    const isRemoved = await this.handlers.remove(toTask(row))
    await this.engine.run('delete', REMOVED, row[0], isRemoved ? '' : REMOVE_AGAIN_MS)
  }

  private track(all: Set<Promise<void>>, work: Promise<void>): void {
    const tracked = work.catch(this.engine.onError).then(() => {
      all.delete(tracked)
      if (all === this.sending ? this.isFull : this.isRemovingFull) this.tickIn(0)
      this.checkIdle()
    })
    all.add(tracked)
  }

  private checkIdle(): void {
    if (this.ticking === undefined && this.runs + this.sending.size + this.removing.size === 0) this.onIdle?.()
  }
}
