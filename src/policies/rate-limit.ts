import { channel } from 'node:diagnostics_channel'
import { withHeaders } from '../http/response-headers.js'
import { isPending, type MaybePromise } from '../runtime/maybe-promise.js'
import { withContext } from '../http/derived-request.js'
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

/** One limit: so much in so many seconds. */
export interface RateLimitPolicy<C = unknown> {
  /**
   * Stands in the headers and in the store's keys: a token of up to 64 characters, such as
   * `default`.
   */
  readonly name: string
  /** Requests, or whatever `cost` counts, in one window. */
  readonly limit: number
  readonly windowSeconds: number
  /**
   * What a request costs, a whole number from 0 on; read from its head. Default 1. For bytes:
   * `bodyBytes()`. What only the handler can know it charges with `consume`.
   */
  readonly cost?: (request: HttpRequest<C>) => number
  /**
   * Whom it is counted for. Default `principal`: the subject, and the address of those whom nobody
   * knows.
   */
  readonly by?: LimitBy<C>
}

/** What is counted, where, and what happens when it can't be. */
export interface RateLimitOptions<C = unknown> extends ClientAddressOptions {
  readonly store: Store
  /**
   * Tried in this order up to the first that refuses; those behind it are not charged then. The
   * tightest first.
   */
  readonly policies: readonly RateLimitPolicy<C>[]
  /**
   * What happens while the store is away: requests pass unlimited (`allow`), or are answered with
   * its 503 (`deny`). Has to be chosen.
   */
  readonly onStoreError: 'allow' | 'deny'
  /** In front of the keys in the store. Default `rl`. */
  readonly prefix?: string
}

/**
 * What `diagnostics_channel` `longhaul:rate-limit` tells of each refusal, and of each request that
 * passed because the store was away.
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
const POLICY = { name: 0, limit: 0, windowSeconds: 0, cost: 0, by: 0 } satisfies Record<keyof RateLimitPolicy, 0>
const OUTER = { requestId: 'what is refused here would have no id' }
const BEHIND = { ...OUTER, authenticate: 'it counts by principal, and nobody is known there yet' }

/**
 * Refuses what is too much: 429 `too_many_requests` with `Retry-After` (RFC 6585 section 4). Counts
 * in fixed windows that begin with the first request, with one atomic increment for each policy, so
 * that no window ever lets more pass, whatever the number of processes on the store. All answers
 * carry `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10). A request
 * that costs more than a whole window is 413 `body_too_large`.
 * @throws {TypeError} for options that make no sense, and while `onStoreError` is not chosen
 */
export function rateLimit<C = unknown>(options: RateLimitOptions<C>): Policy<C> {
  checkNames('rateLimit', options, KNOWN)
  const { store, policies, onStoreError, prefix = 'rl', trustedProxies, ipv6Prefix } = options
  if (onStoreError !== 'allow' && onStoreError !== 'deny') {
    throw new TypeError("rateLimit: choose onStoreError, 'allow' to let requests pass while the store is away, or 'deny' to answer 503")
  }
  if (typeof store?.increment !== 'function') throw new TypeError('rateLimit: pass a store, such as memory().store')
  if (!(policies?.length > 0)) throw new TypeError('rateLimit: name at least one policy')
  if (!/^[\w.:-]{1,64}$/.test(prefix)) throw new TypeError('rateLimit: prefix must be 1 to 64 letters, digits and . : _ -')
  policies.forEach(check)
  if (new Set(policies.map(({ name }) => name)).size < policies.length) throw new TypeError('rateLimit: two policies have one name')
  const addressOf = clientAddress({ ...trustedProxies && { trustedProxies }, ...ipv6Prefix !== undefined && { ipv6Prefix } })
  const announced = policies.map(({ name, limit, windowSeconds }) => `"${name}";q=${limit};w=${windowSeconds}`).join(', ')
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
    return taking.then(() => go(charge, request, next), (error: unknown) => failed(error, charge, request, next))
  }
  const go = (charge: Charge<C>, request: HttpRequest<C>, next: Handler<C>): ReturnType<Policy<C>> =>
    withHeaders(next, withContext(request, { [Charge.key]: charge }), (headers) => { tellLeft(headers, charge) })
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
    headers['ratelimit-policy'] = policiesBehind === undefined ? announced : `${String(policiesBehind)}, ${announced}`
    const { field } = charge
    if (field !== '') headers['ratelimit'] = behind === undefined ? field : `${String(behind)}, ${field}`
  }
  const byPrincipal = policies.some(({ by = 'principal' }) => by === 'principal')
  const place: PolicyPlace = { name: 'rateLimit', behind: byPrincipal ? BEHIND : OUTER }
  return Object.assign(policy, { place, describe: adding(RATE_FIELDS, failing('too_many_requests')) })
}

/**
 * Charges what a handler has found out late, such as the number of records in a body, before it
 * acts on it. Counts for all the policies, or for the one named, that `rateLimit` has applied to
 * this request; does nothing where there is none.
 * @throws {HttpError} 429 `too_many_requests`: nothing more may be done, and nothing was charged
 */
export function consume(request: HttpRequest<unknown>, amount: number, policy?: string): MaybePromise<void> {
  if (!Number.isSafeInteger(amount) || amount < 0) throw new TypeError('consume: the amount must be a whole number from 0 on')
  return chargeOf(request)?.more(amount, policy)
}

function chargeOf(request: HttpRequest<unknown>): Charge | undefined {
  return (request.context as { readonly [Charge.key]?: Charge } | null | undefined)?.[Charge.key]
}

/**
 * A `cost` by the length of the body: one for each `unit` bytes begun, at least one; one where no
 * length is announced.
 */
export function bodyBytes(unit = 1024): (request: HttpRequest) => number {
  if (!(Number.isSafeInteger(unit) && unit > 0)) throw new TypeError('bodyBytes: unit must be a whole number of bytes above 0')
  return ({ headers }) => {
    const length = Number(headers['content-length'] ?? 0)
    return Number.isSafeInteger(length) ? Math.max(1, Math.ceil(length / unit)) : 1
  }
}

function check<C>(policy: RateLimitPolicy<C>): void {
  checkNames('rateLimit: a policy', policy, POLICY)
  const { name, limit, windowSeconds } = policy
  if (typeof name !== 'string' || !isToken(name) || name.length > 64) throw new TypeError('rateLimit: the name of a policy must be a token of up to 64 characters')
  if (!(Number.isSafeInteger(limit) && limit > 0)) throw new TypeError(`rateLimit: the limit of ${name} must be a whole number above 0`)
  if (!(Number.isSafeInteger(windowSeconds) && windowSeconds > 0)) throw new TypeError(`rateLimit: windowSeconds of ${name} must be a whole number above 0`)
}

function tell(outcome: RateLimitEvent['outcome'], policy: string | undefined, { method, path }: HttpRequest, error: unknown): void {
  if (events.hasSubscribers) events.publish({ outcome, policy, method, path, error } satisfies RateLimitEvent)
}
