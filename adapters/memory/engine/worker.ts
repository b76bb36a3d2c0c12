import type { PoolCounts, WorkHandlers, WorkOptions } from '../../../src/engine/engine.js'
import { RunReplacedError, WorkerClosingError } from '../../../src/engine/stop-reasons.js'
import { isFinalStatus, type StoredTask, type TaskStatus } from '../../../src/engine/task.js'
import {
  systemClock, type Clock, clearImmediate, setImmediate, settles,
} from '../../../src/runtime/timers.js'
import { IdleWaiters, keepAlive } from '../idle-waiters.js'
import { DueTimes } from './due-times.js'
import { ActiveRun, CallbackAttempt, Start, type StoredNode } from './stored-node.js'
import { WaitingTasks } from './waiting-tasks.js'

/** Maximum delay of a Node timer in milliseconds. A longer timer fires at once. */
const MAX_TIMER_MS = 2 ** 31 - 1
/** Milliseconds in which further runs may start in the same turn of the event loop. */
const TURN_MS = 2
/** Milliseconds that aborted runs have to end. */
const ABORT_GRACE_MS = 250
/** Delay of the next run after one that ended without a change of its task, in milliseconds. */
const LOST_RUN_MS = 1000
/** Time after which an attempt at a callback without an outcome is made again, in milliseconds. */
const CALLBACK_AGAIN_MS = 60_000
/** Delay before files are removed again after a failure, in milliseconds. */
const REMOVE_AGAIN_MS = 60_000
/** Number of tasks whose files are removed at the same time. */
const REMOVALS = 10

/** The parts of the engine that its worker uses. */
export interface WorkerHost {
  readonly clock: Clock
  /** Returns the time of day of the engine. */
  readonly now: () => number
  /** Called when the run of a task that had this status has begun. */
  readonly onBegin: (node: StoredNode, before: TaskStatus) => void
  /** Returns whether a task has not expired. Removes it if it has. */
  readonly isLive: (node: StoredNode) => boolean
  /** Called when a delayed task becomes due. */
  readonly onReady: (node: StoredNode) => void
  /** Returns all tasks. */
  readonly all: () => Iterable<StoredNode>
}

/**
 * Hands out what is due. A run starts in a later turn of the event loop than the call that made it
 * due, so that a server can respond first.
 */
export class Worker {
  readonly #host: WorkerHost
  /** Tasks that wait for a place, by pool. */
  readonly #ready = new Map<string, WaitingTasks<Start>>()
  readonly #delayed = new DueTimes<Start | CallbackAttempt>()
  readonly #callbacks = new WaitingTasks<CallbackAttempt>()
  readonly #running = new Map<string, number>()
  #options: WorkOptions | undefined
  #handlers: WorkHandlers | undefined
  #callbacksRunning = 0
  /** Number of starts, runs and callbacks that have not ended. */
  #pending = 0
  /** Promises for the next end of something. */
  readonly #ends = new IdleWaiters()
  /** Tasks whose files wait for their removal. */
  readonly #unremoved: StoredTask[] = []
  #removals = 0
  #turn: NodeJS.Immediate | undefined
  /** Number of turns begun. */
  #turns = 0
  /** End of the current turn, by the clock of the process. */
  #turnEnd = 0
  #timer: { readonly at: number, readonly cancel: () => void } | undefined
  #closing: Promise<void> | undefined
  #isAborted = false

  constructor(host: WorkerHost) {
    this.#host = host
  }

  begin(options: WorkOptions, handlers: WorkHandlers): void {
    if (this.#handlers) throw new Error('work() was called already: an engine has one worker')
    this.#options = options
    this.#handlers = handlers
    this.#removeFiles()
    options.places.onFree((pool) => {
      // Starts further short runs in the same turn. One batch for each turn would be slower than
      // the arrivals.
      if (systemClock.now() < this.#turnEnd) this.#startIn(pool)
      this.#scheduleTurn()
    })
    for (const ready of this.#ready.values()) {
      for (let item = ready.first; item; item = item.next) this.#hold(item.node)
    }
    this.#scheduleTurn()
  }

  /** Makes the next run of a task due at a time. */
  schedule(node: StoredNode, at: number, now: number): void {
    const start = node.start = new Start(node, at, node.pool)
    this.#pending++
    if (at > now) this.#delay(start)
    else this.#makeReady(start, now)
  }

  /** Makes the next attempt at the callback of a task due at its `callbackAt`. */
  scheduleCallback(node: StoredNode, now: number): void {
    this.#cancel(node.callback)
    node.callback = undefined
    const { callbackAt } = node
    if (callbackAt === undefined) return
    node.callback = new CallbackAttempt(node, callbackAt)
    this.#pending++
    if (callbackAt > now) this.#delay(node.callback)
    else this.#makeReady(node.callback, now)
  }

  /**
   * Ends what a task waits for or runs.
   *
   * @param isOwn - the run itself has ended the task
   */
  endRun(node: StoredNode, isOwn: boolean): void {
    const { running } = node
    this.#cancel(node.start)
    node.start = undefined
    node.running = undefined
    this.#release(node)
    if (!isOwn) running?.abort(new RunReplacedError())
  }

  /** Forgets a task that is removed. Has its files deleted. */
  remove(node: StoredNode): void {
    this.endRun(node, false)
    this.#cancel(node.callback)
    node.callback = undefined
    if (node.hasFiles) this.#addRemoval(node.toTask())
  }

  /** Makes ready what is due. For readers that do not wait for the timer. */
  wakeDue(): void {
    const now = this.#host.now()
    for (let due = this.#delayed.first; due && due.at <= now; due = this.#delayed.first) {
      this.#delayed.remove(due)
      this.#makeReady(due, now)
    }
    this.#setTimer()
  }

  counts(pool: string): PoolCounts {
    this.wakeDue()
    const ready = this.#ready.get(pool)
    const oldest = ready?.oldest
    return {
      running: this.#running.get(pool) ?? 0,
      waiting: ready?.size ?? 0,
      delayed: this.#delayed.count((due) => due instanceof Start && due.pool === pool),
      ...oldest !== undefined && { oldestWaitingMs: Math.max(this.#host.now() - oldest, 0) },
    }
  }

  idle(): Promise<void> {
    return keepAlive(this.#until(() => this.#pending === 0))
  }

  close(drainMs: number): Promise<void> {
    this.#closing ??= this.#shutDown(Math.min(Math.max(drainMs, 0), MAX_TIMER_MS))
    return this.#closing
  }

  #delay(due: Start | CallbackAttempt): void {
    if (due instanceof Start) this.#release(due.node)
    this.#delayed.add(due)
    this.#setTimer()
  }

  #makeReady(due: Start | CallbackAttempt, now: number): void {
    due.isReady = true
    due.waitsSince = now
    due.turn = this.#turns
    if (due instanceof Start) {
      this.#readyIn(due.pool).push(due)
      if (due.node.startAt !== undefined) this.#host.onReady(due.node)
    } else {
      this.#callbacks.push(due)
    }
    if (this.#handlers) this.#hold(due.node)
    this.#scheduleTurn()
  }

  #cancel(due: Start | CallbackAttempt | undefined): void {
    if (due === undefined) return
    if (!due.isReady) this.#delayed.remove(due)
    else if (due instanceof Start) this.#readyIn(due.pool).remove(due)
    else this.#callbacks.remove(due)
    this.#end()
  }

  #readyIn(pool: string): WaitingTasks<Start> {
    let ready = this.#ready.get(pool)
    if (ready === undefined) this.#ready.set(pool, ready = new WaitingTasks<Start>())
    return ready
  }

  #setTimer(): void {
    const at = this.#delayed.first?.at
    if (at === this.#timer?.at) return
    this.#timer?.cancel()
    this.#timer = undefined
    if (at === undefined || this.#isAborted) return
    const delay = Math.min(Math.max(at - this.#host.now(), 0), MAX_TIMER_MS)
    const cancel = this.#host.clock.schedule(delay, () => {
      this.#timer = undefined
      this.wakeDue()
    })
    this.#timer = { at, cancel }
  }

  #scheduleTurn(): void {
    if (this.#turn !== undefined || this.#handlers === undefined || !this.#hasWork()) return
    this.#turn = setImmediate(() => {
      this.#turn = undefined
      this.#turns++
      this.#turnEnd = systemClock.now() + TURN_MS
      this.#startReady()
      this.#scheduleTurn()
    })
  }

  /** Returns whether something is ready that has a place. */
  #hasWork(): boolean {
    const { places, callbacks } = this.#options as WorkOptions
    if (this.#isAborted) return false
    if (this.#callbacks.size > 0 && this.#callbacksRunning < callbacks) return true
    for (const [pool, { size }] of this.#ready) if (size > 0 && places.freeIn(pool) > 0) return true
    return false
  }

  /** Starts what became ready before this turn, as far as there are places. */
  #startReady(): void {
    if (this.#isAborted) return
    const { callbacks } = this.#options as WorkOptions
    for (const pool of this.#ready.keys()) this.#startIn(pool)
    while (this.#callbacksRunning < callbacks && this.#isNext(this.#callbacks)) {
      this.#callBack(this.#callbacks.take() as CallbackAttempt)
    }
  }

  #startIn(pool: string): void {
    if (this.#isAborted) return
    const { places } = this.#options as WorkOptions
    const ready = this.#readyIn(pool)
    while (this.#isNext(ready) && places.tryAcquire(pool)) this.#run(ready.take() as Start)
  }

  /** Returns whether one became ready before this turn. Removes those whose tasks have expired. */
  #isNext(ready: WaitingTasks<Start | CallbackAttempt>): boolean {
    while (ready.first !== undefined && ready.first.turn < this.#turns) {
      if (this.#host.isLive(ready.first.node)) return true
    }
    return false
  }

  #run({ node, pool }: Start): void {
    const { status } = node
    node.start = undefined
    node.crashed = status === 'processing' ? node.toTask() : undefined
    node.begin(this.#host.now())
    this.#host.onBegin(node, status)
    const run = node.running = new ActiveRun(node, pool)
    this.#running.set(pool, (this.#running.get(pool) ?? 0) + 1)
    const end = (): void => { this.#endOf(run) }
    void (this.#handlers as WorkHandlers).run(run).then(end, end)
  }

  #endOf(run: ActiveRun): void {
    const { node, pool } = run
    this.#running.set(pool, (this.#running.get(pool) ?? 0) - 1)
    // The handler has not ended the task, so the run is lost.
    if (node.running === run) {
      node.running = undefined
      const now = this.#host.now()
      if (!this.#isAborted) this.schedule(node, now + LOST_RUN_MS, now)
    }
    this.#end()
    ;(this.#options as WorkOptions).places.release(pool)
  }

  #callBack({ node }: CallbackAttempt): void {
    const now = this.#host.now()
    node.beginCallback(now + CALLBACK_AGAIN_MS)
    node.callback = undefined
    this.scheduleCallback(node, now)
    this.#callbacksRunning++
    const end = (): void => {
      this.#callbacksRunning--
      if (isFinalStatus(node.status)) this.#release(node)
      this.#end()
      this.#scheduleTurn()
    }
    void (this.#handlers as WorkHandlers).callback(node.toTask()).then(end, end)
  }

  #addRemoval(task: StoredTask): void {
    this.#unremoved.push(task)
    this.#removeFiles()
  }

  /** Removes the files of tasks that wait for it, as far as there are places. */
  #removeFiles(): void {
    while (this.#handlers && this.#removals < REMOVALS) {
      const task = this.#unremoved.pop()
      if (!task) return
      this.#removals++
      void this.#handlers.remove(task).catch(() => false).then((isRemoved) => {
        this.#removals--
        if (!isRemoved) {
          this.#host.clock.schedule(REMOVE_AGAIN_MS, () => { this.#addRemoval(task) })
        }
        this.#removeFiles()
      })
    }
  }

  /** Stops a manual clock, because the task is at work. */
  #hold(node: StoredNode): void {
    node.releaseClock ??= this.#host.clock.hold?.()
  }

  #release(node: StoredNode): void {
    node.releaseClock?.()
    node.releaseClock = undefined
  }

  #end(): void {
    this.#pending--
    this.#ends.resolve()
  }

  async #shutDown(drainMs: number): Promise<void> {
    // Runs what is due while there is time. What is due later never runs.
    // A manual clock stands still meanwhile.
    const end = this.#host.now() + (this.#host.clock.hold === undefined ? drainMs : 0)
    const isDone = (): boolean => !this.#isBusy() && !((this.#delayed.first?.at ?? Infinity) <= end)
    if (this.#handlers) await settles(this.#until(isDone), drainMs)
    this.#isAborted = true
    this.#timer?.cancel()
    if (this.#turn !== undefined) clearImmediate(this.#turn)
    this.#turn = undefined
    const reason = new WorkerClosingError()
    const left = [...this.#host.all()].filter((node) => isLeft(node))
    for (const { running } of left) running?.abort(reason)
    await settles(this.#until(() => this.#runs() === 0), ABORT_GRACE_MS)
    for (const node of left) {
      if (isLeft(node)) await this.#handlers?.abandon(node.toTask())
    }
  }

  /** Resolves when `isDone` returns true after the end of something. */
  async #until(isDone: () => boolean): Promise<void> {
    while (!isDone()) await this.#ends.wait()
  }

  /** Returns whether something runs, or is ready. */
  #isBusy(): boolean {
    return this.#runs() > 0 || this.#callbacks.size > 0
      || [...this.#ready.values()].some(({ size }) => size > 0)
  }

  #runs(): number {
    let runs = this.#callbacksRunning
    for (const count of this.#running.values()) runs += count
    return runs
  }
}

/** Returns whether a task still has a run or a callback to come. */
function isLeft({ status, callbackAt }: StoredNode): boolean {
  return !isFinalStatus(status) || callbackAt !== undefined
}
