import type { Job as BullJob, Queue as BullQueue, Worker } from 'bullmq'
import {
  isHandBack, QueueClosingError, type EnqueueOptions, type EnqueueOutcome, type Job,
  type ProcessOptions, type Queue, type QueueCounts, type RunJob,
} from '../../src/queues/queue.js'
import { checkPriority } from '../../src/queues/priority.js'
import { DEFAULT_POOL, QueuePools } from '../../src/queues/queue-pools.js'
import { RunningAttempt } from '../../src/queues/running-attempt.js'
import { checkNames } from '../../src/runtime/option-names.js'
import type { Backend } from './backend.js'
import { DeadJobs } from './dead-jobs.js'
import { settles, within } from './deadline.js'
import { checkOptions, delayOf, toBackoff, toJob, toJobData, toJobId, type JobData } from './job.js'
import { loadBullMQ } from './load-bullmq.js'
import { Locks } from './locks.js'
import { isDelayed } from './server-time.js'

/** Settings of a queue on BullMQ that do not depend on its database. */
export interface QueueSettings {
  /** Maximum time of a call, in milliseconds. */
  readonly timeoutMs: number
  /** Time without a sign of life after which a job is taken from its worker. Default 30,000 ms. */
  readonly lockDurationMs?: number
  /** Interval of the checks for silent workers. Default 30,000 ms. */
  readonly stalledIntervalMs?: number
  /** Maximum number of times that a job may lose its worker. Default 1. */
  readonly maxStalledCount?: number
  /** Receives errors of the connection. */
  readonly onError?: (error: Error) => void
}

/** Time for aborted runs to return their jobs, in milliseconds. */
const GRACE_MS = 2000

/** Interval at which a worker checks that its connection still receives, in milliseconds. */
const BEAT_MS = 2500

/** Time that BullMQ waits after an error of its connection. Closing waits as long. */
const ENGINE_RETRY_MS = 1000

/** Tolerance for a delayed job that comes early, in milliseconds. Timers are not more exact. */
const EARLY_MS = 100

/** The queue contract on a queue and a worker of BullMQ, with either database. */
export class BullQueueAdapter implements Queue {
  readonly durable = true
  private readonly onError: (error: Error) => void
  private readonly running = new Set<RunningAttempt>()
  private worker: Worker<JobData> | undefined
  private locks: Locks | undefined
  private heart: ReturnType<typeof setInterval> | undefined
  private timer: ReturnType<typeof setInterval> | undefined
  private dead: DeadJobs | undefined
  private closing: Promise<void> | undefined
  private onIdle: (() => void) | undefined
  private readonly pools: QueuePools<BullQueueAdapter>

  /** @param openPool - opens the queue of BullMQ for the pool with this name */
  constructor(
    private readonly backend: Backend, private readonly settings: QueueSettings,
    openPool: (name: string) => Backend,
  ) {
    this.pools = new QueuePools((name) => (
      new BullQueueAdapter(openPool(name), settings, (part) => openPool(`${name}.${part}`))
    ))
    this.onError = settings.onError ?? (() => undefined)
    // An `error` event without a listener would end the process.
    backend.queue.on('error', this.onError)
  }

  async enqueue(
    job: Job, { delayMs = 0, attempts = 1, backoff, priority = 0 }: EnqueueOptions = {},
  ): Promise<EnqueueOutcome> {
    checkOptions(attempts, delayMs, backoff)
    checkPriority(priority)
    if (this.closing) return 'closing'
    // While the database is down, an add may stay pending forever, whatever its options are.
    await this.inTime('enqueue', this.backend.add(job.name, toJobData(job), {
      jobId: toJobId(job.id),
      attempts,
      ...(delayMs > 0 ? { delay: delayMs } : {}),
      ...(priority > 0 ? { priority } : {}),
      ...toBackoff(backoff),
      // A completed job is removed, so that its id is free again. BullMQ keeps a dead one until it
      // is reported.
      removeOnComplete: true,
    }))
    return 'accepted'
  }

  process(run: RunJob, { concurrency, onDead }: ProcessOptions): void {
    if (this.worker) {
      throw new Error('process() was called already: one queue has one processor in a process')
    }
    const {
      lockDurationMs = 30_000, stalledIntervalMs = 30_000, maxStalledCount = 1,
    } = this.settings
    const worker = this.backend.createWorker((job, token) => this.run(run, job, token), {
      concurrency, maxStalledCount,
      lockDuration: lockDurationMs, stalledInterval: stalledIntervalMs,
      skipLockRenewal: true, runRetryDelay: ENGINE_RETRY_MS,
      settings: { backoffStrategy: (made, _type, _error, job) => delayOf(made, job) },
    })
    worker.on('error', this.onError)
    const dead = this.dead = new DeadJobs(this.backend, onDead, this.onError)
    worker.on('failed', (job) => { if (job?.finishedOn !== undefined) void dead.report(job) })
    // Only the process of the failed attempt receives that event, so a sweep finds the others.
    const sweep = () => { void dead.sweep() }
    worker.on('ready', sweep)
    this.timer = setInterval(sweep, stalledIntervalMs)
    this.timer.unref()
    this.locks = new Locks(lockDurationMs, this.onError)
    this.locks.start(worker)
    this.heart = setInterval(() => {
      this.backend.checkWorker(worker).catch(this.onError)
    }, BEAT_MS)
    this.heart.unref()
    this.worker = worker
  }

  remove(id: string): Promise<boolean> {
    return this.inTime('remove', this.backend.remove(toJobId(id)))
  }

  has(id: string): Promise<boolean> {
    // A dead job counts until it is reported. A completed job is being removed.
    const found = this.backend.queue.getJobState(toJobId(id))
      .then((state) => state !== 'unknown' && state !== 'completed')
    return this.inTime('has', found)
  }

  close(options: { readonly drainMs?: number } = {}): Promise<void> {
    checkNames('BullMQQueue: close', options, { drainMs: 0 })
    const { drainMs = 10_000 } = options
    this.closing ??= Promise.all([this.shutDown(drainMs), this.pools.close({ drainMs })])
      .then(() => undefined)
    return this.closing
  }

  counts(): Promise<QueueCounts> {
    return this.inTime('counts', this.backend.counts())
  }

  /** Returns the queue of a pool. BullMQ's name of it is that of this queue, a dot and the pool. */
  pool(name: string): Queue {
    return name === DEFAULT_POOL ? this : this.pools.get(name)
  }

  now(): Promise<number> {
    return this.inTime('now', this.backend.now())
  }

  /** BullMQ's own queue, for a board. */
  get bull(): BullQueue {
    return this.backend.queue as BullQueue
  }

  private async run(run: RunJob, job: BullJob<JobData>, token: string | undefined): Promise<void> {
    // A worker whose clock is ahead takes a delayed job too early. It delays the job again by its
    // own clock, and then takes it when it is due.
    const early = isDelayed(job) ? await this.backend.untilDue(job).catch(() => 0) : 0
    if (this.closing) return handBack(job, token)
    if (early > EARLY_MS) return putOff(job, token, early)
    const made = job.attemptsMade + 1
    const attempt = new RunningAttempt(made, made >= (job.opts.attempts ?? 1))
    this.running.add(attempt)
    this.locks?.add(job, token)
    try {
      await run(toJob(job, this.backend.dataOf(job)), attempt)
    } catch (error) {
      if (attempt.reason !== undefined) return await handBack(job, token)
      if (isHandBack(error)) {
        if (error.delayMs === 0) return await handBack(job, token)
        return await putOff(job, token, error.delayMs)
      }
      throw error instanceof Error ? error : new Error('The run failed')
    } finally {
      this.running.delete(attempt)
      this.locks?.remove(job, token)
      if (this.running.size === 0) this.onIdle?.()
    }
  }

  /** Rejects if `work` takes too long, and then checks for a half-open connection. */
  private inTime<T>(what: string, work: Promise<T>): Promise<T> {
    return within(this.settings.timeoutMs, what, work, () => { this.backend.onLate() })
  }

  private async shutDown(drainMs: number): Promise<void> {
    clearInterval(this.timer)
    clearInterval(this.heart)
    this.backend.stopChecks()
    const { worker } = this
    const { timeoutMs } = this.settings
    let force = false
    if (worker) {
      // Pauses before it closes: a `close` that waits for a run which ignores its signal cannot be
      // interrupted.
      await settles(worker.pause(true), timeoutMs)
      const drained = new Promise<void>((resolve) => {
        this.onIdle = resolve
        if (this.running.size === 0) resolve()
      })
      const isDrained = await settles(drained, drainMs)
      if (!isDrained) for (const attempt of this.running) attempt.abort(new QueueClosingError())
      force = !isDrained && !await settles(drained, GRACE_MS)
    }
    // While the database is away, BullMQ waits for it and keeps connections and timers. One
    // deadline for all of them ends that by force.
    const deadline = performance.now() + timeoutMs
    const inTime = (work: Promise<unknown>): Promise<boolean> =>
      settles(work, Math.max(deadline - performance.now(), 100))
    if (worker && !await inTime(worker.close(force))) await inTime(worker.getBackend().close(true))
    this.locks?.stop()
    if (this.dead?.active) await inTime(this.dead.active)
    if (!await inTime(this.backend.queue.close())) this.backend.disconnect()
  }
}

/** @throws {TypeError} The time limit of a call is out of range. */
export function checkTimeout(name: string, timeoutMs: number): void {
  if (timeoutMs >= 10 && timeoutMs <= 60_000) return
  throw new TypeError(`${name}: timeoutMs must be from 10 to 60000`)
}

/** Returns a job to the queue unchanged, because a shutdown is no failed attempt. */
async function handBack(job: BullJob<JobData>, token: string | undefined): Promise<never> {
  await job.moveToWait(token)
  const { WaitingError } = loadBullMQ()
  throw new WaitingError()
}

/** Delays a job, with its number of attempts unchanged. */
async function putOff(
  job: BullJob<JobData>, token: string | undefined, delayMs: number,
): Promise<never> {
  await job.moveToDelayed(Date.now() + delayMs, token)
  const { DelayedError } = loadBullMQ()
  throw new DelayedError()
}
