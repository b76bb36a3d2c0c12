import { httpError } from '../http/errors.js'
import {
  isQueueClosing, QueueClosingError, type Attempt, type Job, type ProcessOptions, type RunJob,
} from '../queues/queue.js'
import { reportError } from '../tasks/record/report-error.js'
import type { CallbackDispatcher, CallbackHost } from '../tasks/record/callbacks.js'
import type { CallbackState } from '../tasks/record/callback-state.js'
import type { TaskRecord } from '../tasks/record/record.js'
import { deliveryOf, toJob, type Delivery } from './delivery.js'
import { callbackEvents, type CallbackEvent } from './diagnostics.js'
import { InFlightLimiter, WaitingLimiter } from './limiters.js'
import { CallbackRecords } from './records.js'
import { checkSecrets, messageId, signedHeaders } from './message.js'
import { callbackSettings, type CallbackSettings, type ResolvedOptions } from './options.js'
import { classifyReply } from './reply-outcome.js'

/** Maximum number of attempts to enqueue, with delays of 0.1 s, 0.2 s, 0.4 s, … */
const TRIES = 5
/** Minimum and maximum delay of an attempt that exceeds a limit. */
const POSTPONE_MS = 250
const MAX_POSTPONE_MS = 15_000
/**
 * Retries of a callback's job whose record cannot be read or written. A failed request is not a
 * failure of its job: it enqueues a job for the next attempt.
 */
const ENGINE = {
  attempts: 20,
  backoff: { type: 'exponential', delayMs: 1000, maxDelayMs: 60_000, jitter: 0.5 },
} as const

/**
 * Sends the callbacks of ended tasks. Each attempt is a job that enqueues the next one before it
 * ends. The queue therefore holds all waits, and an attempt that runs twice enqueues only one
 * successor.
 */
export class Dispatcher implements CallbackDispatcher {
  private readonly settings: CallbackSettings
  private readonly inFlight: InFlightLimiter
  private readonly records: CallbackRecords
  /** Callbacks that wait or run in this process. Complete only if the queue is not durable. */
  private readonly waiting: WaitingLimiter
  private closing = false

  /** @throws {TypeError} The options do not fit these tasks. */
  constructor(options: ResolvedOptions, private readonly host: CallbackHost) {
    this.settings = callbackSettings(options, host)
    this.inFlight = new InFlightLimiter(this.settings)
    this.waiting = new WaitingLimiter(this.settings.maxWaiting, this.settings.maxWaitingPerOwner)
    this.records = new CallbackRecords(host)
  }

  async check(url: unknown, owner: string | undefined): Promise<string> {
    this.settings.sender.check(url)
    checkSecrets(await this.settings.secrets(owner))
    return url as string
  }

  async dispatch(record: TaskRecord): Promise<void> {
    // If an attempt was made, the first job was enqueued and has enqueued its successor.
    if (record.callback?.state !== 'pending' || record.callback.attempts > 0) return
    await this.begin(deliveryOf(record, record.callback.url, 1, this.settings.attempts))
  }

  async redeliver(id: string, unlessPending: boolean): Promise<boolean> {
    const record = await this.records.reopen(id, unlessPending)
    if (!record?.callback) return false
    const { url, attempts } = record.callback
    const next = attempts + 1
    const delivery = deliveryOf(record, url, next, next + this.settings.attempts - 1)
    // A job that waits would make `enqueue` ignore the new one.
    await this.settings.queue.remove(toJob(delivery).id)
    await this.begin(delivery)
    return true
  }

  async run(job: Job, { attempt, signal }: Attempt): Promise<void> {
    try {
      await this.deliver(job.input as Delivery, signal)
    } catch (error) {
      // A durable queue repeats this attempt in another process, so the host need not see the
      // error.
      if (!signal.aborted && !isQueueClosing(error)) reportError(this.host, error, job, attempt)
      throw error
    }
  }

  async onDead(job: Job): Promise<void> {
    const delivery = job.input as Delivery
    this.end(delivery)
    await this.records.saveOutcome(delivery, {
      state: 'failed',
      attempts: delivery.attempt,
      fault: 'interrupted',
    })
  }

  startProcessing(run: RunJob, onDead: ProcessOptions['onDead']): void {
    const { ownQueue, queue, maxInFlight } = this.settings
    // Twice as many jobs as requests, because a job that exceeds a limit only postpones itself.
    if (ownQueue) queue.process(run, { concurrency: 2 * maxInFlight, onDead })
  }

  beginClose(): void {
    this.closing = !this.settings.ownQueue
  }

  async close(drainMs: number): Promise<void> {
    this.closing = true
    if (this.settings.ownQueue) await this.settings.queue.close({ drainMs })
  }

  private async deliver(delivery: Delivery, signal: AbortSignal): Promise<void> {
    if (await this.records.isAttemptDone(delivery)) return this.end(delivery)
    const { url, body } = delivery
    const slot = this.inFlight.acquire(new URL(url).hostname, delivery.owner)
    if (!slot) return this.postpone(delivery)
    const began = performance.now()
    let reply
    try {
      const headers = { 'content-type': 'application/json', ...(await this.sign(delivery)) }
      reply = await this.settings.sender.send({ url, headers, body, signal, admit: slot.admit })
    } finally {
      slot.release()
    }
    if ('fault' in reply && reply.fault === 'busy') return this.postpone(delivery)
    const { attempt, first, last } = delivery
    const now = Date.now()
    const { backoff } = this.settings
    const outcome = classifyReply(
      reply,
      { tried: attempt - first + 1, left: last - attempt, backoff },
      now,
    )
    const seen = { attempts: attempt, ...('status' in reply ? { lastStatus: reply.status } : {}) }
    if (callbackEvents.hasSubscribers) {
      const { taskId, owner, host } = delivery
      const status = 'status' in reply ? reply.status : undefined
      const fault = outcome.kind === 'delivered' ? undefined : outcome.fault
      const ms = performance.now() - began
      callbackEvents.publish({
        outcome: outcome.kind,
        taskId,
        owner,
        host,
        attempt,
        status,
        fault,
        ms,
      } satisfies CallbackEvent)
    }
    if (outcome.kind === 'retry') {
      // Enqueues the next attempt before it saves the outcome. A crash between the two then repeats
      // a request. In the other order it would lose the callback.
      const next = { ...delivery, attempt: attempt + 1, postponed: 0 }
      if (!(await this.enqueueOrEnd(next, outcome.delayMs, seen))) return
      await this.records.saveOutcome(delivery, {
        ...seen,
        state: 'pending',
        fault: outcome.fault,
        nextAttemptAt: now + outcome.delayMs,
      })
    } else {
      await this.records.saveOutcome(
        delivery,
        outcome.kind === 'delivered'
          ? { ...seen, state: 'delivered', deliveredAt: now }
          : { ...seen, state: 'failed', fault: outcome.fault },
      )
      this.end(delivery)
    }
  }

  private async begin(delivery: Delivery): Promise<void> {
    const { queue } = this.settings
    try {
      // Counted before the queue is called, because other callbacks may be added during the call.
      if (!queue.durable && !this.waiting.add(delivery.taskId, delivery.owner)) {
        throw new Error('The limit of waiting callbacks is reached')
      }
      await this.enqueue(delivery, 0)
    } catch (error) {
      if (queue.durable) {
        throw httpError('service_unavailable', { headers: { 'retry-after': '5' }, cause: error })
      }
      this.end(delivery)
      const closing = isQueueClosing(error)
      if (!closing) reportError(this.host, error, toJob(delivery), delivery.attempt)
      const fault = closing ? 'interrupted' : 'no_room'
      await this.records.saveOutcome(delivery, {
        state: 'failed',
        attempts: delivery.attempt - 1,
        fault,
      })
    }
  }

  private async enqueue(delivery: Delivery, delayMs: number): Promise<void> {
    const { queue } = this.settings
    for (let tried = 1; ; tried++) {
      try {
        const job = queue.durable
          ? { ...toJob(delivery), store: await this.host.storeId() }
          : toJob(delivery)
        if ((await queue.enqueue(job, { ...ENGINE, delayMs })) === 'accepted') return
        if (this.closing) throw new QueueClosingError()
        if (tried === TRIES) throw new Error('The queue has no room for a callback')
      } catch (error) {
        if (tried === TRIES || this.closing) throw error
      }
      await new Promise((resolve) => {
        setTimeout(resolve, 100 * 2 ** (tried - 1)).unref()
      })
    }
  }

  /**
   * Postpones the attempt. Enqueues it again instead of waiting here, where it would block requests
   * to other hosts.
   */
  private async postpone(delivery: Delivery): Promise<void> {
    const wait =
      Math.min(POSTPONE_MS * 2 ** Math.min(delivery.postponed, 16), MAX_POSTPONE_MS) *
      (0.5 + Math.random() / 2)
    const postponed = { ...delivery, postponed: delivery.postponed + 1 }
    await this.enqueueOrEnd(postponed, Math.round(wait), { attempts: delivery.attempt - 1 })
  }

  /**
   * Enqueues a job and returns `true`. If a queue that is not durable is closing, ends the delivery
   * with the fault `interrupted` and returns `false`.
   */
  private async enqueueOrEnd(
    next: Delivery,
    delayMs: number,
    seen: Omit<CallbackState, 'url' | 'state'>,
  ): Promise<boolean> {
    try {
      await this.enqueue(next, delayMs)
      return true
    } catch (error) {
      if (this.settings.queue.durable || !isQueueClosing(error)) throw error
      this.end(next)
      await this.records.saveOutcome(next, { ...seen, state: 'failed', fault: 'interrupted' })
      return false
    }
  }

  private async sign(delivery: Delivery): Promise<Record<string, string>> {
    const { taskId: id, job, owner, body } = delivery
    return signedHeaders(
      await this.settings.secrets(owner),
      messageId({ id, job }),
      Date.now(),
      body,
    )
  }

  private end({ taskId }: Delivery): void {
    this.waiting.delete(taskId)
  }
}
