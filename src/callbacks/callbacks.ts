import { channel } from 'node:diagnostics_channel'
import { isFinalStatus, type StoredTask, type TaskChange } from '../engine/task.js'
import { countedAsOwner } from '../http/requester.js'
import { namedOwner } from '../runtime/names.js'
import { readOptions } from '../runtime/options.js'
import { SharedLimit, type Share } from '../runtime/shared-limit.js'
import { checkBackoff } from '../tasks/definition/define.js'
import type { Callbacks, TaskCore } from '../tasks/core/task-core.js'
import { detailsOf, type CallbackDetails } from '../tasks/record/details.js'
import type { CallbackFault } from '../wire/task.js'
import type { TraceHeaders } from '../tasks/definition/tracing.js'
import { httpSender } from './http-sender.js'
import { afterAttempt, messageBody, signedHeaders, signersOf, type EndedReply } from './message.js'
import { OPTIONS, type CallbackOptions, type CallbackReply } from './options.js'

/** Event on the diagnostics channel `longhaul:callback`: one for each attempt of this process. */
export interface CallbackEvent {
  /** `retry`: another attempt will follow. */
  readonly outcome: 'delivered' | 'retry' | 'failed'
  readonly taskId: string
  readonly owner: string | undefined
  readonly tenant: string | undefined
  /** Host and port of the receiver. The rest of its URL may contain a secret. */
  readonly host: string
  /** Number of the attempt, from 1. */
  readonly attempt: number
  /** Status of the response, if there was one. */
  readonly status: number | undefined
  readonly fault: CallbackFault | undefined
  /** Duration of the request in milliseconds. */
  readonly ms: number
}

const callbackEvents = channel('longhaul:callback')

/**
 * Enables callbacks in `createTasks`: when a task ends, a signed request (Standard Webhooks) to its
 * callback URL, with retries. Addresses that are not public are never called.
 * @example
 * const tasks = createTasks({
 *   ...memory(),
 *   definitions: [report],
 *   callbacks: callbacks({ secrets: (owner) => secretsOf(owner) }),
 * })
 * @throws {TypeError} An option is unknown or out of range.
 */
export function callbacks(options: CallbackOptions): Callbacks {
  const read = readOptions('callbacks', options, OPTIONS)
  checkBackoff('callbacks', read.backoff)
  const { maxInFlight, sender = httpSender() } = read
  const { maxPerHost = Math.max(1, Math.min(4, maxInFlight - 1)) } = read
  const { maxPerOwner = threeQuarters(maxInFlight) } = read
  const settings = { ...read, sender, maxPerHost, maxPerOwner }
  // Twice as many, because an attempt that exceeds a limit only postpones itself.
  return { concurrency: 2 * maxInFlight, open: (core) => new Deliveries(core, settings) }
}

function threeQuarters(limit: number): number {
  return Math.max(1, Math.floor((limit * 3) / 4))
}

const POSTPONE_MS = 250
const MAX_POSTPONE_MS = 15_000

/** Sends the callbacks that are due. The engine stores the time at which each is due. */
class Deliveries {
  private readonly requests: SharedLimit
  private readonly receivers: SharedLimit
  /**
   * Abort controllers of the open requests. Each request has its own controller, because a sender
   * may leave a listener on the signal.
   */
  private readonly sending = new Set<AbortController>()
  private isClosing = false
  /**
   * Limit of requests for each pair of receiver and caller: one owner, or tenant, must not use all requests to
   * a receiver.
   */
  private readonly callers: SharedLimit

  constructor(
    private readonly core: TaskCore, private readonly settings: Required<CallbackOptions>,
  ) {
    this.requests = new SharedLimit(settings.maxInFlight, settings.maxPerOwner)
    this.receivers = new SharedLimit(Infinity, settings.maxPerHost)
    this.callers = new SharedLimit(Infinity, threeQuarters(settings.maxPerHost))
  }

  async check(url: unknown, stored: string | undefined): Promise<string> {
    const { sender, secrets } = this.settings
    const { owner, tenant } = namedOwner(stored)
    // As at a delivery, so that secrets which need the context of a request fail at once.
    signersOf(await this.core.context.run(() => {
      sender.check(url)
      return secrets(owner, tenant)
    }))
    return url as string
  }

  async deliver(task: StoredTask): Promise<void> {
    const { callback } = detailsOf(task)
    if (callback?.state !== 'pending') return this.write(task, { callbackMs: null })
    try {
      await this.attempt(task, callback)
    } catch (error) {
      if (this.isClosing) return this.write(task, { callbackMs: 0, isHidden: true })
      this.core.report(error, { ...task, attempt: callback.attempts + 1 })
    }
  }

  async redeliver(id: string, unlessPending: boolean): Promise<boolean> {
    let task = await this.core.engine.read(id)
    for (;;) {
      const { callback, ...details } = task ? detailsOf(task) : {} as never
      if (!task || !isFinalStatus(task.status) || !callback) return false
      if (unlessPending && callback.state === 'pending') return false
      const { url, attempts, lastStatus } = callback
      const next: CallbackDetails = {
        url, attempts, lastStatus, state: 'pending', first: attempts + 1,
      }
      const changed = await this.core.change(task, { version: task.version }, {
        details: { ...details, callback: next }, callbackMs: 0,
      })
      if (changed.moved) return true
      task = changed.task
    }
  }

  /** Aborts the open requests, which another process sends again. */
  close(): void {
    this.isClosing = true
    for (const request of this.sending) request.abort(new Error('This process is closing'))
  }

  private async attempt(task: StoredTask, callback: CallbackDetails): Promise<void> {
    const { hostname } = new URL(callback.url)
    const caller = task.owner === undefined ? '' : countedAsOwner(task.owner)
    const sharesOf = (receiver: string): Share[] => [
      this.receivers.open(receiver), this.callers.open(`${receiver} ${caller}`),
    ]
    const held = [this.requests.open(caller), ...sharesOf(`host=${hostname}`)]
    const admit = (addresses: readonly string[]): boolean => {
      const shares = [...new Set(addresses)].flatMap(sharesOf)
      held.push(...shares)
      return shares.every((share) => share.tryAcquire(1) === undefined)
    }
    const began = performance.now()
    let reply: CallbackReply = { fault: 'busy' }
    try {
      const isAdmitted = held.every((share) => share.tryAcquire(1) === undefined)
      if (isAdmitted) reply = await this.send(task, callback.url, admit)
    } finally {
      for (const share of held) share.release()
    }
    if ('fault' in reply && reply.fault === 'busy') return this.postpone(task, callback)
    await this.writeOutcome(task, callback, reply, performance.now() - began)
  }

  private async send(
    task: StoredTask, url: string, admit: (addresses: readonly string[]) => boolean,
  ): Promise<CallbackReply> {
    const { sender, secrets } = this.settings
    const { round = task.birth, trace, callback } = detailsOf(task)
    const body = messageBody(task)
    const { owner, tenant } = namedOwner(task.owner)
    const question = isFinalStatus(task.status) ? '' : `_${task.run}`
    const signed = signedHeaders(
      await secrets(owner, tenant), `msg_${task.id}_${round}${question}`, Date.now(), body,
    )
    const send = async (traced: TraceHeaders): Promise<CallbackReply> => {
      if (this.isClosing) throw new Error('This process is closing')
      const stop = new AbortController()
      this.sending.add(stop)
      try {
        return await sender.send({
          url, headers: { ...traced, 'content-type': 'application/json', ...signed }, body,
          signal: stop.signal, admit,
        })
      } finally {
        this.sending.delete(stop)
      }
    }
    const { tracing } = this.core.settings
    if (tracing === undefined) return send({})
    const { id: taskId, name } = task
    const attempt = (callback?.attempts ?? 0) + 1
    return tracing.callback({ name, taskId, attempt, trace, host: new URL(url).hostname }, send, faultOf)
  }

  private async writeOutcome(
    task: StoredTask, before: CallbackDetails, reply: EndedReply, ms: number,
  ): Promise<void> {
    const { callback, callbackMs } = afterAttempt(before, reply, this.settings)
    if (callbackEvents.hasSubscribers) {
      const { url, state, attempts, lastStatus, fault } = callback
      callbackEvents.publish({
        outcome: state === 'pending' ? 'retry' : state as 'delivered' | 'failed',
        taskId: task.id, ...namedOwner(task.owner), host: new URL(url).host, attempt: attempts,
        status: lastStatus, fault, ms,
      } satisfies CallbackEvent)
    }
    await this.write(task, { details: { ...detailsOf(task), callback }, callbackMs })
  }

  private postpone(task: StoredTask, callback: CallbackDetails): Promise<void> {
    const { postponed = 0 } = callback
    const maxMs = Math.min(POSTPONE_MS * 2 ** Math.min(postponed, 16), MAX_POSTPONE_MS)
    const next = { ...callback, postponed: postponed + 1 }
    return this.write(task, {
      details: { ...detailsOf(task), callback: next }, isHidden: true,
      callbackMs: Math.round(maxMs * (0.5 + Math.random() / 2)),
    })
  }

  /**
   * Writes the outcome of an attempt. If the engine is unavailable for long, the attempt is
   * repeated.
   */
  private async write(task: StoredTask, change: TaskChange): Promise<void> {
    // Anybody may change a task that waits for an answer, and the outcome must not undo that.
    const expected = isFinalStatus(task.status) ? { callbackRun: task.callbackRun } : { version: task.version }
    await this.core.persist(task, expected, change)
  }
}

function faultOf(reply: CallbackReply): unknown {
  if ('fault' in reply) {
    return reply.fault === 'busy' ? undefined : new Error(`The callback was not delivered: ${reply.fault}`)
  }
  const { status } = reply
  return status < 300 ? undefined : new Error(`The callback got the status ${status}`)
}
