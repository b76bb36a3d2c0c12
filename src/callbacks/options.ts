import type { MaybePromise } from '../runtime/maybe-promise.js'
import { func, value, whole, type OptionTable } from '../runtime/options.js'
import type { Backoff } from '../tasks/definition/define.js'

/** Options of `callbacks`. */
export interface CallbackOptions {
  /**
   * Returns the secrets that sign requests for this owner's tasks, newest first; several while one
   * is being replaced. Each is base64, with or without `whsec_` (Standard Webhooks).
   *
   * With tenants, let them depend on the tenant: owners of two tenants may have one id.
   *
   * Called only when a task gets a callback URL, and for each delivery. So a malformed secret does
   * not fail at start: the request with the URL gets a 500.
   */
  readonly secrets: (
    owner: string | undefined, tenant: string | undefined,
  ) => MaybePromise<readonly string[]>
  /** Sends the requests. Default: `httpSender()`. */
  readonly sender?: CallbackSender
  /** Maximum number of attempts for one callback. Default 14, with the default back-off 9 hours. */
  readonly attempts?: number
  /**
   * Delay between attempts. Default: exponential from 5 s to 6 h with a jitter of 0.3.
   *
   * A longer `Retry-After` takes precedence, up to one day.
   */
  readonly backoff?: Backoff
  /** Maximum number of concurrent requests in this process. Default 20. */
  readonly maxInFlight?: number
  /**
   * Maximum number of concurrent requests of this process to one host name, regardless of port, and
   * to one address. Default 4, and less than `maxInFlight`.
   *
   * One owner, or one tenant, may use three quarters of them, but at least one.
   */
  readonly maxPerHost?: number
  /**
   * Maximum number of concurrent requests of this process for one owner; with tenants, for one tenant. Tasks
   * without an owner count as one. Default: three quarters of `maxInFlight`.
   */
  readonly maxPerOwner?: number
}

const isSender = (given: unknown): boolean => {
  const { send, check } = (given ?? {}) as Partial<CallbackSender>
  return typeof send === 'function' && typeof check === 'function'
}

const BACKOFF: Backoff = { type: 'exponential', delayMs: 5000, maxDelayMs: 21_600_000, jitter: 0.3 }

export const OPTIONS = {
  secrets: func({ required: true }),
  sender: value('a CallbackSender, such as httpSender()', isSender),
  attempts: whole({ min: 1, default: 14 }),
  backoff: value('a back-off', (given) => typeof given === 'object' && given !== null, {
    default: BACKOFF,
  }),
  maxInFlight: whole({ min: 1, default: 20 }),
  maxPerHost: whole({ min: 1 }), maxPerOwner: whole({ min: 1 }),
} satisfies OptionTable<CallbackOptions>

/** Sends callback requests over the network, such as `httpSender()`. */
export interface CallbackSender {
  /**
   * Called when a task is accepted. Does not check the addresses of a name: `send` does, each time.
   * @throws {HttpError} `invalid_callback_url` or `callback_url_forbidden` (400)
   */
  check(url: unknown): void
  /** Makes one POST request, without redirects. Rejects only with the reason of `signal`. */
  send(request: CallbackRequest): Promise<CallbackReply>
}

/** One callback request. */
export interface CallbackRequest {
  readonly url: string
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  /** Body, already signed. Send it unchanged. */
  readonly body: string
  readonly signal: AbortSignal
  /**
   * Call with the addresses of the receiver before connecting. If it returns `false`, one of them
   * has reached its limit: `send` must resolve to the fault `busy` without connecting.
   */
  readonly admit: (addresses: readonly string[]) => boolean
}

/** Reason for a request without a response. `forbidden`: the address must not be called. */
export type SendFault = 'forbidden' | 'unreachable' | 'timeout'

/** Outcome of one request: a status, a fault, or `busy` if `admit` returned `false`. */
export type CallbackReply =
  | { readonly status: number; readonly retryAfter?: string | undefined }
  | { readonly fault: SendFault }
  | { readonly fault: 'busy' }
