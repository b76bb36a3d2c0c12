import {
  hasWorker, type Places, type PoolCounts, type WorkHandlers, type WorkOptions,
} from '../../src/engine/engine.js'
import { RunReplacedError, WorkerClosingError } from '../../src/engine/runs.js'
import { isFinalStatus, type StoredTask, type TaskStatus } from '../../src/engine/task.js'
import { MAX_TIMER_MS } from '../../src/runtime/options.js'
import { OwnContext } from '../../src/runtime/own-context.js'
import {
  systemClock, type Clock, clearImmediate, setImmediate, settles,
} from '../../src/runtime/timers.js'
import { PoolLimits } from './run-limits.js'
import { SortedList } from './sorted-list.js'
import { ActiveRun, Due, Queue, type StoredNode } from './stored-task.js'

/**
 * Limits of the time that runs may take in one turn of the event loop, in milliseconds. It is as long as the server
 * has worked on requests since the last turn, so that runs keep up with a burst.
 */
const MIN_TURN_MS = 2
const MAX_TURN_MS = 50
/**
 * Maximum time that a run after a short run counts for, in milliseconds. A longer run means that
 * the system has probably paused the process.
 */
const PAUSED_MS = 0.5
/** Time for aborted runs to end, in milliseconds. */
const ABORT_GRACE_MS = 250
/** Delay of the next run after one that has not changed its task, in milliseconds. */
const LOST_RUN_MS = 1000
/** Delay before a callback without an outcome, or a failed removal of files, is retried, in milliseconds. */
const AGAIN_MS = 60_000
/** Maximum number of tasks whose files are removed at the same time. */
const REMOVALS = 10
/** Interval in milliseconds of the timer that keeps a process alive. */
const KEEP_ALIVE_MS = 1000

export interface WorkerHost {
  readonly clock: Clock
  readonly now: () => number
  /** Called when a run of a task has begun; `before` is the status that the task had. */
  readonly onBegin: (node: StoredNode, before: TaskStatus) => void
  /** Returns true if a task has not expired. Removes an expired task. */
  readonly isLive: (node: StoredNode) => boolean
  /** Called when a delayed task becomes due. */
  readonly onReady: (node: StoredNode) => void
  readonly all: () => Iterable<StoredNode>
}

/**
 * Starts work that is due, in a later turn of the event loop, so that a server can respond first.
 */
export class Worker {
  readonly #pools = new Map<string, Queue>()
  readonly #callbacks = new Queue(undefined)
  readonly #delayed = new SortedList<Due>((one, other) => one.at - other.at || one.n - other.n)
  #options: WorkOptions | undefined
  #handlers: WorkHandlers | undefined
  /** The async context of `work`, for the handlers. */
  #context = new OwnContext()
  /** Number of starts, runs and callbacks that have not ended. */
  #pending = 0
  /** Number of all starts and callbacks so far. */
  #dueCount = 0
  /** Called at the next end of a start, run or callback. */
  #endListeners: (() => void)[] = []
  readonly #paused = new Set<string>()
  readonly #limits = new Map<string, PoolLimits>()
  /** Pools with a timer for the time at which `startsPer` lets the next run begin. */
  readonly #opening = new Set<string>()
  /** Tasks whose files wait for their removal. */
  readonly #unremoved: StoredTask[] = []
  #removals = 0
  #nextTurn: NodeJS.Immediate | undefined
  /** Number of turns begun. */
  #turnCount = 0
  /** Time that is left for further runs in this turn, in milliseconds. */
  #timeLeft = 0
  /** Time of the last look at the clock of the process, and the time that the run before had taken. */
  #countedAt = 0
  #lastRunMs = 0
  #timer: { readonly at: number, readonly cancel: () => void } | undefined
  #closing: Promise<void> | undefined
  #isAborted = false

  constructor(private readonly host: WorkerHost) {}

  begin(options: WorkOptions, handlers: WorkHandlers): void {
    if (this.#handlers) throw hasWorker('memory')
    this.#options = options
    this.#handlers = handlers
    this.#context = new OwnContext()
    for (const [pool, limits] of options.limits ?? []) this.#limits.set(pool, new PoolLimits(limits))
    this.#removeFiles()
    options.places.setPaused(this.pausedPools())
    options.places.onFree((pool) => {
      const queue = this.#pools.get(pool)
      if (queue === undefined || queue.size === 0) return
      // Short runs start in the same turn, because one batch for each turn would be too slow.
      if (this.#hasTime()) this.#startIn(queue)
      if (queue.size > 0) this.#scheduleTurn()
    })
    // The global scope of a Worker may set no timer, and has no tasks yet.
    for (const queue of this.#queues()) {
      if (queue.size > 0) this.#scheduleTurn()
      for (const { node } of queue) node.hold ??= this.host.clock.hold?.()
    }
  }

  schedule(node: StoredNode, at: number, now: number): void {
    let queue = this.#pools.get(node.pool)
    if (queue === undefined) this.#pools.set(node.pool, queue = new Queue(node.pool))
    if (at > now) this.#release(node)
    node.start = this.#add(node, queue, at, now)
  }

  scheduleCallback(node: StoredNode, now: number): void {
    this.#cancel(node.callback)
    const { callbackAt } = node
    node.callback = callbackAt === undefined
      ? undefined : this.#add(node, this.#callbacks, callbackAt, now)
  }

  /** @param isOwn - true if the run itself has ended the task */
  endRun(node: StoredNode, isOwn: boolean): void {
    const { running } = node
    this.#cancel(node.start)
    node.start = undefined
    node.running = undefined
    if (running !== undefined) this.#freeShares(running)
    this.#release(node)
    if (!isOwn) running?.abort(new RunReplacedError())
  }

  /** Ends all work of a task that is removed, and has its files deleted. */
  remove(node: StoredNode): void {
    this.endRun(node, false)
    this.#cancel(node.callback)
    node.callback = undefined
    if (node.hasFiles) this.#addRemoval(node.toTask())
  }

  setPaused(pool: string, isPaused: boolean): void {
    if (isPaused) this.#paused.add(pool)
    else this.#paused.delete(pool)
    this.#options?.places.setPaused(this.pausedPools())
  }

  /** The names of the paused pools, by code unit. */
  pausedPools(): readonly string[] {
    return [...this.#paused].sort()
  }

  /** Lets a task that has never begun begin at another time, or in another order. */
  reschedule(node: StoredNode, at: number, now: number): void {
    this.#cancel(node.start)
    this.schedule(node, at, now)
  }

  /** Makes tasks ready that are due. */
  wakeDue(): void {
    const now = this.host.now()
    for (let due = this.#delayed.first; due && due.at <= now; due = this.#delayed.first) {
      this.#delayed.remove(due)
      this.#makeReady(due)
      if (due.queue !== this.#callbacks) this.host.onReady(due.node)
    }
    this.#setTimer()
  }

  counts(pool: string): PoolCounts {
    this.wakeDue()
    const queue = this.#pools.get(pool)
    let delayed = 0
    for (const due of this.#delayed) if (due.queue === queue) delayed++
    const waits = [...queue ?? [], ...this.#limits.get(pool) ?? []]
    const waiting = waits.length
    let oldest = Infinity
    for (const { at } of waits) oldest = Math.min(oldest, at)
    return {
      running: queue?.running ?? 0, waiting, delayed,
      ...waiting > 0 && { oldestWaitingMs: Math.max(this.host.now() - oldest, 0) },
    }
  }

  /** Keeps a timer, because a Worker cancels a request that waits only for promises of other requests. */
  async idle(): Promise<void> {
    const alive = setInterval(() => undefined, KEEP_ALIVE_MS)
    await this.#until(() => this.#pending === 0)
    clearInterval(alive)
  }

  close(drainMs: number): Promise<void> {
    this.#closing ??= this.#shutDown(Math.max(drainMs, 0))
    return this.#closing
  }

  #add(node: StoredNode, queue: Queue, at: number, now: number): Due {
    const due = new Due(node, queue, at, this.#dueCount++)
    this.#pending++
    if (at <= now) {
      this.#makeReady(due)
    } else {
      this.#delayed.add(due)
      this.#setTimer()
    }
    return due
  }

  #makeReady(due: Due): void {
    const { node, queue } = due
    due.turn = this.#turnCount
    queue.push(due, queue.pool === undefined ? 0 : node.priority)
    if (this.#options === undefined) return
    node.hold ??= this.host.clock.hold?.()
    if (queue.pool === undefined || this.#options.places.freeIn(queue.pool) > 0) this.#scheduleTurn()
  }

  #cancel(due: Due | undefined): void {
    if (due === undefined) return
    if (due.line) due.queue.remove(due)
    else if (due.share) this.#limits.get(due.queue.pool as string)?.remove(due)
    else this.#delayed.remove(due)
    this.#end()
  }

  #setTimer(): void {
    const at = this.#delayed.first?.at
    if (at === this.#timer?.at) return
    this.#timer?.cancel()
    this.#timer = undefined
    if (at === undefined || this.#isAborted) return
    const delay = Math.min(Math.max(at - this.host.now(), 0), MAX_TIMER_MS)
    const cancel = this.host.clock.schedule(delay, () => {
      this.#timer = undefined
      this.wakeDue()
    })
    this.#timer = { at, cancel }
  }

  #scheduleTurn(): void {
    if (this.#nextTurn !== undefined || this.#isAborted) return
    this.#nextTurn = setImmediate(() => {
      this.#nextTurn = undefined
      this.#turnCount++
      const now = systemClock.now()
      this.#timeLeft = Math.min(Math.max(now - this.#countedAt, MIN_TURN_MS), MAX_TURN_MS)
      this.#countedAt = now
      for (const queue of this.#pools.values()) this.#startIn(queue)
      const callbacks = this.#callbacks
      const max = (this.#options as WorkOptions).callbacks
      while (callbacks.running < max && this.#isNext(callbacks)) this.#callBack(callbacks.take())
    })
  }

  /** Counts the time since the run before. Returns true if further runs may start in this turn. */
  #hasTime(): boolean {
    const now = systemClock.now()
    const tookMs = now - this.#countedAt
    this.#timeLeft -= Math.min(tookMs, Math.max(this.#lastRunMs, PAUSED_MS))
    this.#lastRunMs = tookMs
    this.#countedAt = now
    return this.#timeLeft > 0
  }

  /** Starts runs that became ready before this turn, while places are free. */
  #startIn(queue: Queue): void {
    const { places } = this.#options as WorkOptions
    const pool = queue.pool as string
    if (this.#paused.has(pool)) return this.#letClockMove(queue)
    const limits = this.#limits.get(pool)
    if (limits !== undefined) return this.#startLimited(queue, limits, places)
    while (this.#isNext(queue) && places.tryAcquire(pool)) this.#run(queue.take())
  }

  #startLimited(queue: Queue, limits: PoolLimits, places: Places): void {
    const pool = queue.pool as string
    while (this.#isNext(queue)) {
      const now = this.host.now()
      const delay = limits.delay(now)
      if (delay > 0) {
        this.#letClockMove(queue)
        return this.#openIn(pool, delay)
      }
      const due = queue.first as Due
      const held = limits.hold(due)
      if (held !== undefined) {
        queue.remove(due)
        this.#release(due.node)
        if (held.next) this.#makeReady(held.next)
      } else if (places.tryAcquire(pool)) {
        limits.begin(due, now)
        this.#run(queue.take())
      } else {
        return
      }
    }
  }

  /**
   * Looks at a pool again after a time in milliseconds. `Infinity`: the end of a run looks at it.
   */
  #openIn(pool: string, delayMs: number): void {
    if (delayMs === Infinity || this.#opening.has(pool)) return
    this.#opening.add(pool)
    this.host.clock.schedule(delayMs, () => {
      this.#opening.delete(pool)
      this.#scheduleTurn()
    })
  }

  /** Lets a manual clock move, because nothing of a queue begins now. */
  #letClockMove(queue: Queue): void {
    if (this.host.clock.hold === undefined) return
    for (const { node } of queue) this.#release(node)
  }

  /** Frees the places of a run that is over. Tasks that were held become ready. */
  #freeShares({ node, queue }: ActiveRun): void {
    const { shares } = node
    if (shares === undefined) return
    node.shares = undefined
    const limits = this.#limits.get(queue.pool as string) as PoolLimits
    for (const due of limits.end(shares)) this.#makeReady(due)
    this.#scheduleTurn()
  }

  /** Returns true if the next item became ready before this turn. Removes expired tasks. */
  #isNext(queue: Queue): boolean {
    for (let { first } = queue; first && first.turn < this.#turnCount; { first } = queue) {
      if (this.#isAborted) return false
      if (this.host.isLive(first.node)) return true
    }
    return false
  }

  #run({ node, queue }: Due): void {
    const { status } = node
    const crashed = status === 'processing' ? node.toTask() : undefined
    node.start = undefined
    node.hold ??= this.host.clock.hold?.()
    node.begin(this.host.now())
    if (node.callback !== undefined) {
      node.endCallback()
      this.scheduleCallback(node, 0)
    }
    this.host.onBegin(node, status)
    const run = node.running = new ActiveRun(node, queue, crashed)
    queue.running++
    const end = (): void => { this.#endOf(run) }
    void this.#context.run((this.#handlers as WorkHandlers).run, run).then(end, end)
  }

  #endOf(run: ActiveRun): void {
    const { node, queue } = run
    queue.running--
    // The handler has not ended the task, so the run is lost.
    if (node.running === run) {
      node.running = undefined
      this.#freeShares(run)
      const now = this.host.now()
      if (!this.#isAborted) this.schedule(node, now + LOST_RUN_MS, now)
    }
    this.#end()
    ;(this.#options as WorkOptions).places.release(queue.pool as string)
  }

  #callBack({ node, queue }: Due): void {
    const now = this.host.now()
    node.beginCallback(now + AGAIN_MS)
    node.callback = undefined
    this.scheduleCallback(node, now)
    queue.running++
    const end = (): void => {
      queue.running--
      if (node.running === undefined && node.start?.line === undefined) this.#release(node)
      this.#end()
      this.#scheduleTurn()
    }
    const { callback } = this.#handlers as WorkHandlers
    void this.#context.run(callback, node.toTask()).then(end, end)
  }

  #addRemoval(task: StoredTask): void {
    this.#unremoved.push(task)
    this.#removeFiles()
  }

  #removeFiles(): void {
    while (this.#handlers && this.#removals < REMOVALS) {
      const task = this.#unremoved.pop()
      if (!task) return
      this.#removals++
      void this.#context.run(this.#handlers.remove, task).catch(() => false).then((isRemoved) => {
        this.#removals--
        if (!isRemoved) {
          this.host.clock.schedule(AGAIN_MS, () => { this.#addRemoval(task) })
        }
        this.#removeFiles()
      })
    }
  }

  #release(node: StoredNode): void {
    node.hold?.()
    node.hold = undefined
  }

  #end(): void {
    this.#pending--
    if (this.#endListeners.length > 0) for (const resolve of this.#endListeners.splice(0)) resolve()
  }

  async #shutDown(drainMs: number): Promise<void> {
    // Runs what becomes due in the drain time. A manual clock stands still meanwhile.
    const end = this.host.now() + (this.host.clock.hold === undefined ? drainMs : 0)
    const isDone = (): boolean => {
      const { first } = this.#delayed
      if (this.#runs() > 0 || (first !== undefined && first.at <= end)) return false
      return this.#queues().every(({ size, pool }) => size === 0 || this.#paused.has(pool ?? ''))
    }
    if (this.#handlers) await settles(this.#until(isDone), drainMs)
    this.#isAborted = true
    this.#timer?.cancel()
    if (this.#nextTurn !== undefined) clearImmediate(this.#nextTurn)
    this.#nextTurn = undefined
    const reason = new WorkerClosingError()
    const left = [...this.host.all()].filter((node) => isLeft(node))
    for (const { running } of left) running?.abort(reason)
    await settles(this.#until(() => this.#runs() === 0), ABORT_GRACE_MS)
    for (const node of left) {
      if (this.#handlers && isLeft(node)) await this.#context.run(this.#handlers.abandon, node.toTask())
    }
  }

  /**
   * Waits until `isDone`. Each call has its own promise, because Workers cannot share one between
   * requests.
   */
  async #until(isDone: () => boolean): Promise<void> {
    while (!isDone()) await new Promise<void>((resolve) => { this.#endListeners.push(resolve) })
  }

  #queues(): Queue[] {
    return [...this.#pools.values(), this.#callbacks]
  }

  #runs(): number {
    return this.#queues().reduce((sum, { running }) => sum + running, 0)
  }
}

function isLeft({ status, callbackAt }: StoredNode): boolean {
  return !isFinalStatus(status) || callbackAt !== undefined
}
