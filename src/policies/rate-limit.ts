import { channel } from 'node:diagnostics_channel'
import { withHeaders } from '../http/respond.js'
import { isPending, type MaybePromise } from '../runtime/maybe-promise.js'
import { withContext } from '../http/request.js'
import type {
  Handler, HttpRequest, Policy, PolicyPlace, ResponseHeaders,
} from '../http/exchange.js'
import { checkNames } from '../runtime/option-names.js'
import { isToken } from '../http/fields/reader.js'
import { isStoreUnavailable, type Store } from '../stores/store.js'
import { clientAddress, type ClientAddressOptions } from '../http/client-address.js'
import { adding, failing, RATE_FIELDS } from './describe.js'
import { Charge, type Limit } from './charge.js'
import { limitKeys, type LimitBy } from './limit-key.js'

/** One limit: a number of requests in a number of seconds. */
export interface RateLimitPolicy<C = unknown> {
  /**
   * Name in the header fields and in the keys of the store: a token of up to 64 characters, such as
   * `default`.
   */
  readonly name: string
  /** Requests in one window, or units of `cost`. */
  readonly limit: number
  readonly windowSeconds: number
  /**
   * Returns the cost of a request from its head, a whole number from 0. Use `bodyBytes()` to count
   * bytes, and `consume` for costs that only the handler knows. Default: 1.
   */
  readonly cost?: (request: HttpRequest<C>) => number
  /**
   * The caller that is counted. Default `principal`: its subject, or the address of an anonymous
   * client.
   */
  readonly by?: LimitBy<C>
}

/** Options of `rateLimit`. */
export interface RateLimitOptions<C = unknown> extends ClientAddressOptions {
  /** Keeps the counters. Processes that share it share the limits. */
  readonly store: Store
  /**
   * The limits, in this order; name the tightest first. If one refuses, those after it are not
   * charged.
   */
  readonly policies: readonly RateLimitPolicy<C>[]
  /** While the store fails, `allow` lets requests pass without a limit, and `deny` answers 503. */
  readonly onStoreError: 'allow' | 'deny'
  /**
   * Prefix of the keys in the store.
   * @default 'rl'
   */
  readonly prefix?: string
}

/**
 * A message of the diagnostics channel `longhaul:rate-limit`: a request was refused, or passed
 * because the store failed.
 */
export interface RateLimitEvent {
  readonly outcome: 'refused' | 'store_away'
  /** The name of the policy that refused. */
  readonly policy: string | undefined
  readonly method: string
  readonly path: string
  readonly error: unknown
}

const events = channel('longhaul:rate-limit')
const KNOWN = {
  store: 0, policies: 0, onStoreError: 0, prefix: 0, trustedProxies: 0, ipv6Prefix: 0,
} satisfies Record<keyof RateLimitOptions, 0>
const POLICY = {
  name: 0, limit: 0, windowSeconds: 0, cost: 0, by: 0,
} satisfies Record<keyof RateLimitPolicy, 0>
const OUTER = { requestId: 'what is refused here would have no id' }
const BEHIND = {
  ...OUTER, authenticate: 'it counts by principal, and the client is not authenticated there yet',
}

/**
 * Limits requests: 429 `too_many_requests` with `Retry-After` (RFC 6585 section 4). Each window is
 * fixed and begins with the first request. One atomic increment counts a request, so the limit
 * holds for all processes on the store. All answers have `RateLimit-Policy` and `RateLimit`
 * (draft-ietf-httpapi-ratelimit-headers-10). A request that costs more than a whole window is 413
 * `body_too_large`.
 *
 * @example
 * const policies = [{ name: 'default', limit: 100, windowSeconds: 60 }]
 * compose(rateLimit({ store, policies, onStoreError: 'allow' }), handler)
 *
 * @throws {TypeError} `store`, `policies` or `onStoreError` is missing, a limit is not valid, or an
 * option is unknown.
 */
export function rateLimit<C = unknown>(options: RateLimitOptions<C>): Policy<C> {
  checkNames('rateLimit', options, KNOWN)
  const { store, policies, onStoreError, prefix = 'rl', trustedProxies, ipv6Prefix } = options
  if (onStoreError !== 'allow' && onStoreError !== 'deny') {
    throw new TypeError("rateLimit: choose onStoreError, 'allow' to let requests pass while the store is away, or 'deny' to answer 503")
  }
  if (typeof store?.increment !== 'function') {
    throw new TypeError('rateLimit: pass a store, such as memory().store')
  }
  if (!(policies?.length > 0)) throw new TypeError('rateLimit: name at least one policy')
  if (!/^[\w.:-]{1,64}$/.test(prefix)) {
    throw new TypeError('rateLimit: prefix must be 1 to 64 letters, digits and . : _ -')
  }
  policies.forEach(check)
  if (new Set(policies.map(({ name }) => name)).size < policies.length) {
    throw new TypeError('rateLimit: two policies have one name')
  }
  const addressOf = clientAddress({
    ...trustedProxies && { trustedProxies }, ...ipv6Prefix !== undefined && { ipv6Prefix },
  })
  const announced = policies
    .map(({ name, limit, windowSeconds }) => `"${name}";q=${limit};w=${windowSeconds}`)
    .join(', ')
  const limits = policies.map(({ name, limit, windowSeconds, cost, by = 'principal' }): Limit<C> =>
    ({ name, limit, windowMs: windowSeconds * 1000, cost, keyOf: limitKeys(`${prefix}:${name}`, by, addressOf) }))

  const passes = (error: unknown): boolean => onStoreError === 'allow' && isStoreUnavailable(error)

  const policy: Policy<C> = (request, next) => {
    const charge = new Charge(store, limits, passes, chargeOf(request))
    let taking: MaybePromise<void>
    try {
      taking = charge.take(request)
    } catch (error) {
      return failed(error, charge, request, next)
    }
    if (!isPending(taking)) return go(charge, request, next)
    return taking.then(
      () => go(charge, request, next), (error: unknown) => failed(error, charge, request, next),
    )
  }
  const go = (charge: Charge<C>, request: HttpRequest<C>, next: Handler<C>): ReturnType<Policy<C>> =>
    withHeaders(
      next,
      withContext(request, { [Charge.key]: charge }),
      (headers) => { tellLeft(headers, charge) },
    )
  const failed = (error: unknown, charge: Charge<C>, request: HttpRequest<C>, next: Handler<C>): ReturnType<Policy<C>> => {
    if (passes(error)) {
      tell('store_away', undefined, request, error)
      return next(request)
    }
    if (charge.refusedBy !== undefined) tell('refused', charge.refusedBy, request, undefined)
    return withHeaders(() => { throw error }, request, (headers) => { tellLeft(headers, charge) })
  }
  const tellLeft = (headers: ResponseHeaders, charge: Charge<C>): void => {
    // Beside what a rateLimit behind this one has said.
    const { 'ratelimit-policy': policiesBehind, ratelimit: behind } = headers
    headers['ratelimit-policy'] = policiesBehind === undefined
      ? announced
      : `${String(policiesBehind)}, ${announced}`
    const { field } = charge
    if (field !== '') {
      headers['ratelimit'] = behind === undefined ? field : `${String(behind)}, ${field}`
    }
  }
  const byPrincipal = policies.some(({ by = 'principal' }) => by === 'principal')
  const place: PolicyPlace = { name: 'rateLimit', behind: byPrincipal ? BEHIND : OUTER }
  return Object.assign(policy, {
    place, describe: adding(RATE_FIELDS, failing('too_many_requests')),
  })
}

/**
 * Charges a cost that only the handler knows, such as the number of records in a body. Call it
 * before the work. It charges all limits of `rateLimit` around this handler, or only the one named.
 * Without `rateLimit` it does nothing.
 *
 * @example
 * await consume(request, users.length)
 *
 * @throws {HttpError} 429 `too_many_requests`: do nothing more. Nothing was charged.
 */
export function consume(
  request: HttpRequest<unknown>, amount: number, policy?: string,
): MaybePromise<void> {
  if (!Number.isSafeInteger(amount) || amount < 0) {
    throw new TypeError('consume: the amount must be a whole number from 0 on')
  }
  return chargeOf(request)?.more(amount, policy)
}

function chargeOf(request: HttpRequest<unknown>): Charge | undefined {
  return (request.context as { readonly [Charge.key]?: Charge } | null | undefined)?.[Charge.key]
}

/**
 * Creates a `cost` from the length of a body: 1 for each started `unit` bytes, at least 1. A body
 * without `Content-Length` costs 1.
 *
 * @example
 * const policies = [{ name: 'kib', limit: 10_240, windowSeconds: 60, cost: bodyBytes() }]
 * rateLimit({ store, policies, onStoreError: 'deny' })
 *
 * @throws {TypeError} `unit` is not a whole number above 0.
 */
export function bodyBytes(unit = 1024): (request: HttpRequest) => number {
  if (!(Number.isSafeInteger(unit) && unit > 0)) {
    throw new TypeError('bodyBytes: unit must be a whole number of bytes above 0')
  }
  return ({ headers }) => {
    const length = Number(headers['content-length'] ?? 0)
    return Number.isSafeInteger(length) ? Math.max(1, Math.ceil(length / unit)) : 1
  }
}

function check<C>(policy: RateLimitPolicy<C>): void {
  checkNames('rateLimit: a policy', policy, POLICY)
  const { name, limit, windowSeconds } = policy
  if (typeof name !== 'string' || !isToken(name) || name.length > 64) {
    throw new TypeError('rateLimit: the name of a policy must be a token of up to 64 characters')
  }
  if (!(Number.isSafeInteger(limit) && limit > 0)) {
    throw new TypeError(`rateLimit: the limit of ${name} must be a whole number above 0`)
  }
  if (!(Number.isSafeInteger(windowSeconds) && windowSeconds > 0)) {
    throw new TypeError(`rateLimit: windowSeconds of ${name} must be a whole number above 0`)
  }
}

function tell(
  outcome: RateLimitEvent['outcome'],
  policy: string | undefined,
  { method, path }: HttpRequest,
  error: unknown,
): void {
  if (events.hasSubscribers) {
    events.publish({ outcome, policy, method, path, error } satisfies RateLimitEvent)
  }
}
