import type { StoredTask, TaskChange } from '../engine/task.js'
import { detailsOf, stored, type CallbackDetails } from '../tasks/record/details.js'
import { isFinalTask, type TaskCore } from '../tasks/core/task-core.js'
import { reportError } from '../tasks/record/diagnostics.js'
import { callbackEvents, type CallbackEvent } from './diagnostics.js'
import { InFlightLimiter, type InFlightLimits } from './limiters.js'
import { checkSecrets, messageBody, messageId, signedHeaders } from './message.js'
import type { CallbackSettings } from './options.js'
import { classifyReply } from './reply-outcome.js'
import type { CallbackReply } from './sender.js'

/** Minimum and maximum delay of an attempt that exceeds a limit, in milliseconds. */
const POSTPONE_MS = 250
const MAX_POSTPONE_MS = 15_000

/** A callback as it is sent. */
interface Message {
  readonly url: string
  readonly id: string
  readonly body: string
}

/**
 * Sends the callbacks that the engine hands out. The engine keeps when each is due, so nothing waits
 * here, and a process that dies loses no callback: another one sends it again after a minute.
 */
export class Deliveries {
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
