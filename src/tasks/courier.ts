import {
  checkSecrets, Gate, judgeReply, messageId, signedHeaders, type CallbackSettings, type CallbackState,
} from '../callbacks/index.js'
import { httpError } from '../http/errors.js'
import type { Attempt, Job } from '../queues/queue.js'
import { isStoreUnavailable } from '../stores/store.js'
import { tell, type ExecutorSettings } from './attempt.js'
import { callbackEvents, type CallbackEvent } from './channels.js'
import { CALLBACK_JOB, deliveryOf, toJob, type Delivery } from './delivery.js'
import type { Ledger } from './ledger.js'
import type { TaskRecord } from './record.js'
import { patiently } from './retry.js'
import { isFinal } from './state.js'

/** A full or failing queue is asked this often, after 0.1 s, 0.2 s, … */
const TRIES = 5
/** When the host of a callback has as many requests under way as it may, the callback waits from this long to this long. */
const PARK_MS = 250
const MAX_PARK_MS = 15_000
/** What the engine does with a callback's job whose record can't be read or written; a refused delivery is no failure of its job. */
const ENGINE = { attempts: 20, backoff: { type: 'exponential', delayMs: 1000, maxDelayMs: 60_000, jitter: 0.5 } } as const

export interface CourierOptions extends CallbackSettings {
  readonly ledger: Ledger
  readonly onError: ExecutorSettings['onError']
}

/**
 * Brings the news of ended tasks to their callback URLs. Each attempt is a job of its own, which enqueues the next
 * before it ends, so the wait is the queue's, however long, and an attempt that is run twice enqueues one next.
 */
export class Courier {
  private readonly gate: Gate
  /** Tasks whose callbacks wait or run; complete where the queue is not durable. */
  private readonly waiting = new Set<string>()
  /** The queue takes nothing more. */
  closing = false

  constructor(private readonly options: CourierOptions) {
    this.gate = new Gate(options.maxInFlight, options.maxPerHost)
  }

  /** Throws what the client is to see of a URL that can never be called; a `TypeError` when there is nothing to sign with. */
  async check(url: unknown, owner: string | undefined): Promise<string> {
    this.options.sender.check(url)
    checkSecrets(await this.options.secrets(owner))
    return url as string
  }

  /**
   * Enqueues the first attempt for a record that has become final. Rejects when it could not be enqueued; where the
   * queue is not durable, it is given up instead. May be called again for one record.
   */
  async announce(record: TaskRecord): Promise<void> {
    // With an attempt made, the first was enqueued, and enqueued the next.
    if (record.callback?.state !== 'pending' || record.callback.attempts > 0) return
    await this.begin(deliveryOf(record, record.callback.url, 1, this.options.attempts))
  }

  /** Starts another round for a record that is final. */
  async redeliver(record: TaskRecord, callback: CallbackState): Promise<void> {
    const next = callback.attempts + 1
    const delivery = deliveryOf(record, callback.url, next, next + this.options.attempts - 1)
    // One that waits for its time would be found to be there already.
    await this.options.queue.remove(toJob(delivery).id)
    await this.begin(delivery)
  }

  /** Makes one attempt. Rejects when the job has to be run again. */
  async run(job: Job, { attempt, signal }: Attempt): Promise<void> {
    try {
      await this.deliver(job.input as Delivery, signal)
    } catch (error) {
      if (!signal.aborted) tell(this.options, error, job, attempt)
      throw error
    }
  }

  /** The engine gave a callback's job up. */
  async bury(job: Job): Promise<void> {
    const delivery = job.input as Delivery
    this.end(delivery)
    await this.note(delivery, { state: 'failed', attempts: delivery.attempt, fault: 'interrupted' })
  }

  private async deliver(delivery: Delivery, signal: AbortSignal): Promise<void> {
    if (await this.isDone(delivery)) return this.end(delivery)
    const leave = this.gate.enter(delivery.host)
    if (!leave) return this.park(delivery)
    const began = performance.now()
    let reply
    try {
      const headers = { 'content-type': 'application/json', ...await this.sign(delivery) }
      reply = await this.options.sender.send({ url: delivery.url, headers, body: delivery.body, signal })
    } finally {
      leave()
    }
    const { attempt, first, last } = delivery
    const now = Date.now()
    const { backoff } = this.options
    const verdict = judgeReply(reply, { tried: attempt - first + 1, left: last - attempt, backoff }, now)
    const seen = { attempts: attempt, ...('status' in reply ? { lastStatus: reply.status } : {}) }
    if (callbackEvents.hasSubscribers) {
      const { taskId, owner, host } = delivery
      const status = 'status' in reply ? reply.status : undefined
      const fault = verdict.kind === 'delivered' ? undefined : verdict.fault
      const ms = performance.now() - began
      callbackEvents.publish({ outcome: verdict.kind, taskId, owner, host, attempt, status, fault, ms } satisfies CallbackEvent)
    }
    if (verdict.kind === 'again') {
      // First the next attempt, then the note: between the two lies a repetition, the other way round a loss.
      await this.enqueue({ ...delivery, attempt: attempt + 1, parked: 0 }, verdict.delayMs)
      await this.note(delivery, { ...seen, state: 'pending', fault: verdict.fault, nextAttemptAt: now + verdict.delayMs })
    } else {
      await this.note(delivery, verdict.kind === 'delivered' ? { ...seen, state: 'delivered', deliveredAt: now } : { ...seen, state: 'failed', fault: verdict.fault })
      this.end(delivery)
    }
  }

  private async begin(delivery: Delivery): Promise<void> {
    const { queue, maxWaiting } = this.options
    try {
      if (!queue.durable && !this.waiting.has(delivery.taskId) && this.waiting.size >= maxWaiting) throw new Error('As many callbacks wait as may')
      // Counted first: others come in while the queue is asked.
      if (!queue.durable) this.waiting.add(delivery.taskId)
      await this.enqueue(delivery, 0)
    } catch (error) {
      if (queue.durable) throw httpError('service_unavailable', { headers: { 'retry-after': '5' }, cause: error })
      this.end(delivery)
      tell(this.options, error, toJob(delivery), delivery.attempt)
      await this.note(delivery, { state: 'failed', attempts: delivery.attempt - 1, fault: 'no_room' })
    }
  }

  private async enqueue(delivery: Delivery, delayMs: number): Promise<void> {
    for (let tried = 1; ; tried++) {
      try {
        if (await this.options.queue.enqueue(toJob(delivery), { ...ENGINE, delayMs }) === 'accepted') return
        if (tried === TRIES || this.closing) throw new Error('The queue has no room for a callback')
      } catch (error) {
        if (tried === TRIES || this.closing) throw error
      }
      await new Promise((resolve) => { setTimeout(resolve, 100 * 2 ** (tried - 1)).unref() })
    }
  }

  /** Puts the attempt off: it is not held here, where it would take the place of one to another host. */
  private async park(delivery: Delivery): Promise<void> {
    const wait = Math.min(PARK_MS * 2 ** Math.min(delivery.parked, 16), MAX_PARK_MS) * (0.5 + Math.random() / 2)
    await this.enqueue({ ...delivery, parked: delivery.parked + 1 }, Math.round(wait))
  }

  private async sign(delivery: Delivery): Promise<Record<string, string>> {
    const { taskId: id, createdAt, owner, body } = delivery
    return signedHeaders(await this.options.secrets(owner), messageId({ id, createdAt }), Date.now(), body)
  }

  /** Whether the record says that this attempt was made. Without a record it is not known, and made. */
  private async isDone({ taskId, createdAt, attempt }: Delivery): Promise<boolean> {
    const held = await patiently(() => this.options.ledger.load(taskId))
    if (held?.record.createdAt !== createdAt || !held.record.callback) return false
    return held.record.callback.state !== 'pending' || held.record.callback.attempts >= attempt
  }

  /** Writes what came of an attempt to the record, if that is still there and knows of no later one. */
  private async note({ taskId, createdAt, attempt }: Delivery, what: Omit<CallbackState, 'url'>): Promise<void> {
    const { ledger } = this.options
    try {
      const held = await patiently(() => ledger.load(taskId))
      if (!held) return
      await ledger.move(held, (record) => (
        record.createdAt === createdAt && isFinal(record.state) && record.callback?.state === 'pending' && record.callback.attempts < attempt
          ? { callback: { url: record.callback.url, ...what } } : undefined
      ), true)
    } catch (error) {
      // A store that is full takes no note: not worth another request.
      if (!isStoreUnavailable(error) || error.reason !== 'full') throw error
      tell(this.options, error, { taskId, name: CALLBACK_JOB }, attempt)
    }
  }

  private end({ taskId }: Delivery): void {
    this.waiting.delete(taskId)
  }
}
