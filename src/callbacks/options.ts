import type { MaybePromise } from '../runtime/maybe-promise.js'
import { checkNames } from '../runtime/option-names.js'
import { checkBackoff } from '../queues/backoff.js'
import type { Backoff, Queue } from '../queues/queue.js'
import type { CallbackHost } from '../tasks/record/callbacks.js'
import type { CallbackSender } from './sender.js'

/** How callbacks are made. Times are in milliseconds. */
export interface CallbackOptions {
  /**
   * The secrets that requests for this owner's tasks are signed with, newest first: one, or several
   * while they are being changed. Each is base64, with or without `whsec_` (Standard Webhooks).
   * Asked at each attempt.
   */
  readonly secrets: (owner: string | undefined) => MaybePromise<readonly string[]>
  /** Makes the requests: `httpSender` with options, or one of your own. Default: `httpSender()`. */
  readonly sender?: CallbackSender
  /**
   * Where callbacks wait. Default: the queue of the tasks; one of its own keeps receivers that are
   * slow or gone from taking room and workers from tasks.
   */
  readonly queue?: Queue
  /**
   * How often one callback is tried. Default 14, which with the default back-off takes some 9
   * hours.
   */
  readonly attempts?: number
  /**
   * Default: exponential from 5 s up to 6 h, 0.3 of it random. A longer `Retry-After` is waited
   * for, up to a day.
   */
  readonly backoff?: Backoff
  /**
   * Requests under way at once in this process. Default: 20 with a queue of its own, else half of
   * the tasks' `concurrency`.
   */
  readonly maxInFlight?: number
  /**
   * Requests under way at once to one receiver in this process: to one host name, whatever its
   * port, and to one address. Default 4, and less than `maxInFlight`.
   */
  readonly maxPerHost?: number
  /**
   * Requests under way at once for one owner in this process; tasks without an owner count as one
   * owner's. Default: three quarters of `maxInFlight`.
   */
  readonly maxPerOwner?: number
  /**
   * Callbacks that may wait in the memory of this process, where the queue is not durable. One more
   * is given up with the fault `no_room`. Default 500.
   */
  readonly maxWaiting?: number
  /** Of these, callbacks of one owner. Default: half of `maxWaiting`. */
  readonly maxWaitingPerOwner?: number
}

/** The names of these. */
export const CALLBACK_OPTIONS = {
  secrets: 0, sender: 0, queue: 0, attempts: 0, backoff: 0, maxInFlight: 0, maxPerHost: 0, maxPerOwner: 0,
  maxWaiting: 0, maxWaitingPerOwner: 0,
} satisfies Record<keyof CallbackOptions, 0>

const BACKOFF = { type: 0, delayMs: 0, maxDelayMs: 0, jitter: 0 } satisfies Record<keyof Backoff, 0>

/** The options of whom a sender has been found for. */
export type ResolvedOptions = CallbackOptions & { readonly sender: CallbackSender }

/** The options with their defaults. */
export interface CallbackSettings extends Required<CallbackOptions> {
  readonly ownQueue: boolean
}

/** Throws a `TypeError` when an option makes no sense by itself. */
export function checkOptions(options: ResolvedOptions): void {
  const { sender, secrets, backoff } = options
  const { attempts, maxInFlight, maxPerHost, maxPerOwner, maxWaiting, maxWaitingPerOwner } = options
  const fault = (what: string) => new TypeError(`callbacks: ${what}`)
  if (typeof sender?.send !== 'function' || typeof sender.check !== 'function') {
    throw fault('sender must be a CallbackSender, such as httpSender() of longhaul/callbacks')
  }
  if (typeof secrets !== 'function') throw fault('secrets must be a function from an owner to a list of secrets')
  for (const [name, value = 1] of Object.entries({
    attempts, maxInFlight, maxPerHost, maxPerOwner, maxWaiting, maxWaitingPerOwner,
  })) {
    if (!Number.isInteger(value) || value < 1) throw fault(`${name} must be a whole number from 1, not ${String(value)}`)
  }
  if (backoff === undefined) return
  checkNames('callbacks: backoff', backoff, BACKOFF)
  checkBackoff(backoff)
}

/** Fills in defaults. Throws a `TypeError` when the options don't go with these tasks. */
export function callbackSettings(options: ResolvedOptions, { queue: queueOfTasks, shared, concurrency }: CallbackHost): CallbackSettings {
  const fault = (what: string) => new TypeError(`createTasks: ${what}`)
  const { sender, secrets, queue = queueOfTasks, attempts = 14, maxWaiting = 500 } = options
  const { backoff = { type: 'exponential', delayMs: 5000, maxDelayMs: 21_600_000, jitter: 0.3 } } = options
  const ownQueue = queue !== queueOfTasks
  const { maxInFlight = ownQueue ? 20 : Math.max(1, Math.floor(concurrency / 2)) } = options
  const { maxPerHost = Math.max(1, Math.min(4, maxInFlight - 1)) } = options
  const { maxPerOwner = Math.max(1, Math.floor(maxInFlight * 3 / 4)) } = options
  const { maxWaitingPerOwner = Math.max(1, Math.floor(maxWaiting / 2)) } = options
  if (queueOfTasks.durable && !queue.durable) {
    throw fault('the queue of callbacks is not durable but that of the tasks is; callbacks would be lost with this process')
  }
  if (queue.durable && !shared) throw fault('the queue of callbacks spans processes but the store does not')
  return {
    sender, secrets, queue, ownQueue, attempts, backoff, maxInFlight, maxPerHost, maxPerOwner, maxWaiting, maxWaitingPerOwner,
  }
}
