import timers from 'node:timers'
import { systemClock, type Clock } from '../../src/runtime/clock.js'
import type { MaybePromise } from '../../src/runtime/maybe-promise.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { retryDelay } from '../../src/queues/backoff.js'
import {
  isHandBack, QueueClosingError, type DeadReason, type EnqueueOptions, type EnqueueOutcome,
  type Job, type ProcessOptions, type Queue, type QueueCounts, type RunJob,
} from '../../src/queues/queue.js'
import { DEFAULT_POOL, QueuePools } from '../../src/queues/queue-pools.js'
import { RunningAttempt } from '../../src/queues/running-attempt.js'
import { ShortLivedMap } from './short-lived-map.js'
import { atMost, DeadJobReports } from './dead-job-reports.js'
import { IdleWaiters, keepAlive } from './idle-waiters.js'
import { heapShare } from '../../src/runtime/heap-share.js'
import { wholeNumber } from './limits.js'
import { MEMORY_QUEUE, type MemoryQueueOptions } from './queue-options.js'
import { QueuedJob } from './queued-job.js'
import { ReadyJobs } from './ready-jobs.js'

// Captured at import, so that fake timers of a test do not stop the queue.
const { setImmediate, clearImmediate } = timers

/** Maximum delay of a Node timer in milliseconds. A longer timer fires at once. */
const MAX_TIMER_MS = 2 ** 31 - 1
/** Milliseconds in which further jobs may start in the same turn of the event loop. */
const TURN_MS = 2
/** Milliseconds that aborted runs have to end. */
const ABORT_GRACE_MS = 250
/** Maximum time in milliseconds that `close` waits for `onDead`. */
const ON_DEAD_TIMEOUT_MS = 5000

/**
 * Queue in the memory of this process. Not durable: unfinished jobs are lost
 * with the process. `close` reports unfinished jobs to `onDead` with `closed`. Each pool has its own
 * `maxQueued`. All pools share `maxQueuedBytes`.
 *
 * A job starts in a later turn of the event loop than its `enqueue`, so that the caller can respond
 * first. Jobs are kept as JSON text, limited in number and bytes. Each attempt gets its own copy of
 * the input, parsed on first access. A small job with one attempt that starts at once is passed to
 * `run` unchanged.
 *
 * @example
 * const queue = new MemoryQueue({ maxQueued: 100 })
 */
export class MemoryQueue implements Queue {
  readonly durable = false
  readonly #maxQueued: number
  readonly #maxBytes: number
  readonly #clock: Clock
  /** Size in bytes of the jobs that are kept as text, in all pools. */
  #kept = { bytes: 0 }
  readonly #pools: QueuePools<MemoryQueue>
  /** Accepted jobs that have not ended, by id. */
  readonly #jobs = new ShortLivedMap<QueuedJob>()
  readonly #ready = new ReadyJobs()
  readonly #deadReports = new DeadJobReports()
  #run: RunJob | undefined
  #concurrency = 0
  #running = 0
  #turn: NodeJS.Immediate | undefined
  /** Number of turns begun. A job starts in a later turn than its `enqueue`. */
  #turns = 0
  /** End of the current turn, by `performance.now()`. */
  #turnEnd = 0
  #closing: Promise<void> | undefined
  /** End of draining, by `performance.now()`. */
  #deadline = Infinity
  #aborted = false
  readonly #idle = new IdleWaiters()

  /** @throws {TypeError} An option is unknown or out of range. */
  constructor(options: MemoryQueueOptions = {}) {
    checkNames('MemoryQueue', options, MEMORY_QUEUE)
    this.#maxQueued = wholeNumber('maxQueued', options.maxQueued ?? 1000, 0, 1_000_000)
    const maxBytes = options.maxQueuedBytes ?? heapShare(8, 128)
    this.#maxBytes = wholeNumber('maxQueuedBytes', maxBytes, 0, Number.MAX_SAFE_INTEGER)
    this.#clock = options.clock ?? systemClock
    this.#pools = new QueuePools(() => {
      const queue = new MemoryQueue(options)
      queue.#kept = this.#kept
      return queue
    })
  }

  /**
   * Returns the numbers of running and waiting jobs, and the bytes that `maxQueuedBytes` limits. The
   * bytes are those of all pools.
   */
  usage(): { running: number, waiting: number, bytes: number } {
    const { bytes } = this.#kept
    return { running: this.#running, waiting: this.#jobs.size - this.#running, bytes }
  }

  async counts(): Promise<QueueCounts> {
    const running = this.#running
    const { size: waiting, oldestReadyAt } = this.#ready
    return {
      running, waiting, delayed: this.#jobs.size - running - waiting,
      ...oldestReadyAt !== undefined && { oldestWaitingMs: this.#clock.now() - oldestReadyAt },
    }
  }

  /** Returns the queue of a pool. */
  pool(name: string): MemoryQueue {
    return name === DEFAULT_POOL ? this : this.#pools.get(name)
  }

  enqueue(job: Job, options: EnqueueOptions = {}): MaybePromise<EnqueueOutcome> {
    if (this.#closing) return 'closing'
    if (this.#jobs.has(job.id)) return 'accepted'
    if (this.#jobs.size >= this.#maxQueued + this.#concurrency) return 'full'
    const delay = options.delayMs ?? 0
    if (!(delay >= 0 && Number.isFinite(delay))) {
      return Promise.reject(
        new TypeError(`delayMs must be 0 or more milliseconds, not ${String(delay)}`),
      )
    }
    let item
    try {
      const startsAtOnce = delay === 0 && this.#running + this.#ready.size < this.#concurrency
      item = new QueuedJob(job, options, startsAtOnce)
    } catch (error) {
      return Promise.reject(
        error instanceof Error ? error : new TypeError('A job must be JSON', { cause: error }),
      )
    }
    const kept = this.#kept
    if (item.bytes > 0 && kept.bytes > 0 && kept.bytes + item.bytes > this.#maxBytes) {
      return 'full'
    }
    kept.bytes += item.bytes
    this.#jobs.set(item.id, item)
    this.#schedule(item, delay)
    return 'accepted'
  }

  /**
   * Starts to run jobs. Does nothing after `close`.
   *
   * @throws {Error} `process` was called before.
   * @throws {TypeError} `concurrency` is not a whole number from 1.
   */
  process(run: RunJob, options: ProcessOptions): void {
    if (this.#run) throw new Error('process() was called already: a queue has one processor')
    this.#concurrency = wholeNumber('concurrency', options.concurrency, 1, 1_000_000)
    this.#deadReports.listen(options.onDead)
    this.#run = run
    this.#scheduleTurn()
  }

  async remove(id: string): Promise<boolean> {
    const item = this.#jobs.get(id)
    if (item === undefined || item.state === 'running') return false
    this.#remove(item)
    return true
  }

  async has(id: string): Promise<boolean> {
    return this.#jobs.has(id)
  }

  /**
   * Resolves when no job of any pool waits or runs, delayed jobs and retries included. Never rejects. Keeps the
   * process alive until then. In a Worker, `ctx.waitUntil(queue.idle())` lets work continue after
   * the response.
   */
  idle(): Promise<void> {
    return keepAlive(this.#allIdle())
  }

  /**
   * Runs waiting jobs while there is time. A job that cannot start in time ends at once. An aborted
   * run has 250 ms to end. Drops waiting jobs if `process` was never called.
   */
  close(options: { readonly drainMs?: number } = {}): Promise<void> {
    checkNames('MemoryQueue: close', options, { drainMs: 0 })
    const drainMs = Math.min(Math.max(options.drainMs ?? 10_000, 0), MAX_TIMER_MS)
    this.#closing ??= Promise.all([this.#shutDown(drainMs), this.#pools.close({ drainMs })])
      .then(() => undefined)
    return this.#closing
  }

  #schedule(item: QueuedJob, delay: number): void {
    if (delay <= 0) {
      item.state = 'ready'
      item.turn = this.#turns
      item.readyAt = this.#clock.now()
      if (this.#run !== undefined) item.releaseClock ??= this.#clock.hold?.()
      this.#ready.push(item)
      this.#scheduleTurn()
      return
    }
    item.state = 'delayed'
    item.dueAt = this.#clock.now() + delay
    const part = Math.min(delay, MAX_TIMER_MS)
    item.cancelTimer = this.#clock.schedule(part, () => this.#schedule(item, delay - part))
    item.noteIdle()
  }

  #scheduleTurn(): void {
    if (
      this.#turn !== undefined ||
      this.#running >= this.#concurrency ||
      this.#ready.first === undefined
    ) {
      return
    }
    this.#turn = setImmediate(() => {
      this.#turn = undefined
      this.#turns++
      this.#turnEnd = performance.now() + TURN_MS
      this.#startDue()
    })
  }

  /** Starts the jobs that were enqueued before this turn. */
  #startDue(): void {
    while (this.#running < this.#concurrency) {
      const item = this.#ready.first
      if (item === undefined || item.turn >= this.#turns) return
      this.#start(item)
    }
  }

  #start(item: QueuedJob): void {
    const run = this.#run
    if (run === undefined) return
    this.#ready.remove(item)
    this.#running++
    item.releaseClock ??= this.#clock.hold?.()
    item.state = 'running'
    item.attempt++
    item.running = new RunningAttempt(item.attempt, item.attempt >= item.attempts)
    try {
      // `run` is the caller's code: it may throw, or return anything.
      Promise.resolve(run(item.job, item.running)).then(
        () => this.#remove(item),
        (error) => this.#handleFailure(item, error),
      )
    } catch (error) {
      this.#handleFailure(item, error)
    }
  }

  #handleFailure(item: QueuedJob, error: unknown): void {
    // The job was reported dead before this late failure.
    if (item.running === undefined) return
    const handBackMs = isHandBack(error) ? error.delayMs : undefined
    const isLast = handBackMs === undefined && item.attempt >= item.attempts
    const delay = handBackMs ?? (isLast ? 0 : retryDelay(item.backoff, item.attempt))
    const tooLate = !isLast && performance.now() + delay > this.#deadline
    if (this.#aborted || tooLate) this.#reportDead(item, 'closed')
    else if (isLast) this.#reportDead(item, 'attempts')
    else {
      this.#running--
      item.running = undefined
      if (handBackMs !== undefined) item.attempt--
      // A job that started at once was not kept as text until now.
      this.#kept.bytes -= item.bytes
      item.keepAsText()
      this.#kept.bytes += item.bytes
      this.#schedule(item, delay)
      this.#scheduleTurn()
    }
  }

  /**
   * Reports a dead job to `onDead`. A job that ran keeps its place until then, so that a slow
   * `onDead` delays the next job.
   */
  #reportDead(item: QueuedJob, reason: DeadReason): void {
    const ran = item.state === 'running'
    const { job } = item
    if (!ran) this.#remove(item)
    this.#deadReports.report(job, reason, () => {
      if (ran) this.#remove(item)
    })
    item.running = undefined
  }

  #remove(item: QueuedJob): void {
    if (item.state === 'ended') return
    if (item.state === 'running') this.#running--
    else if (item.state === 'ready') this.#ready.remove(item)
    item.cancelTimer?.()
    this.#kept.bytes -= item.bytes
    item.end()
    this.#jobs.delete(item.id)
    if (this.#jobs.size === 0) this.#idle.resolve()
    // Starts further short jobs in the same turn. One batch for each turn would be slower than the
    // arrivals.
    if (performance.now() < this.#turnEnd) this.#startDue()
    this.#scheduleTurn()
  }

  async #shutDown(drainMs: number): Promise<void> {
    // A manual clock stands still while the queue drains, so nothing delayed becomes due.
    this.#deadline = this.#clock.now() + (this.#clock.hold === undefined ? drainMs : 0)
    for (const item of this.#jobs.values()) {
      if (this.#run === undefined) this.#remove(item)
      else if (item.state === 'delayed' && item.dueAt > this.#deadline) {
        this.#reportDead(item, 'closed')
      }
    }
    await atMost(drainMs, this.#whenIdle())
    this.#aborted = true
    const reason = new QueueClosingError()
    for (const item of this.#jobs.values()) {
      if (item.state === 'running') item.running?.abort(reason)
      else this.#reportDead(item, 'closed')
    }
    await atMost(ABORT_GRACE_MS, this.#whenIdle())
    const left = [...this.#jobs.values()].filter((item) => item.running !== undefined)
    for (const item of left) this.#reportDead(item, 'closed')
    await this.#deadReports.settled(ON_DEAD_TIMEOUT_MS)
    if (this.#turn !== undefined) clearImmediate(this.#turn)
  }

  #whenIdle(): Promise<void> {
    return this.#jobs.size === 0 ? Promise.resolve() : this.#idle.wait()
  }

  async #allIdle(): Promise<void> {
    const queues = () => [this, ...this.#pools.all]
    while (queues().some((queue) => queue.#jobs.size > 0)) {
      for (const queue of queues()) await queue.#whenIdle()
    }
  }
}
