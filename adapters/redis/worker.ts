import { hasWorker, type WorkHandlers, type WorkOptions } from '../../src/engine/engine.js'
import { LeasedWork } from '../../src/engine/leased-work.js'
import type { LeasedRun, Renewal } from '../../src/engine/runs.js'
import { newId } from '../../src/runtime/random-id.js'
import { clearTimeout, setTimeout } from '../../src/runtime/timers.js'
import type { Connection } from './connection.js'
import { limitsArgument, runName, toRun, toTask, type Row, type RunRow } from './rows.js'
import { REMOVED } from './task-scripts.js'
import type { PoolTake, Take, Turns } from './turns.js'
import { LOOK, RENEW } from './work-scripts.js'

/** Maximum number of runs that one turn begins in one pool. */
const MAX_TAKEN = 50
/** Delay of the look after a turn without a reply, which may have begun runs, in milliseconds. */
const LOST_MS = 100
/** Time that a run waits for the place of the run before, in milliseconds. */
const PLACE_MS = 1000

/** What a process knows of a pool that it works for. */
class Pool {
  /** `true` if tasks may wait. */
  isWaiting = true
  /** Number of notices that tasks wait. */
  notices = 0
  /** Runs that have begun, and wait for the place of a run that ends. */
  readonly begun: LeasedRun[] = []
  /** Where the next look for held tasks begins. */
  from = '-'

  constructor(readonly name: string, readonly limits: object | undefined) {}
}

/**
 * Hands out what is due. Runs begin in turns: when a place is free, and together with the end of the run
 * before. A look finds everything else, and compares the runs of this process with those that Redis has
 * for it: those that it does not know have begun in a turn whose reply was lost, and are given back.
 */
export class Worker {
  /** Random name of the process, with which its leases begin. */
  private readonly id = newId()
  private work: LeasedWork | undefined
  private readonly pools = new Map<string, Pool>()
  /** The runs of this process by name. */
  private readonly runs = new Map<string, LeasedRun>()
  /** Leases of turns that have no outcome yet. */
  private readonly pending = new Set<string>()
  private stops: (() => void)[] = []

  constructor(
    private readonly connection: Connection, private readonly turns: Turns,
    private readonly leaseMs: number,
  ) {
    turns.onDue = (ms) => this.work?.lookIn(ms)
    turns.poolOf = (lease, id) => {
      for (const { task, lease: own } of this.runs.values()) if (own === lease && task.id === id) return task.pool
      return undefined
    }
    turns.takes = (ending) => this.takes(ending)
  }

  begin(options: WorkOptions, handlers: WorkHandlers): void {
    if (this.work) throw hasWorker('redis')
    const { places, limits } = options
    const work: LeasedWork = this.work = new LeasedWork(options, handlers, {
      leaseMs: this.leaseMs, renew: (runs) => this.renew(runs), look: () => this.look(work),
    })
    // A lost notice is harmless, because the worker also looks every second.
    const listen = (channel: string, listener: () => void): void => {
      this.stops.push(this.connection.watches.add(this.connection.base + channel, listener).remove)
    }
    for (const name of places.pools.keys()) {
      const own = limits?.get(name)
      const pool = new Pool(name, own && limitsArgument(own))
      this.pools.set(name, pool)
      listen(`r:${name}`, () => { this.noteReady(pool) })
    }
    listen('due', () => { work.lookIn(0) })
    listen(`k:${this.id}`, () => { void work.leases.renew() })
    places.onFree((name) => {
      const pool = this.pools.get(name)
      if (pool) this.pump(pool)
    })
    work.lookIn(0)
  }

  async close(drainMs: number): Promise<void> {
    await this.work?.close(drainMs)
    for (const stop of this.stops) stop()
  }

  private noteReady(pool: Pool): void {
    pool.notices++
    pool.isWaiting = true
    this.pump(pool)
  }

  /** Takes from a pool in the next turn, if tasks wait and a place is free. */
  private pump({ name, isWaiting }: Pool): void {
    const { work } = this
    if (isWaiting && work && !work.isClosing && work.options.places.freeIn(name) > 0) this.turns.wake()
  }

  /** @param ending - number of runs that end in the turn, by pool */
  private takes(ending: ReadonlyMap<string, number>): Take | undefined {
    const { work } = this
    if (!work || work.isClosing) return undefined
    const wanted: { readonly pool: Pool, readonly free: number, readonly count: number, readonly notices: number }[] = []
    for (const pool of this.pools.values()) {
      if (!pool.isWaiting) continue
      let free = 0
      while (free < MAX_TAKEN && work.options.places.tryAcquire(pool.name)) free++
      const count = free + (ending.get(pool.name) ?? 0)
      if (count > 0) wanted.push({ pool, free, count, notices: pool.notices })
    }
    if (wanted.length === 0) return undefined
    const lease = `${this.id}.${newId()}`
    const leaseEnd = performance.now() + this.leaseMs
    const pools = wanted.map(({ pool: { name, limits }, count }): PoolTake => ({ name, limits, count }))
    this.pending.add(lease)
    const end = (rows: readonly (readonly RunRow[])[], more: readonly unknown[]): void => {
      this.pending.delete(lease)
      for (const [n, { pool, free, count, notices }] of wanted.entries()) {
        const runs = (rows[n] ?? []).map((row) => toRun(row, leaseEnd))
        if (rows.length > 0 && runs.length < count && pool.notices === notices) pool.isWaiting = false
        this.start(pool, runs, free)
        if (Number(more[n]) === 1) this.noteReady(pool)
      }
    }
    return {
      lease, leaseMs: this.leaseMs, pools,
      settle: (reply) => work.track(async () => {
        try {
          const { runs, more } = await reply
          work.noteSuccess('take')
          end(runs, more)
        } catch (error) {
          end([], [])
          work.noteFailure('take', error)
          work.lookIn(LOST_MS)
        }
      }),
    }
  }

  /** @param acquired - number of places that these runs have */
  private start(pool: Pool, runs: readonly LeasedRun[], acquired: number): void {
    const { work } = this
    if (!work) return
    const { places } = work.options
    for (const run of runs) {
      this.runs.set(runName(run), run)
      if (acquired > 0) {
        acquired--
        this.perform(pool, run, work)
      } else if (places.tryAcquire(pool.name)) {
        this.perform(pool, run, work)
      } else {
        this.await(pool, run)
      }
    }
    for (; acquired > 0; acquired--) places.release(pool.name)
    this.pump(pool)
  }

  /** Lets a run wait for the place of the run before. Gives it back if that does not end. */
  private await(pool: Pool, run: LeasedRun): void {
    pool.begun.push(run)
    setTimeout(() => {
      const at = pool.begun.indexOf(run)
      if (at < 0) return
      pool.begun.splice(at, 1)
      this.runs.delete(runName(run))
      this.giveBack(run.task.id, run.task.birth, run.lease)
    }, PLACE_MS).unref()
  }

  private perform(pool: Pool, run: LeasedRun, work: LeasedWork): void {
    void work.perform(run).finally(() => {
      this.runs.delete(runName(run))
      const next = pool.begun.shift()
      if (next) this.perform(pool, next, work)
      else work.options.places.release(pool.name)
    })
  }

  private giveBack(id: string, birth: string, lease: string): void {
    this.turns.change({ id, birth }, { lease }, { status: 'queued', isGivenBack: true }).catch(() => undefined)
  }

  private renew(runs: readonly LeasedRun[]): Promise<readonly Renewal[]> {
    const args = runs.flatMap((run) => [run.task.pool, runName(run)])
    return this.connection.run('renew', RENEW, [this.leaseMs, ...args], (renewals: Renewal[]) => renewals)
  }

  private async look(work: LeasedWork): Promise<void> {
    const pools = [...this.pools.values()]
    const known = new Set(this.runs.keys())
    const query = JSON.stringify({
      worker: this.id, callbacks: work.freeCallbacks, removals: work.freeRemovals,
      pools: pools.map(({ name, limits, from }) => ({ name, limits, from })),
    })
    const [due, callbacks, removals, own, found] =
      await this.connection.run('look', LOOK, [query], (reply: Found) => reply)
    if (due !== null) work.lookIn(Math.max(Number(due), 0))
    for (const row of callbacks) void work.callBack(toTask(row))
    for (const row of removals) {
      const task = toTask(row)
      void work.remove(task, (isRemoved) => this.connection.run('delete', REMOVED, [
        `${task.id}~${task.birth}`, isRemoved ? '' : 'again',
      ], () => undefined))
    }
    for (const name of own) {
      const [id = '', birth = '', lease = ''] = name.split('\0')
      if (!known.has(name) && !this.runs.has(name) && !this.pending.has(lease)) this.giveBack(id, birth, lease)
    }
    work.options.places.setPaused(pools.filter((_, n) => found[n]?.[0] === 'paused').map(({ name }) => name))
    for (const [n, pool] of pools.entries()) {
      pool.from = found[n]?.[1] ?? '-'
      if (found[n]?.[0] === 'ready') this.noteReady(pool)
    }
    // Otherwise a take decides.
    const { places } = work.options
    if (!pools.some(({ name, isWaiting }) => isWaiting && places.freeIn(name) > 0)) work.noteSuccess('take')
  }
}

type Found = readonly [
  due: string | number | null, callbacks: readonly Row[], removals: readonly Row[], own: readonly string[],
  pools: readonly (readonly [state: string, from: string])[],
]
