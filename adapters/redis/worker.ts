import { hasWorker, type WorkHandlers, type WorkOptions } from '../../src/engine/engine.js'
import { LeasedWork } from '../../src/engine/leased-work.js'
import { LeasedRun, type Renewal } from '../../src/engine/runs.js'
import { Notices } from '../../src/runtime/notices.js'
import { newId } from '../../src/runtime/random-id.js'
import { setTimeout } from '../../src/runtime/timers.js'
import type { StoreEvent } from '../../src/stores/calls.js'
import type { Numeric, Script } from './client.js'
import type { Connection } from './connection.js'
import { crashedBefore, toTask, type Row } from './rows.js'
import { REMOVED } from './task-scripts.js'
import type { Ticket, TicketJob, Tickets } from './tickets.js'
import { BEGIN, DUE, RENEW } from './work-scripts.js'

/** Time after which a begin without a reply is sent again, in milliseconds. */
const BEGIN_AGAIN_MS = 500

type Args = readonly (string | number)[]

/**
 * Adds the tickets of ready tasks to BullMQ, in every process. In one that works, also begins runs, and
 * hands out callbacks and removals.
 */
export class Worker {
  /** Random name of the process, which its locks in BullMQ have too. */
  private readonly id = newId()
  private work: LeasedWork | undefined
  /** Pools with a new ticket since no place was free. */
  private readonly missed = new Set<string>()
  private readonly jobs = new Set<TicketJob>()
  private readonly notices: Notices
  private stops: (() => void)[] = []
  /** Number of begins so far. */
  private begun = 0
  private isClosed = false

  constructor(
    private readonly connection: Connection, private readonly tickets: Tickets,
    private readonly leaseMs: number, private readonly onError: (error: Error) => void,
  ) {
    // Waits for no reply, because a lost connection would hold up the notices.
    this.notices = new Notices((channels) => {
      for (const channel of channels) connection.client.publish(channel, '').catch(() => undefined)
      return Promise.resolve()
    })
  }

  /** Reports that BullMQ does not respond: it may wait for a connection forever. */
  noteLate(error: Error): void {
    this.work?.noteFailure('take', error)
  }

  /** Ends the outage, because all places may be taken, so that no take ends it. */
  noteReply(): void {
    this.work?.noteSuccess('take')
  }

  begin(options: WorkOptions, handlers: WorkHandlers): void {
    if (this.work) throw hasWorker('redis')
    const work: LeasedWork = this.work = new LeasedWork(options, handlers, {
      leaseMs: this.leaseMs, renew: (runs) => this.renew(runs), look: () => this.look(work),
    })
    // A lost notice is harmless, because the worker also looks every second.
    const listen = (channel: string, listener: () => void): void => {
      this.stops.push(this.connection.watches.add(this.connection.base + channel, listener).remove)
    }
    for (const pool of options.places.pools.keys()) {
      this.tickets.queueOf(pool)
      listen(`t:${pool}`, () => { this.pump(pool) })
    }
    listen('due', () => { work.lookIn(0) })
    listen(`k:${this.id}`, () => { void work.leases.renew() })
    options.places.onFree((pool) => { if (this.missed.has(pool)) this.pump(pool) })
    work.lookIn(0)
  }

  /** Runs a script that changes tasks. Rejects with a `StoreUnavailableError`. */
  change<Result extends readonly unknown[], T>(
    verb: StoreEvent['verb'], script: Script, args: Args, read: (result: Result) => T,
  ): Promise<T> {
    return this.connection.run(verb, script, args, (reply: ScriptReply) => {
      const [tickets, dueMs, ...result] = reply
      if (tickets !== null) this.addTickets(tickets)
      if (dueMs !== null) this.work?.lookIn(Math.max(Number(dueMs), 0))
      return read(result as unknown as Result)
    })
  }

  async close(drainMs: number): Promise<void> {
    await this.work?.close(drainMs)
    this.isClosed = true
    for (const stop of this.stops) stop()
    await this.tickets.close()
  }

  /** Adds jobs to BullMQ. A lost ticket is found again. */
  private addTickets(tickets: readonly Ticket[]): void {
    if (this.isClosed) return
    this.tickets.add(tickets).then(() => {
      for (const [pool] of tickets) if (!this.pump(pool)) this.notices.add(`${this.connection.base}t:${pool}`)
    }, (error: unknown) => {
      if (!this.isClosed) this.onError(error as Error)
    })
  }

  /** Takes the next task of a pool if a place is free. Returns `false` if none is. */
  private pump(pool: string): boolean {
    const { work } = this
    if (!work || work.isClosing) return false
    if (!work.options.places.tryAcquire(pool)) {
      this.missed.add(pool)
      return false
    }
    this.missed.delete(pool)
    void work.context.run(() => this.take(pool, work))
    return true
  }

  /** Performs runs of one pool in its place, as long as tasks are ready. */
  private async take(pool: string, work: LeasedWork): Promise<void> {
    const { tickets, id } = this
    try {
      let job = await tickets.next(pool, id)
      while (job) {
        if (work.isClosing) return void await job.moveToWait(id)
        this.jobs.add(job)
        await work.track(() => this.perform(pool, job as TicketJob, work)).finally(() => this.jobs.delete(job as TicketJob))
        if (work.isClosing) return void tickets.complete(job, id)
        job = await tickets.next(pool, id, job)
      }
      work.noteSuccess('take')
    } catch (error) {
      if (!work.isClosing) this.onError(error as Error)
      work.noteFailure('take', error)
    } finally {
      work.options.places.release(pool)
    }
  }

  /** Performs a run, if the task of the job is ready. */
  private async perform(pool: string, job: TicketJob, work: LeasedWork): Promise<void> {
    const { leaseMs } = this
    const args = [[job.data.taskId, `${this.id}.${String(++this.begun)}`, leaseMs, pool].join('\n')]
    const sentAt = performance.now()
    const begin = (): Promise<Begun> => this.change('take', BEGIN, args, (begun: Begun) => begun)
      .catch(async (error: unknown) => {
        // The run may have begun although the reply was lost.
        await new Promise((resolve) => { setTimeout(resolve, BEGIN_AGAIN_MS) })
        if (work.isClosing || performance.now() - sentAt > leaseMs / 2) throw error
        return begin()
      })
    const [row, ready = 0, startedBefore = -1, input, checkpoint] = await begin()
    work.noteSuccess('take')
    if (!row) return
    if (Number(ready) > 0) this.pump(pool)
    const task = toTask(row)
    await work.perform(new LeasedRun(
      task, input ?? '', checkpoint ?? undefined, crashedBefore(Number(startedBefore), task),
      sentAt + leaseMs,
    ))
  }

  private renew(runs: readonly LeasedRun[]): Promise<readonly Renewal[]> {
    this.tickets.renew(this.jobs, this.id)
    const names = runs.map(({ task: { id, birth, run } }) => ({ id, birth, run }))
    const args = [this.leaseMs, JSON.stringify(names)]
    return this.connection.run('renew', RENEW, args, (renewals: Renewal[]) => renewals)
  }

  private async look(work: LeasedWork): Promise<void> {
    const { pools } = work.options.places
    const args = [work.freeCallbacks, work.freeRemovals, ...[...pools].flat()]
    const [callbacks, removals] =
      await this.change('look', DUE, args, (found: [Row[], Row[]]) => found)
    for (const row of callbacks) void work.callBack(toTask(row))
    for (const row of removals) {
      const task = toTask(row)
      void work.remove(task, (isRemoved) => this.connection.run('delete', REMOVED, [
        `${task.id}~${task.birth}`, isRemoved ? '' : 'again',
      ], () => undefined))
    }
    for (const pool of pools.keys()) this.pump(pool)
  }
}

type ScriptReply = readonly [
  tickets: readonly Ticket[] | null, dueMs: Numeric | null, ...result: unknown[],
]
type Begun = readonly [
  row: Row | null, ready?: Numeric, startedBefore?: Numeric, input?: string | null,
  checkpoint?: string | null,
]
