import { hasWorker, type WorkHandlers, type WorkOptions } from '../../src/engine/engine.js'
import { LeasedWork } from '../../src/engine/leased-work.js'
import type { LeasedRun, Renewal } from '../../src/engine/runs.js'
import type { Changed, Expected, TaskChange, TaskRef } from '../../src/engine/task.js'
import { newId } from '../../src/runtime/random-id.js'
import { setImmediate } from '../../src/runtime/timers.js'
import type { ShareLimits } from '../../src/stores/share-limits.js'
import type { Numeric } from './client.js'
import type { Connection } from './connection.js'
import {
  changeArguments, limitsArgument, runName, toRun, toTask, type Row, type RunRow,
} from './rows.js'
import { REMOVED } from './task-scripts.js'
import { LOOK, RENEW, TURN } from './work-scripts.js'

/**
 * Maximum number of changes in one turn, and maximum number of runs that a turn begins in one pool.
 */
const [MAX_CHANGES, MAX_TAKEN] = [50, 50]
/** Delay of the look after a turn without a reply, which may have begun runs, in milliseconds. */
const LOST_MS = 100

/** A pool that this process works for. */
class Pool {
  /** `true` if tasks may wait. */
  isWaiting = false
  /** Number of notices that tasks wait. */
  notices = 0
  /**
   * Runs that have begun in the place of an earlier run. The end of the earlier run is stored, but
   * its handler still works.
   */
  begun: LeasedRun[] = []

  constructor(readonly name: string, readonly limits: object | undefined) {}
}

/** A change that waits for the next turn. */
interface Waiting {
  readonly args: readonly [text: string, checkpoint: string]
  /** Pool of the run of this process that the change ends. */
  readonly endsIn: string | undefined
  readonly resolve: (outcome: Outcome) => void
  readonly reject: (error: unknown) => void
}

/** Runs to begin in one pool. `free` is the number of places that were acquired for them. */
interface Wanted {
  readonly pool: Pool
  readonly free: number
  readonly count: number
  readonly notices: number
}

/**
 * Makes changes and begins runs, in turns: one script makes the changes of one turn of the event loop, and
 * begins runs in free places, and in those of the runs that it ends. A look finds what else is due, and
 * gives back the runs that Redis has for this process and that the process does not perform, because the
 * reply to their begin was lost.
 */
export class Worker {
  /** Random name of the process, with which its leases begin. */
  private readonly id = newId()
  private work: LeasedWork | undefined
  private readonly pools = new Map<string, Pool>()
  /** The runs of this process by id, birth and lease. */
  private readonly runs = new Map<string, LeasedRun>()
  /**
   * Runs whose handler has ended. If the handler has not ended the task, Redis keeps the run until
   * its lease is over.
   */
  private readonly ended = new Set<string>()
  /** Leases of turns that have no outcome yet. */
  private readonly pending = new Set<string>()
  private waiting: Waiting[] = []
  private isTurning = false
  private stops: (() => void)[] = []

  constructor(
    private readonly connection: Connection, private readonly leaseMs: number,
    private readonly share: ShareLimits,
  ) {}

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
      const pool = new Pool(name, limitsArgument(limits?.get(name)))
      this.pools.set(name, pool)
      listen(`r:${name}`, () => { this.noteReady(pool) })
    }
    listen('due', () => { work.lookIn(0) })
    listen(`k:${this.id}`, () => { void work.leases.renew() })
    places.onFree((name) => { this.pump(this.pools.get(name)) })
    work.lookIn(0)
  }

  async close(drainMs: number): Promise<void> {
    await this.work?.close(drainMs)
    for (const stop of this.stops) stop()
  }

  change(ref: TaskRef, expected: Expected, change: TaskChange): Promise<Changed> {
    const args = changeArguments(ref, expected, change, newId())
    return this.connection.call('change', () => new Promise<Outcome>((resolve, reject) => {
      const run = change.status && 'lease' in expected ? this.runs.get(keyOf(ref, expected.lease)) : undefined
      this.waiting.push({ args, endsIn: run?.task.pool, resolve, reject })
      this.turn()
    }), ([outcome, row]) => {
      if (outcome === 'caller_full') return { outcome }
      if (outcome === 'changed') return { outcome, task: toTask(row, change) }
      return { outcome, task: row ? toTask(row) : undefined }
    })
  }

  /** Notes the time until something is due, in a reply. */
  noteDue(ms: Numeric | null): void {
    if (ms !== null) this.work?.lookIn(Math.max(Number(ms), 0))
  }

  private noteReady(pool: Pool): void {
    pool.notices++
    pool.isWaiting = true
    this.pump(pool)
  }

  /** Takes from a pool in the next turn, if tasks may wait and a place is free. */
  private pump(pool: Pool | undefined): void {
    if (pool?.isWaiting === true && (this.work?.options.places.freeIn(pool.name) ?? 0) > 0) this.turn()
  }

  private turn(): void {
    if (this.isTurning) return
    this.isTurning = true
    setImmediate(() => {
      this.isTurning = false
      do this.send(this.waiting.splice(0, MAX_CHANGES))
      while (this.waiting.length > 0)
    })
  }

  private send(changes: readonly Waiting[]): void {
    const wanted = this.acquire(changes)
    if (changes.length === 0 && wanted.length === 0) return
    const lease = wanted.length > 0 ? `${this.id}.${newId()}` : undefined
    const leaseEnd = performance.now() + this.leaseMs
    const head = JSON.stringify({
      ...this.share, lease, leaseMs: this.leaseMs,
      pools: wanted.map(({ pool: { name, limits }, count }) => ({ name, limits, count })),
    })
    const reply = this.connection.send<TurnReply>(TURN, [head, ...changes.flatMap(({ args }) => args)])
    reply.then(([due, outcomes]) => {
      this.noteDue(due)
      for (const [n, { resolve, reject }] of changes.entries()) {
        const outcome = outcomes[n] as Outcome | ErrorReply
        if (outcome[0] === 'error') reject(Object.assign(new Error(outcome[1]), { name: 'ReplyError' }))
        else resolve(outcome)
      }
    }, (error: unknown) => { for (const { reject } of changes) reject(error) })
    if (lease !== undefined) void this.work?.track(() => this.take(reply, wanted, lease, leaseEnd))
  }

  /**
   * Acquires places in the pools in which tasks may wait. A run that a change ends has a place
   * already.
   */
  private acquire(changes: readonly Waiting[]): readonly Wanted[] {
    const { work } = this
    if (!work || work.isClosing) return []
    return [...this.pools.values()].flatMap((pool) => {
      let free = 0
      if (!pool.isWaiting) return []
      while (free < MAX_TAKEN && work.options.places.tryAcquire(pool.name)) free++
      const count = free + changes.filter(({ endsIn }) => endsIn === pool.name).length
      return count === 0 ? [] : [{ pool, free, count, notices: pool.notices }]
    })
  }

  /** Performs the runs that a turn has begun. */
  private async take(
    reply: Promise<TurnReply>, wanted: readonly Wanted[], lease: string, leaseEnd: number,
  ): Promise<void> {
    const work = this.work as LeasedWork
    const { places } = work.options
    this.pending.add(lease)
    const runs = await this.connection.call('take', () => reply, (found) => found[2]).catch((error: unknown) => {
      work.noteFailure('take', error)
      work.lookIn(LOST_MS)
      return undefined
    })
    this.pending.delete(lease)
    if (runs) work.noteSuccess('take')
    for (const [n, { pool, free, count, notices }] of wanted.entries()) {
      const begun = (runs?.[n] ?? []).map((row) => toRun(row, leaseEnd))
      for (const [at, run] of begun.entries()) {
        if (at < free || places.tryAcquire(pool.name)) this.perform(pool, run)
        else pool.begun.push(run)
      }
      // A notice that came meanwhile may be that of a later task.
      if (begun.length < count && notices === pool.notices) pool.isWaiting = false
      for (let at = begun.length; at < free; at++) places.release(pool.name)
      this.pump(pool)
    }
  }

  private perform(pool: Pool, run: LeasedRun): void {
    const work = this.work as LeasedWork
    const key = keyOf(run.task, run.lease)
    this.runs.set(key, run)
    void work.perform(run).finally(() => {
      this.runs.delete(key)
      this.ended.add(key)
      const next = pool.begun.shift()
      if (next) this.perform(pool, next)
      else work.options.places.release(pool.name)
    })
  }

  private renew(runs: readonly LeasedRun[]): Promise<readonly Renewal[]> {
    const args = runs.flatMap((run) => [run.task.pool, runName(run)])
    return this.connection.run('renew', RENEW, [this.leaseMs, ...args], (renewals: Renewal[]) => renewals)
  }

  private async look(work: LeasedWork): Promise<void> {
    const { places } = work.options
    const pools = [...this.pools.values()]
    const ended = new Set(this.ended)
    const query = JSON.stringify({
      worker: this.id, callbacks: work.freeCallbacks, removals: work.freeRemovals,
      pools: pools.map(({ name, limits }) => ({ name, limits })),
    })
    const [due, callbacks, removals, own, states] =
      await this.connection.run('look', LOOK, [query], (reply: LookReply) => reply)
    this.noteDue(due)
    for (const row of callbacks) void work.callBack(toTask(row))
    for (const row of removals) {
      const task = toTask(row)
      void work.remove(task, (isRemoved) => this.connection.run('delete', REMOVED, [
        `${task.id}~${task.birth}`, isRemoved ? '' : 'again',
      ], () => undefined))
    }
    for (const name of own) {
      const [id = '', birth = '', lease = ''] = name.split('\0')
      const key = keyOf({ id, birth }, lease)
      ended.delete(key)
      if (this.runs.has(key) || this.ended.has(key) || this.pending.has(lease)) continue
      // A run that still waits for its place goes to whoever has one.
      for (const pool of pools) pool.begun = pool.begun.filter((run) => runName(run) !== name)
      this.change({ id, birth }, { lease }, { status: 'queued', isGivenBack: true }).catch(() => undefined)
    }
    for (const key of ended) this.ended.delete(key)
    places.setPaused(pools.filter((_, n) => states[n] === 'paused').map(({ name }) => name))
    for (const [n, pool] of pools.entries()) if (states[n] === 'ready') this.noteReady(pool)
    // Otherwise a take decides.
    if (!pools.some(({ name, isWaiting }) => isWaiting && places.freeIn(name) > 0)) work.noteSuccess('take')
  }
}

function keyOf({ id, birth }: TaskRef, lease: string): string {
  return `${id}\0${birth}\0${lease}`
}

type Outcome = readonly ['changed', Row] | readonly ['conflict', Row?] | readonly ['caller_full', null?]
type ErrorReply = readonly ['error', message: string]
type TurnReply = readonly [
  due: Numeric | null, outcomes: readonly (Outcome | ErrorReply)[], runs: readonly (readonly RunRow[])[],
]
type LookReply = readonly [
  due: Numeric | null, callbacks: readonly Row[], removals: readonly Row[], own: readonly string[],
  states: readonly string[],
]
