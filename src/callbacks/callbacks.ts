import { channel } from 'node:diagnostics_channel'
import type { StoredTask, TaskChange } from '../engine/task.js'
import { KeyCounts } from '../runtime/collections.js'
import { isFinalTask, type Callbacks, type TaskCore } from '../tasks/core/task-core.js'
import {
  detailsOf, stored, type CallbackFault, type CallbackDetails,
} from '../tasks/record/details.js'
import { reportError } from '../tasks/record/diagnostics.js'
import { httpSender } from './http-sender.js'
import { checkSecrets, classifyReply, messageBody, messageId, signedHeaders } from './message.js'
import {
  readCallbackOptions, type CallbackOptions, type CallbackReply, type CallbackSettings,
} from './options.js'

/**
 * Event on the diagnostics channel `longhaul:callback`: one for each attempt, in the process that
 * made it.
 */
export interface CallbackEvent {
  /** `retry`: another attempt will follow. */
  readonly outcome: 'delivered' | 'retry' | 'failed'
  readonly taskId: string
  readonly owner: string | undefined
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

/** Diagnostics channel of callback attempts. Check `hasSubscribers` before creating an event. */
const callbackEvents = channel('longhaul:callback')

/**
 * Enables callbacks in `createTasks`. When a task ends, longhaul sends a signed request (Standard
 * Webhooks) to its callback URL. Failed requests are retried. Addresses that are not public are
 * never called.
 *
 * @example
 * const tasks = createTasks({
 *   ...memory(),
 *   definitions: [report],
 *   callbacks: callbacks({ secrets: (owner) => secretsOf(owner) }),
 * })
 *
 * @throws {TypeError} An option is unknown or out of range.
 */
export function callbacks(options: CallbackOptions): Callbacks {
  const settings = readCallbackOptions(options, httpSender)
  // Twice as many, because an attempt that exceeds a limit only postpones itself.
  return { concurrency: 2 * settings.maxInFlight, open: (core) => new Deliveries(core, settings) }
}

/** Minimum and maximum delay of an attempt that exceeds a limit, in milliseconds. */
const POSTPONE_MS = 250
const MAX_POSTPONE_MS = 15_000

interface Message {
  readonly url: string
  readonly id: string
  readonly body: string
}

/**
 * Sends the callbacks that the engine hands out. The engine keeps when each is due, so nothing waits
 * here, and a process that dies loses no callback: another one sends it again after a minute.
 */
class Deliveries {
  private readonly inFlight: InFlightLimiter
  private readonly closing = new AbortController()

  constructor(
    private readonly core: TaskCore,
    private readonly settings: Pick<CallbackSettings, 'sender' | 'secrets' | 'attempts' | 'backoff'>
      & InFlightLimits,
  ) {
    this.inFlight = new InFlightLimiter(settings)
  }

  /**
   * Checks a callback URL. Throws the error that the client is to see if the URL can never be
   * called; a `TypeError` if there is no secret to sign with.
   */
  async check(url: unknown, owner: string | undefined): Promise<string> {
    this.settings.sender.check(url)
    checkSecrets(await this.settings.secrets(owner))
    return url as string
  }

  /** Makes one attempt at the callback of a task. Never rejects. */
  async deliver(task: StoredTask): Promise<void> {
    const { callback } = detailsOf(task)
    if (callback?.state !== 'pending') return this.write(task, { callbackMs: null })
    try {
      await this.attempt(task, callback)
    } catch (error) {
      if (this.closing.signal.aborted) return this.write(task, { callbackMs: 0, isHidden: true })
      reportError(this.core.settings, error, { taskId: task.id, name: task.name }, callback.attempts + 1)
    }
  }

  /**
   * Starts another round for a task that has ended. Returns `false` if it has no callback, or if a
   * round is under way and `unlessPending` is `true`.
   */
  async redeliver(id: string, unlessPending: boolean): Promise<boolean> {
    let task = await this.core.read(id)
    for (;;) {
      const { callback, ...details } = task ? detailsOf(task) : {} as never
      if (!task || !isFinalTask(task) || !callback) return false
      if (unlessPending && callback.state === 'pending') return false
      const { url, attempts, lastStatus } = callback
      const next: CallbackDetails = {
        url, attempts, lastStatus, state: 'pending', first: attempts + 1,
      }
      const changed = await this.core.change(task, { version: task.version }, {
        details: stored({ ...details, callback: next }), callbackMs: 0,
      })
      if (changed.moved) return true
      task = changed.task
    }
  }

  /** Aborts the requests that are under way. They are made again by another process. */
  close(): void {
    this.closing.abort(new Error('This process is closing'))
  }

  private async attempt(task: StoredTask, callback: CallbackDetails): Promise<void> {
    const message = messageOf(task, callback)
    const slot = this.inFlight.acquire(new URL(message.url).hostname, task.owner)
    if (!slot) return this.postpone(task, callback)
    const began = performance.now()
    let reply: CallbackReply
    try {
      reply = await this.send(task, message, slot.admit)
    } finally {
      slot.release()
    }
    if ('fault' in reply && reply.fault === 'busy') return this.postpone(task, callback)
    await this.writeOutcome(task, callback, reply, performance.now() - began)
  }

  private async send(
    { owner }: StoredTask, { url, id, body }: Message,
    admit: (addresses: readonly string[]) => boolean,
  ): Promise<CallbackReply> {
    const { sender, secrets } = this.settings
    const signed = signedHeaders(await secrets(owner), id, Date.now(), body)
    const headers = { 'content-type': 'application/json', ...signed }
    return sender.send({ url, headers, body, signal: this.closing.signal, admit })
  }

  private async writeOutcome(
    task: StoredTask, callback: CallbackDetails,
    reply: Exclude<CallbackReply, { readonly fault: 'busy' }>, ms: number,
  ): Promise<void> {
    const { attempts: maxAttempts, backoff } = this.settings
    const { url, first = 1, attempts: before } = callback
    const attempts = before + 1
    const tried = attempts - first + 1
    const now = Date.now()
    const outcome = classifyReply(reply, { tried, left: maxAttempts - tried, backoff }, now)
    const status = 'status' in reply ? reply.status : undefined
    const fault = outcome.kind === 'delivered' ? undefined : outcome.fault
    if (callbackEvents.hasSubscribers) {
      callbackEvents.publish({
        outcome: outcome.kind, taskId: task.id, owner: task.owner, host: new URL(url).host,
        attempt: attempts, status, fault, ms,
      } satisfies CallbackEvent)
    }
    const seen = { url, attempts, first, ...status !== undefined && { lastStatus: status } }
    const next: CallbackDetails = outcome.kind === 'delivered'
      ? { ...seen, state: 'delivered', deliveredAt: now }
      : { ...seen, state: outcome.kind === 'retry' ? 'pending' : 'failed', fault }
    await this.write(task, {
      details: stored({ ...detailsOf(task), callback: next }),
      callbackMs: outcome.kind === 'retry' ? outcome.delayMs : null,
    })
  }

  /** Makes the attempt later, because a limit is reached. */
  private postpone(task: StoredTask, callback: CallbackDetails): Promise<void> {
    const { postponed = 0 } = callback
    const maxMs = Math.min(POSTPONE_MS * 2 ** Math.min(postponed, 16), MAX_POSTPONE_MS)
    const next = { ...callback, postponed: postponed + 1 }
    return this.write(task, {
      details: stored({ ...detailsOf(task), callback: next }), isHidden: true,
      callbackMs: Math.round(maxMs * (0.5 + Math.random() / 2)),
    })
  }

  /**
   * Writes a change of this attempt, and repeats it while the engine is unavailable. If that fails
   * for long, the attempt is made again.
   */
  private async write(task: StoredTask, change: TaskChange): Promise<void> {
    await this.core.persist(task, { callbackRun: task.callbackRun }, change)
  }
}

function messageOf(task: StoredTask, { url }: CallbackDetails): Message {
  const { id, status: state, finishedAt = task.createdAt, result } = task
  const { round = task.birth, error } = detailsOf(task)
  if (state === 'queued' || state === 'processing') {
    throw new TypeError('Only a task that has ended has a callback to send')
  }
  return { url, id: messageId(id, round), body: messageBody({ id, state, finishedAt, result, error }) }
}

/** Maximum numbers of concurrent requests. */
interface InFlightLimits {
  readonly maxInFlight: number
  /** Limit for each receiver: for one host name, regardless of port, and for one address. */
  readonly maxPerHost: number
  readonly maxPerOwner: number
}

/** Permission to make one request. */
interface Slot {
  /**
   * Counts the request against the addresses of its host name. Returns `false` if one of them has
   * reached `maxPerHost`; the request must not be made then.
   */
  readonly admit: (addresses: readonly string[]) => boolean
  /** Releases the slot. May be called twice. */
  readonly release: () => void
}

/** Limits concurrent requests, so that slow receivers delay only the owner that uses them. */
class InFlightLimiter {
  private readonly counts = new KeyCounts()
  private inFlight = 0

  constructor(private readonly limits: InFlightLimits) {}

  /**
   * Acquires a slot for a request to a host name or address. Returns `undefined` if a limit is
   * reached.
   */
  acquire(host: string, owner: string | undefined): Slot | undefined {
    const { maxInFlight, maxPerHost, maxPerOwner } = this.limits
    const ownerKey = `owner ${owner === undefined ? '' : `=${owner}`}`
    const hostKey = `host ${host}`
    if (
      this.inFlight >= maxInFlight ||
      this.isFull(ownerKey, maxPerOwner) ||
      this.isFull(hostKey, maxPerHost)
    ) {
      return undefined
    }
    this.inFlight++
    const held = [ownerKey, hostKey]
    held.forEach((key) => { this.counts.add(key) })
    let left = false
    return {
      admit: (addresses) => {
        const keys = [...new Set(addresses.map((address) => `address ${address}`))]
        if (keys.some((key) => this.isFull(key, maxPerHost))) return false
        keys.forEach((key) => { this.counts.add(key) })
        held.push(...keys)
        return true
      },
      release: () => {
        if (left) return
        left = true
        this.inFlight--
        held.forEach((key) => { this.counts.remove(key) })
      },
    }
  }

  private isFull(key: string, max: number): boolean {
    return this.counts.get(key) >= max
  }
}
