import type { MaybePromise } from '../runtime/maybe-promise.js'
import { checkNames } from '../runtime/option-names.js'
import { checkBackoff, type Backoff } from '../tasks/definition/define.js'
import type { CallbackSender } from './sender.js'

/** Options of `callbacks`. */
export interface CallbackOptions {
  /**
   * Returns the secrets that sign requests for this owner's tasks, newest first. Return several
   * while a secret is being replaced. Each is base64, with or without `whsec_` (Standard Webhooks).
   * Called for each attempt.
   */
  readonly secrets: (owner: string | undefined) => MaybePromise<readonly string[]>
  /** Sends the requests. Default: `httpSender()`. */
  readonly sender?: CallbackSender
  /**
   * Maximum number of attempts for one callback. Default 14, which takes about 9 hours with the
   * default back-off.
   */
  readonly attempts?: number
  /**
   * Delay between attempts. Default: exponential from 5 s to 6 h with a jitter of 0.3. A longer
   * `Retry-After` takes precedence, up to one day.
   */
  readonly backoff?: Backoff
  /** Maximum number of concurrent requests in this process. Default 20. */
  readonly maxInFlight?: number
  /**
   * Maximum number of concurrent requests to one receiver in this process: to one host name,
   * regardless of port, and to one address. Default 4, and less than `maxInFlight`.
   */
  readonly maxPerHost?: number
  /**
   * Maximum number of concurrent requests for one owner in this process. Tasks without an owner
   * count as one owner. Default: three quarters of `maxInFlight`.
   */
  readonly maxPerOwner?: number
}

/** Names of the options. */
export const CALLBACK_OPTIONS = {
  secrets: 0,
  sender: 0,
  attempts: 0,
  backoff: 0,
  maxInFlight: 0,
  maxPerHost: 0,
  maxPerOwner: 0,
} satisfies Record<keyof CallbackOptions, 0>

const BACKOFF = { type: 0, delayMs: 0, maxDelayMs: 0, jitter: 0 } satisfies Record<keyof Backoff, 0>

/** Options with a sender. */
export type ResolvedOptions = CallbackOptions & { readonly sender: CallbackSender }

/** Options with their defaults applied. */
export type CallbackSettings = Required<CallbackOptions>

/**
 * Checks each option by itself.
 *
 * @throws {TypeError} An option is out of range.
 */
function check(options: ResolvedOptions): void {
  const { sender, secrets, backoff } = options
  const { attempts, maxInFlight, maxPerHost, maxPerOwner } = options
  const fault = (what: string) => new TypeError(`callbacks: ${what}`)
  if (typeof sender?.send !== 'function' || typeof sender.check !== 'function') {
    throw fault('sender must be a CallbackSender, such as httpSender() from longhaul/callbacks')
  }
  if (typeof secrets !== 'function') {
    throw fault('secrets must be a function that returns the secrets of an owner')
  }
  for (const [name, value = 1] of Object.entries({
    attempts, maxInFlight, maxPerHost, maxPerOwner,
  })) {
    if (!Number.isInteger(value) || value < 1) {
      throw fault(`${name} must be a whole number from 1, not ${String(value)}`)
    }
  }
  if (backoff === undefined) return
  checkBackoff('callbacks', backoff)
}

/**
 * Checks the options and applies their defaults.
 *
 * @throws {TypeError} An option is out of range.
 */
export function callbackSettings(options: ResolvedOptions): CallbackSettings {
  check(options)
  const { sender, secrets, attempts = 14, maxInFlight = 20 } = options
  const { backoff = { type: 'exponential', delayMs: 5000, maxDelayMs: 21_600_000, jitter: 0.3 } } =
    options
  const { maxPerHost = Math.max(1, Math.min(4, maxInFlight - 1)) } = options
  const { maxPerOwner = Math.max(1, Math.floor((maxInFlight * 3) / 4)) } = options
  return { sender, secrets, attempts, backoff, maxInFlight, maxPerHost, maxPerOwner }
}
