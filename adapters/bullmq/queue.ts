import {
  DelayedError, Queue as BullQueue, WaitingError, Worker, type ConnectionOptions,
  type Job as BullJob, type JobsOptions,
} from 'bullmq'
import {
  isHandBack, QueueClosingError, type EnqueueOptions, type Job, type ProcessOptions, type Queue,
  type RunJob,
} from '../../src/queues/queue.js'
import { RunningAttempt } from '../../src/queues/running-attempt.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { checkNamespace } from '../../src/stores/namespace.js'
import type { Connection, Silence } from '../redis/silence.js'
import { checkPipelining, disconnect, silenceOf } from './connection.js'
import { DeadJobs } from './dead-jobs.js'
import { settles, within } from './deadline.js'
import { checkOptions, delayOf, toBackoff, toJob, toJobId, type JobData } from './job.js'
import { Locks } from './locks.js'
import { isDelayed, serverTime, untilDue } from './server-time.js'

/** Options of `BullMQQueue`. */
export interface BullMQQueueOptions {
  /**
   * Options of a connection, or an ioredis client with `maxRetriesPerRequest: null`, which the
   * caller closes. Without `enableAutoPipelining`, which costs a third of the throughput.
   */
  readonly connection: ConnectionOptions
  /**
   * Namespace of the store: 1 to 64 of `A-Z a-z 0-9 . _ -`. BullMQ's key prefix is the namespace in
   * braces, so that all keys of a queue are on one node of a Redis Cluster.
   * @default 'longhaul'
   */
  readonly namespace?: string
  /**
   * BullMQ's name of the queue, unique in the namespace.
   * @default 'tasks'
   */
  readonly name?: string
  /**
   * Maximum time of an enqueue or a removal, in milliseconds.
   * @default 1500
   */
  readonly timeoutMs?: number
  /**
   * Time without a sign of life after which a job is taken from its worker, in milliseconds.
   * @default 30_000
   */
  readonly lockDurationMs?: number
  /**
   * Interval of the checks for silent workers, in milliseconds.
   * @default 30_000
   */
  readonly stalledIntervalMs?: number
  /**
   * Maximum number of times that a job may lose its worker. Then the job is dead.
   * @default 1
   */
  readonly maxStalledCount?: number
  /** Receives errors of the connection. Default: none, because the calls themselves fail. */
  readonly onError?: (error: Error) => void
}

const KNOWN = {
  connection: 0, namespace: 0, name: 0, timeoutMs: 0, lockDurationMs: 0, stalledIntervalMs: 0,
  maxStalledCount: 0, onError: 0,
} satisfies Record<keyof BullMQQueueOptions, 0>

/** Time for aborted runs to return their jobs, in milliseconds. */
const GRACE_MS = 2000

/** Interval at which a worker checks that its connection still receives, in milliseconds. */
const BEAT_MS = 2500

/** Time that BullMQ waits after an error of its connection. Closing waits as long. */
const ENGINE_RETRY_MS = 1000

/** Tolerance for a delayed job that comes early, in milliseconds. Timers are not more exact. */
const EARLY_MS = 100

/**
 * A queue on BullMQ 6, which does retries, back-off, delays, stalled jobs and concurrency. Each
 * task is a job with the name of its definition and the id of the task, so a board shows both.
 *
 * @example
 * const queue = new BullMQQueue({ connection: { host: '127.0.0.1', port: 6379 } })
 * const tasks = createTasks({ ...redis({ client }), queue, definitions: [report] })
 */
export class BullMQQueue implements Queue {
  readonly durable = true
  private readonly queue: BullQueue<JobData>
  private readonly options: BullMQQueueOptions
  private readonly name: string
  private readonly prefix: string
  private readonly timeoutMs: number
  private readonly onError: (error: Error) => void
  private readonly running = new Set<RunningAttempt>()
  private worker: Worker<JobData> | undefined
  private locks: Locks | undefined
  private heart: ReturnType<typeof setInterval> | undefined
  private readonly silence: Silence
  private workerSilence: Silence | undefined
  private timer: ReturnType<typeof setInterval> | undefined
  private dead: DeadJobs | undefined
  private closing: Promise<void> | undefined
  private onIdle: (() => void) | undefined

  /** @throws {TypeError} An option is unknown or out of range. */
  constructor(options: BullMQQueueOptions) {
    checkNames('BullMQQueue', options, KNOWN)
    const { connection, namespace = 'longhaul', name = 'tasks', timeoutMs = 1500 } = options
    checkNamespace('BullMQQueue', namespace)
    if (!(timeoutMs >= 10 && timeoutMs <= 60_000)) {
      throw new TypeError('BullMQQueue: timeoutMs must be from 10 to 60000')
    }
    checkPipelining(connection)
    this.options = options
    this.name = name
    this.prefix = `{${namespace}}`
    this.timeoutMs = timeoutMs
    this.onError = options.onError ?? (() => undefined)
    this.queue = new BullQueue<JobData>(name, { connection, prefix: this.prefix })
    this.silence = silenceOf(this.queue, timeoutMs)
    // An `error` event without a listener would end the process.
    this.queue.on('error', this.onError)
  }

  async enqueue(job: Job, { delayMs = 0, attempts = 1, backoff }: EnqueueOptions = {}): Promise<'accepted' | 'full'> {
    checkOptions(attempts, delayMs, backoff)
    if (this.closing) return 'full'
    const { taskId, input, context, record, store } = job
    const data: JobData = { taskId, input, context, record, store }
    // While Redis is down, an add may stay pending forever, whatever its options are.
    await this.inTime('enqueue', this.add(job.name, data, {
      jobId: toJobId(job.id),
      attempts,
      ...(delayMs > 0 ? { delay: delayMs } : {}),
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
    const { connection, lockDurationMs = 30_000, stalledIntervalMs = 30_000, maxStalledCount = 1 } = this.options
    const worker = new Worker<JobData>(this.name, (job, token) => this.run(run, job, token), {
      connection, prefix: this.prefix, concurrency, maxStalledCount,
      lockDuration: lockDurationMs, stalledInterval: stalledIntervalMs,
      skipLockRenewal: true, runRetryDelay: ENGINE_RETRY_MS,
      settings: { backoffStrategy: (made, _type, _error, job) => delayOf(made, job) },
    })
    worker.on('error', this.onError)
    const dead = this.dead = new DeadJobs(this.queue, onDead, this.onError)
    worker.on('failed', (job) => { if (job?.finishedOn !== undefined) void dead.report(job) })
    // Only the process of the failed attempt receives that event, so a sweep finds the others.
    const sweep = () => { void dead.sweep() }
    worker.on('ready', sweep)
    this.timer = setInterval(sweep, stalledIntervalMs)
    this.timer.unref()
    this.locks = new Locks(lockDurationMs, this.onError)
    this.locks.start(worker)
    // An idle worker waits for no answer, so it would not notice a lost connection.
    const silence = this.workerSilence = silenceOf(worker, this.timeoutMs)
    this.heart = setInterval(() => { this.checkWorker(worker, silence).catch(this.onError) }, BEAT_MS)
    this.heart.unref()
    this.worker = worker
  }

  remove(id: string): Promise<boolean> {
    return this.inTime('remove', this.take(toJobId(id)))
  }

  has(id: string): Promise<boolean> {
    // A dead job counts until it is reported. A completed job is being removed.
    const found = this.queue.getJobState(toJobId(id))
      .then((state) => state !== 'unknown' && state !== 'completed')
    return this.inTime('has', found)
  }

  close(options: { readonly drainMs?: number } = {}): Promise<void> {
    checkNames('BullMQQueue: close', options, { drainMs: 0 })
    const { drainMs = 10_000 } = options
    this.closing ??= this.shutDown(drainMs)
    return this.closing
  }

  /** BullMQ's own queue, for a board. */
  get bull(): BullQueue {
    return this.queue as BullQueue
  }

  private async run(run: RunJob, job: BullJob<JobData>, token: string | undefined): Promise<void> {
    // A worker whose clock is ahead takes a delayed job too early. It delays the job again by its
    // own clock, and then takes it when it is due.
    const early = isDelayed(job) ? await untilDue(this.queue, job).catch(() => 0) : 0
    if (this.closing) return handBack(job, token)
    if (early > EARLY_MS) return putOff(job, token, early)
    const made = job.attemptsMade + 1
    const attempt = new RunningAttempt(made, made >= (job.opts.attempts ?? 1))
    this.running.add(attempt)
    this.locks?.add(job, token)
    try {
      await run(toJob(job), attempt)
    } catch (error) {
      if (attempt.reason !== undefined) return await handBack(job, token)
      if (isHandBack(error)) return await putOff(job, token, error.delayMs)
      throw error instanceof Error ? error : new Error('The run failed')
    } finally {
      this.running.delete(attempt)
      this.locks?.remove(job)
      if (this.running.size === 0) this.onIdle?.()
    }
  }

  /** Sets the timestamp by the server's clock, because BullMQ counts a delay from it. */
  private async add(name: string, data: JobData, options: JobsOptions): Promise<void> {
    const timed = options.delay === undefined
      ? options
      : { ...options, timestamp: await serverTime(this.queue) }
    await this.queue.add(name, data, timed)
  }

  /** Rejects if `work` takes too long, and then checks for a half-open connection. */
  private inTime<T>(what: string, work: Promise<T>): Promise<T> {
    return within(this.timeoutMs, what, work, () => { void this.silence.check() })
  }

  private async checkWorker(worker: Worker<JobData>, silence: Silence): Promise<void> {
    if (!await silence.check() || this.closing) return
    // The blocking connection is lost too. BullMQ itself would notice only after its longest wait.
    const blocking = await worker.getBackend().blockingClient as Connection | undefined
    if (blocking?.status === 'ready') blocking.disconnect(true)
  }

  private async take(jobId: string): Promise<boolean> {
    const job = await this.queue.getJob(jobId)
    // A dead job is left for `onDead`.
    if (!job || job.finishedOn !== undefined) return false
    // 0 means that the job is running.
    return await this.queue.remove(jobId) === 1
  }

  private async shutDown(drainMs: number): Promise<void> {
    clearInterval(this.timer)
    clearInterval(this.heart)
    this.silence.close()
    this.workerSilence?.close()
    const { worker } = this
    let force = false
    if (worker) {
      // Pauses before it closes: a `close` that waits for a run which ignores its signal cannot be
      // interrupted.
      await settles(worker.pause(true), this.timeoutMs)
      const drained = new Promise<void>((resolve) => {
        this.onIdle = resolve
        if (this.running.size === 0) resolve()
      })
      const isDrained = await settles(drained, drainMs)
      if (!isDrained) for (const attempt of this.running) attempt.abort(new QueueClosingError())
      force = !isDrained && !await settles(drained, GRACE_MS)
    }
    // While Redis is away, BullMQ waits for it and keeps connections and timers. One deadline for
    // all of them ends that by force.
    const deadline = performance.now() + this.timeoutMs
    const inTime = (work: Promise<unknown>): Promise<boolean> =>
      settles(work, Math.max(deadline - performance.now(), 100))
    if (worker && !await inTime(worker.close(force))) await inTime(worker.getBackend().close(true))
    this.locks?.stop()
    if (this.dead?.active) await inTime(this.dead.active)
    if (!await inTime(this.queue.close())) disconnect(this.queue, this.options.connection)
  }
}

/** Returns a job to the queue unchanged, because a shutdown is no failed attempt. */
async function handBack(job: BullJob<JobData>, token: string | undefined): Promise<never> {
  await job.moveToWait(token)
  throw new WaitingError()
}

/** Delays a job, with its number of attempts unchanged. */
async function putOff(job: BullJob<JobData>, token: string | undefined, delayMs: number): Promise<never> {
  await job.moveToDelayed(Date.now() + delayMs, token)
  throw new DelayedError()
}
