import timers from 'node:timers'
import { systemClock, type Clock } from '../../src/runtime/clock.js'
import type { MaybePromise } from '../../src/runtime/maybe-promise.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { retryDelay } from '../../src/queues/backoff.js'
import {
  isHandBack, QueueClosingError, type DeadReason, type EnqueueOptions, type Job,
  type ProcessOptions, type Queue, type RunJob,
} from '../../src/queues/queue.js'
import { RunningAttempt } from '../../src/queues/running-attempt.js'
import { ShortLivedMap } from '../../src/queues/short-lived-map.js'
import { DeadJobReports } from './dead-job-reports.js'
import { heapShare, wholeNumber } from './limits.js'
import { QueuedJob, ReadyList } from './queued-job.js'

// Taken at once: under a test's fake timers work starts all the same, and what starts it is not
// lost when they go.
const { setImmediate, clearImmediate } = timers

/** The longest delay that a timer of Node takes; beyond it a timer fires at once. */
const MAX_TIMER_MS = 2 ** 31 - 1
/** Milliseconds that short jobs may follow each other in one turn of the event loop. */
const TURN_MS = 2
/** Milliseconds that aborted runs have to end before they count as undone. */
const ABORT_GRACE_MS = 250
/** Milliseconds that `close` waits for the `onDead` of jobs at most. */
const ON_DEAD_TIMEOUT_MS = 5000
/** Milliseconds between two ticks of a caller that waits until nothing is held. */
const KEEP_ALIVE_MS = 1000

const NO_OPTIONS: EnqueueOptions = {}

/** What a `MemoryQueue` may hold. */
export interface MemoryQueueOptions {
  /**
   * Jobs held beyond those that may run at once (`concurrency`), whether they wait for their turn,
   * for their delay or for their next attempt. A job once accepted keeps its place until it ends,
   * so a retry is never refused. 0 to 1,000,000. Default 1000.
   */
  readonly maxQueued?: number
  /**
   * Bytes of memory that jobs may take as JSON text, from when they are accepted until they end, so
   * a retry is never refused. A small job that starts at once is not kept as text. One job larger
   * than the limit is accepted while no other is there. Default: an eighth of the heap limit, at
   * most 128 MiB.
   */
  readonly maxQueuedBytes?: number
  /**
   * Time and timers of delays and back-off. Tests pass `testClock()` of `longhaul/testing`.
   * Default: the monotonic clock of the process.
   */
  readonly clock?: Clock
}

/** The names of these. */
export const MEMORY_QUEUE = { maxQueued: 0, maxQueuedBytes: 0, clock: 0 } satisfies Record<keyof MemoryQueueOptions, 0>

/**
 * A queue in the memory of this process, in the order of arrival. Not durable: what is undone when
 * the process ends is lost, and what is undone when the queue closes goes to `onDead` with
 * `closed`.
 *
 * A job starts in a later turn of the event loop than its `enqueue`, so the caller can answer
 * before the work takes the CPU. Jobs are kept as JSON text and bounded by number and bytes. Each
 * attempt gets a job of its own, parsed from that text once its input is read. A small job of one
 * attempt that starts at once is passed to `run` as it is.
 */
export class MemoryQueue implements Queue {
  readonly durable = false
  readonly #maxQueued: number
  readonly #maxBytes: number
  readonly #clock: Clock
  /** Bytes of the jobs that are kept as text. */
  #bytes = 0
  /** Everything accepted that has not ended, by id. */
  readonly #jobs = new ShortLivedMap<QueuedJob>()
  readonly #ready = new ReadyList()
  readonly #deadReports = new DeadJobReports()
  #run: RunJob | undefined
  #concurrency = 0
  #running = 0
  #turn: NodeJS.Immediate | undefined
  /** Turns begun; a job starts in a later one than it was enqueued in. */
  #turns = 0
  /** Until when a turn may go on, on `performance.now()`. */
  #turnEnd = 0
  #closing: Promise<void> | undefined
  /** When draining ends, on the clock. */
  #deadline = Infinity
  #aborted = false
  /** Resolve the promises of those who wait until nothing is held. */
  #onIdle: (() => void)[] = []

  /** Throws a TypeError for a limit that makes no sense. */
  constructor(options: MemoryQueueOptions = {}) {
    checkNames('MemoryQueue', options, MEMORY_QUEUE)
    this.#maxQueued = wholeNumber('maxQueued', options.maxQueued ?? 1000, 0, 1_000_000)
    this.#maxBytes = wholeNumber('maxQueuedBytes', options.maxQueuedBytes ?? heapShare(8, 128), 0, Number.MAX_SAFE_INTEGER)
    this.#clock = options.clock ?? systemClock
  }

  /**
   * Jobs that run now, jobs that wait for whatever reason, and the bytes that `maxQueuedBytes`
   * bounds.
   */
  usage(): { running: number, waiting: number, bytes: number } {
    return { running: this.#running, waiting: this.#jobs.size - this.#running, bytes: this.#bytes }
  }

  enqueue(job: Job, options: EnqueueOptions = NO_OPTIONS): MaybePromise<'accepted' | 'full'> {
    if (this.#closing) return 'full'
    if (this.#jobs.has(job.id)) return 'accepted'
    if (this.#jobs.size >= this.#maxQueued + this.#concurrency) return 'full'
    const delay = options.delayMs ?? 0
    if (!(delay >= 0 && Number.isFinite(delay))) return Promise.reject(new TypeError(`delayMs must be 0 or more milliseconds, not ${String(delay)}`))
    let item
    try {
      item = new QueuedJob(job, options, delay === 0 && this.#running + this.#ready.size < this.#concurrency)
    } catch (error) {
      return Promise.reject(error instanceof Error ? error : new TypeError('A job must be JSON', { cause: error }))
    }
    if (item.bytes > 0 && this.#bytes > 0 && this.#bytes + item.bytes > this.#maxBytes) return 'full'
    this.#bytes += item.bytes
    this.#jobs.set(item.id, item)
    this.#schedule(item, delay)
    return 'accepted'
  }

  /**
   * Throws when called twice, and a TypeError for a concurrency that is no whole number from 1.
   * After `close` it does nothing.
   */
  process(run: RunJob, options: ProcessOptions): void {
    if (this.#run) throw new Error('process() was called already: one queue has one processor in a process')
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
   * Resolves when no job waits or runs, delayed jobs and retries included. It never rejects, and
   * holds the process until then. In a Worker, `ctx.waitUntil(queue.idle())` keeps work alive after
   * the answer.
   */
  async idle(): Promise<void> {
    // A Worker cancels a request that waits for nothing but what other requests do.
    const alive = setInterval(() => undefined, KEEP_ALIVE_MS)
    await this.#whenIdle()
    clearInterval(alive)
  }

  /**
   * What waits is run too while there is time; what can't start in time ends at once. An aborted
   * run has a quarter of a second to end. Where `process` was never called, waiting jobs are
   * dropped.
   */
  close(options: { readonly drainMs?: number } = {}): Promise<void> {
    checkNames('MemoryQueue: close', options, { drainMs: 0 })
    this.#closing ??= this.#shutDown(Math.min(Math.max(options.drainMs ?? 10_000, 0), MAX_TIMER_MS))
    return this.#closing
  }

  #schedule(item: QueuedJob, delay: number): void {
    if (delay <= 0) {
      item.state = 'ready'
      item.turn = this.#turns
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
    if (this.#turn !== undefined || this.#running >= this.#concurrency || this.#ready.first === undefined) return
    this.#turn = setImmediate(() => {
      this.#turn = undefined
      this.#turns++
      this.#turnEnd = performance.now() + TURN_MS
      this.#startDue()
    })
  }

  /** Starts what was enqueued before this turn. */
  #startDue(): void {
    for (let item = this.#ready.first; item !== undefined && item.turn < this.#turns && this.#running < this.#concurrency; item = this.#ready.first) {
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
      // `run` may be anything at run time: what it returns, throws or never settles is its own
      // affair.
      Promise.resolve(run(item.job, item.running)).then(() => this.#remove(item), (error) => this.#handleFailure(item, error))
    } catch (error) {
      this.#handleFailure(item, error)
    }
  }

  #handleFailure(item: QueuedJob, error: unknown): void {
    // Without a running attempt it was reported already, and this one comes too late.
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
      this.#bytes -= item.bytes
      item.keepAsText()
      this.#bytes += item.bytes
      this.#schedule(item, delay)
      this.#scheduleTurn()
    }
  }

  /**
   * Reports the job. One that ran keeps its place meanwhile, so that a slow `onDead` holds back the
   * next.
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
    this.#bytes -= item.bytes
    item.end()
    this.#jobs.delete(item.id)
    if (this.#jobs.size === 0) for (const resolve of this.#onIdle.splice(0)) resolve()
    // One round of short jobs in each turn would be less than a server takes in meanwhile.
    if (performance.now() < this.#turnEnd) this.#startDue()
    this.#scheduleTurn()
  }

  async #shutDown(drainMs: number): Promise<void> {
    // A manual clock stands still while the queue drains, so nothing delayed becomes due.
    this.#deadline = this.#clock.now() + (this.#clock.hold === undefined ? drainMs : 0)
    for (const item of this.#jobs.values()) {
      if (this.#run === undefined) this.#remove(item)
      else if (item.state === 'delayed' && item.dueAt > this.#deadline) this.#reportDead(item, 'closed')
    }
    await within(this.#whenIdle(), drainMs)
    this.#aborted = true
    const reason = new QueueClosingError()
    for (const item of this.#jobs.values()) {
      if (item.state === 'running') item.running?.abort(reason)
      else this.#reportDead(item, 'closed')
    }
    await within(this.#whenIdle(), ABORT_GRACE_MS)
    for (const item of this.#jobs.values()) if (item.running !== undefined) this.#reportDead(item, 'closed')
    await within(this.#deadReports.settled(), ON_DEAD_TIMEOUT_MS)
    if (this.#turn !== undefined) clearImmediate(this.#turn)
  }

  /** A promise of its own for each caller: a Worker may not share one between requests. */
  #whenIdle(): Promise<void> {
    if (this.#jobs.size === 0) return Promise.resolve()
    return new Promise((resolve) => { this.#onIdle.push(resolve) })
  }
}

/**
 * Waits for `done`, at most `ms`. Its timer holds the process: without it a drain could be cut
 * short.
 */
async function within(done: Promise<unknown>, ms: number): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  await Promise.race([done, new Promise((resolve) => { timer = setTimeout(resolve, ms) })])
  clearTimeout(timer)
}
