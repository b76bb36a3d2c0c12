import {
  DelayedError, Queue as BullQueue, WaitingError, Worker, type ConnectionOptions,
  type Job as BullJob, type JobsOptions,
} from 'bullmq'
import { checkNames } from '../../src/runtime/option-names.js'
import {
  isHandBack, QueueClosingError, type DeadReason, type EnqueueOptions, type Job, type ProcessOptions, type Queue, type RunJob,
} from '../../src/queues/queue.js'
import { RunningAttempt } from '../../src/queues/running-attempt.js'
import { Silence, type Connected, type Connection } from '../redis/silence.js'
import { checkNamespace } from '../../src/stores/namespace.js'
import { settles, within } from './deadline.js'
import { Locks } from './locks.js'
import { isDelayed, serverTime, untilDue } from './server-time.js'
import { checkOptions, delayOf, toBackoff, toJob, toJobId, type JobData } from './job.js'

/** Times are in milliseconds. */
export interface BullMQQueueOptions {
  /**
   * What BullMQ takes: options, or an ioredis client with `maxRetriesPerRequest: null`, which stays
   * yours to close.
   */
  readonly connection: ConnectionOptions
  /**
   * That of the store: 1 to 64 of `A-Z a-z 0-9 . _ -`. BullMQ's key prefix is this in braces, so
   * that in a Redis Cluster all keys of a queue are on one node. Default `longhaul`.
   */
  readonly namespace?: string
  /** BullMQ's name of the queue: one of several in a namespace. Default `tasks`. */
  readonly name?: string
  /** How long an enqueue or a removal may take before it counts as failed. Default 1500. */
  readonly timeoutMs?: number
  /** How long a worker may be silent before its job is given to another. Default 30 000. */
  readonly lockDurationMs?: number
  /** How often silent workers are looked for. Default 30 000. */
  readonly stalledIntervalMs?: number
  /** How often a job may lose its worker before it is given up. Default 1. */
  readonly maxStalledCount?: number
  /** Hears of what goes wrong with the connection. Default: nobody; calls fail by themselves. */
  readonly onError?: (error: Error) => void
}

const KNOWN = {
  connection: 0, namespace: 0, name: 0, timeoutMs: 0, lockDurationMs: 0, stalledIntervalMs: 0, maxStalledCount: 0, onError: 0,
} satisfies Record<keyof BullMQQueueOptions, 0>

/** How long runs that were told to stop have to hand their job back. */
const GRACE_MS = 2000
/** How often a worker asks whether its connection still hears Redis. */
const BEAT_MS = 2500
/**
 * How long the engine waits after an error of its connection; a process that closes waits for that.
 */
const ENGINE_RETRY_MS = 1000
/** So much too early is in time, in milliseconds: timers and clocks are no better. */
const EARLY_MS = 100
/** How many dead jobs one look finds. */
const DEAD_PAGE = 100
/** How long a dead job is kept whose `onDead` rejects. */
const DEAD_KEPT_MS = 86_400_000

/**
 * The Queue on BullMQ 6: retries, back-off, delays, stalled jobs and concurrency are the engine's
 * own. Each task is a job named after its definition, with the task's id, so a board shows both.
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
  private sweeping: Promise<void> | undefined
  private readonly burying = new Set<string>()
  private closing: Promise<void> | undefined
  private onIdle: (() => void) | undefined

  /** Throws a `TypeError` when an option makes no sense. */
  constructor(options: BullMQQueueOptions) {
    checkNames('BullMQQueue', options, KNOWN)
    const { connection, namespace = 'longhaul', name = 'tasks', timeoutMs = 1500 } = options
    checkNamespace('BullMQQueue', namespace)
    if (!(timeoutMs >= 10 && timeoutMs <= 60_000)) throw new TypeError('BullMQQueue: timeoutMs must be from 10 to 60000')
    this.options = options
    this.name = name
    this.prefix = `{${namespace}}`
    this.timeoutMs = timeoutMs
    this.onError = options.onError ?? (() => undefined)
    this.queue = new BullQueue<JobData>(name, { connection, prefix: this.prefix })
    this.silence = silenceOf(this.queue, timeoutMs)
    // An `error` event that nobody hears would end the process.
    this.queue.on('error', this.onError)
  }

  async enqueue(job: Job, { delayMs = 0, attempts = 1, backoff }: EnqueueOptions = {}): Promise<'accepted' | 'full'> {
    checkOptions(attempts, delayMs, backoff)
    if (this.closing) return 'full'
    const { taskId, input, context, record, store } = job
    const data: JobData = { taskId, input, context, record, store }
    // With Redis down an add may stay pending for ever, whatever its options say.
    await this.inTime('enqueue', this.add(job.name, data, {
      jobId: toJobId(job.id), attempts, ...(delayMs > 0 ? { delay: delayMs } : {}), ...toBackoff(backoff),
      // Gone once done, so that the same id can be taken again; what died stays until it is buried,
      // as BullMQ has it by itself.
      removeOnComplete: true,
    }))
    return 'accepted'
  }

  process(run: RunJob, { concurrency, onDead }: ProcessOptions): void {
    if (this.worker) throw new Error('process() was called already: one queue has one processor in a process')
    const { connection, lockDurationMs = 30_000, stalledIntervalMs = 30_000, maxStalledCount = 1 } = this.options
    const worker = new Worker<JobData>(this.name, (job, token) => this.run(run, job, token), {
      connection, prefix: this.prefix, concurrency, maxStalledCount,
      lockDuration: lockDurationMs, stalledInterval: stalledIntervalMs,
      skipLockRenewal: true, runRetryDelay: ENGINE_RETRY_MS,
      settings: { backoffStrategy: (made, _type, _error, job) => delayOf(made, job) },
    })
    worker.on('error', this.onError)
    worker.on('failed', (job) => { if (job?.finishedOn !== undefined) void this.bury(job, onDead) })
    // The event is this process's alone and may be missed; what is written as failed is looked for
    // too.
    const sweep = () => { void this.sweep(onDead) }
    worker.on('ready', sweep)
    this.timer = setInterval(sweep, stalledIntervalMs)
    this.timer.unref()
    this.locks = new Locks(lockDurationMs, this.onError)
    this.locks.start(worker)
    // Only those who wait for an answer learn that none comes, and an idle worker waits for none
    // here.
    const silence = this.workerSilence = silenceOf(worker, this.timeoutMs)
    this.heart = setInterval(() => { this.checkWorker(worker, silence).catch(this.onError) }, BEAT_MS)
    this.heart.unref()
    this.worker = worker
  }

  remove(id: string): Promise<boolean> {
    return this.inTime('remove', this.take(toJobId(id)))
  }

  has(id: string): Promise<boolean> {
    // One that failed for good is on its way to `onDead`; what was done is gone.
    return this.inTime('has', this.queue.getJobState(toJobId(id)).then((state) => state !== 'unknown' && state !== 'completed'))
  }

  close(options: { readonly drainMs?: number } = {}): Promise<void> {
    checkNames('BullMQQueue: close', options, { drainMs: 0 })
    const { drainMs = 10_000 } = options
    this.closing ??= this.shutDown(drainMs)
    return this.closing
  }

  /** For a board, and for what longhaul does not wrap. */
  get bull(): BullQueue {
    return this.queue as BullQueue
  }

  private async run(run: RunJob, job: BullJob<JobData>, token: string | undefined): Promise<void> {
    // A worker whose clock is ahead takes a delayed job too early. Put off by its own clock, it
    // takes it again when it is due.
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

  /** BullMQ counts a delay from the job's timestamp, and a worker looks at its own clock. */
  private async add(name: string, data: JobData, options: JobsOptions): Promise<void> {
    await this.queue.add(name, data, options.delay === undefined ? options : { ...options, timestamp: await serverTime(this.queue) })
  }

  /** Rejects when it takes too long, and then looks whether the connection is half-open. */
  private inTime<T>(what: string, work: Promise<T>): Promise<T> {
    return within(this.timeoutMs, what, work, () => { void this.silence.check() })
  }

  private async checkWorker(worker: Worker<JobData>, silence: Silence): Promise<void> {
    if (!await silence.check() || this.closing) return
    // What cut that one has cut this one too. BullMQ would notice it after its longest wait.
    const blocking = await worker.getBackend().blockingClient as Connection | undefined
    if (blocking?.status === 'ready') blocking.disconnect(true)
  }

  private async take(jobId: string): Promise<boolean> {
    const job = await this.queue.getJob(jobId)
    // One that failed for good is on its way to `onDead`.
    if (!job || job.finishedOn !== undefined) return false
    // 0: it runs.
    return await this.queue.remove(jobId) === 1
  }

  /** Looks for jobs that the engine gave up while nobody heard of it. */
  private sweep(onDead: ProcessOptions['onDead']): Promise<void> {
    this.sweeping ??= (async () => {
      try {
        for (const job of await this.queue.getFailed(0, DEAD_PAGE - 1)) {
          // The event may have been quicker than the list.
          if (await job.isFailed()) await this.bury(job, onDead)
        }
      } catch (error) {
        this.onError(error instanceof Error ? error : new Error(String(error)))
      } finally {
        this.sweeping = undefined
      }
    })()
    return this.sweeping
  }

  /** Tells of a job that the engine gave up, and forgets it once that has been heard. */
  private async bury(job: BullJob<JobData>, onDead: ProcessOptions['onDead']): Promise<void> {
    const { id = '' } = job
    if (this.burying.has(id)) return
    this.burying.add(id)
    try {
      const reason: DeadReason = job.failedReason.startsWith('job stalled') ? 'stalled' : 'attempts'
      if (await wasHeard(onDead, job, reason)) await job.remove()
    } catch (error) {
      this.onError(error instanceof Error ? error : new Error(String(error)))
    } finally {
      this.burying.delete(id)
    }
  }

  private async shutDown(drainMs: number): Promise<void> {
    clearInterval(this.timer)
    clearInterval(this.heart)
    this.silence.close()
    this.workerSilence?.close()
    const { worker } = this
    let force = false
    if (worker) {
      // Not `close` at once: when that waits for a run which ignores its signal, nothing can make
      // it go on.
      await settles(worker.pause(true), this.timeoutMs)
      const drained = new Promise<void>((resolve) => {
        this.onIdle = resolve
        if (this.running.size === 0) resolve()
      })
      const isDrained = await settles(drained, drainMs)
      if (!isDrained) for (const attempt of this.running) attempt.abort(new QueueClosingError())
      force = !isDrained && !await settles(drained, GRACE_MS)
    }
    // While Redis is away BullMQ waits for it, and keeps its connections and timers. After one
    // deadline for all of it they are let go of by force.
    const deadline = performance.now() + this.timeoutMs
    const inTime = (work: Promise<unknown>): Promise<boolean> => settles(work, Math.max(deadline - performance.now(), 100))
    if (worker && !await inTime(worker.close(force))) await inTime(worker.getBackend().close(true))
    this.locks?.stop()
    if (this.sweeping) await inTime(this.sweeping)
    if (!await inTime(this.queue.close())) this.disconnect()
  }

  /** A connection that BullMQ made of options is its own to close; a client is its owner's. */
  private disconnect(): void {
    if (typeof (this.options.connection as { duplicate?: unknown }).duplicate === 'function') return
    this.queue.getBackend().client.then((client) => { client.disconnect() }, () => undefined)
  }
}

/** Of ioredis alone it is known how a connection is replaced. */
function silenceOf(of: Pick<BullQueue, 'getBackend'>, timeoutMs: number): Silence {
  return new Silence(async () => {
    const client: unknown = await of.getBackend().client
    return typeof (client as { defineCommand?: unknown }).defineCommand === 'function' ? client as Connected : undefined
  }, timeoutMs)
}

/** Back to where it waited, as it was: a shutdown is no failed attempt. */
async function handBack(job: BullJob<JobData>, token: string | undefined): Promise<never> {
  await job.moveToWait(token)
  throw new WaitingError()
}

/** Back into the queue for a while, with its attempts as they were. */
async function putOff(job: BullJob<JobData>, token: string | undefined, delayMs: number): Promise<never> {
  await job.moveToDelayed(Date.now() + delayMs, token)
  throw new DelayedError()
}

/**
 * `false` when it could not be heard, as when the store is away: the next look tells again, for a
 * day.
 */
async function wasHeard(onDead: ProcessOptions['onDead'], job: BullJob<JobData>, reason: DeadReason): Promise<boolean> {
  try {
    await onDead(toJob(job), reason)
    return true
  } catch {
    return Date.now() - (job.finishedOn ?? 0) > DEAD_KEPT_MS
  }
}
