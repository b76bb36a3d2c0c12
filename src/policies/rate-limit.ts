import { channel } from 'node:diagnostics_channel'
import { clientAddress, type ClientAddressOptions } from '../http/client-address.js'
import { httpError } from '../http/errors.js'
import type { HttpRequest, Operation, Policy, PolicyPlace, ResponseHeaders } from '../http/exchange.js'
import { isToken } from '../http/headers/reader.js'
import { withContext } from '../http/request.js'
import { withHeaders } from '../http/respond.js'
import { addResponseHeaders, addResponses, header, type Fragment } from '../openapi/operation.js'
import { errorResponses } from '../openapi/responses.js'
import {
  func, hasMethod, oneOf, readOptions, text, value, whole, type OptionTable,
} from '../runtime/options.js'
import { isStoreUnavailable, type Store } from '../stores/store.js'
import { BY, limitKeys, type LimitBy } from './limits.js'
import { AFTER_ID } from './request-id.js'

export interface RateLimitPolicy<C = unknown> {
  /**
   * Name in headers and in keys of the store: a token of up to 64 characters, such as `default`.
   */
  readonly name: string
  /** Requests in one window, or units of `cost`. */
  readonly limit: number
  readonly windowSeconds: number
  /**
   * Returns the cost of a request from its headers, a whole number from 0, such as `bodyBytes()`.
   * For costs that only the handler knows, use `consume`. Default: 1.
   */
  readonly cost?: (request: HttpRequest<C>) => number
  /**
   * The caller that is counted. Default `principal`: its tenant, else its subject, else the address of
   * the client.
   */
  readonly by?: LimitBy<C>
}

/** Options of `rateLimit`. */
export interface RateLimitOptions<C = unknown> extends ClientAddressOptions {
  /** Keeps the counters. Processes that share it share the limits. */
  readonly store: Store
  /**
   * The limits, the tightest first.
   *
   * If one rejects a request, those after it are not charged.
   */
  readonly policies: readonly RateLimitPolicy<C>[]
  /** While the store fails, `allow` lets requests pass without a limit, and `deny` responds with 503. */
  readonly onStoreError: 'allow' | 'deny'
  /** Prefix of the keys in the store. Default: 'rl'. */
  readonly prefix?: string
}

/** Message of the channel `longhaul:rate-limit`: a request was rejected, or the store failed. */
export interface RateLimitEvent {
  readonly outcome: 'refused' | 'store_away'
  /** The name of the policy that rejected the request. */
  readonly policy: string | undefined
  readonly method: string
  readonly path: string
  readonly error: unknown
}

const events = channel('longhaul:rate-limit')

const OPTIONS = {
  store: value('a store, such as memory().store', hasMethod('increment'), { required: true }),
  policies: value('a list of one or more limits, such as [{ name, limit, windowSeconds }]', (policies) => (
    Array.isArray(policies) && policies.length > 0
  ), { required: true }),
  onStoreError: oneOf(['allow', 'deny'], { required: true }),
  prefix: text({
    default: 'rl', pattern: /^[\w.:-]{1,64}$/, expects: '1 to 64 letters, digits and . : _ -',
  }),
  trustedProxies: value(),
  ipv6Prefix: value(),
} satisfies OptionTable<RateLimitOptions>

const POLICY = {
  name: value('a token of up to 64 characters', (name) => (
    typeof name === 'string' && isToken(name) && name.length <= 64
  ), { required: true }),
  limit: whole({ min: 1, required: true }),
  windowSeconds: whole({ min: 1, required: true }),
  cost: func(),
  by: BY,
} satisfies OptionTable<RateLimitPolicy>

const FIELDS = {
  'RateLimit-Policy': header(
    'The limits that apply (RateLimit headers for HTTP, draft of the IETF)',
  ),
  'RateLimit': header('What is left of each, and for how long'),
}
const NO_PRINCIPAL = 'it counts by principal, and the client is not authenticated there yet'

/**
 * Limits requests: 429 `too_many_requests` with `Retry-After` (RFC 6585 section 4). Each window is
 * fixed and begins with its first request. One atomic increment counts a request for all processes
 * on the store. Responses have `RateLimit-Policy` and `RateLimit`
 * (draft-ietf-httpapi-ratelimit-headers-10). A cost above the limit gets 413 `body_too_large`.
 * @example
 * const policies = [{ name: 'default', limit: 100, windowSeconds: 60 }]
 * compose(rateLimit({ store, policies, onStoreError: 'allow' }), handler)
 * @throws {TypeError} A required option is missing, a limit is not valid, or an option is unknown.
 */
export function rateLimit<C = unknown>(options: RateLimitOptions<C>): Policy<C> {
  const { store, policies, onStoreError, prefix, trustedProxies, ipv6Prefix } =
    readOptions('rateLimit', options, OPTIONS)
  const addressOf = clientAddress({
    ...trustedProxies && { trustedProxies }, ...ipv6Prefix !== undefined && { ipv6Prefix },
  })
  const limits = policies.map((policy): Limit<C> => {
    const read = readOptions('rateLimit: a policy', policy, POLICY)
    return { ...read, keyOf: limitKeys<C>(`${prefix}:${read.name}`, read.by, addressOf) }
  })
  if (new Set(limits.map(({ name }) => name)).size < limits.length) {
    throw new TypeError('rateLimit: two policies have one name')
  }
  const announced = limits
    .map(({ name, limit, windowSeconds }) => `"${name}";q=${limit};w=${windowSeconds}`)
    .join(', ')
  const passes = (error: unknown): boolean => onStoreError === 'allow' && isStoreUnavailable(error)

  const policy: Policy<C> = async (request, next) => {
    const charge = new Charge<C>(store, limits, passes, chargeOf(request))
    const addLeft = (headers: ResponseHeaders): void => {
      append(headers, 'ratelimit-policy', announced)
      append(headers, 'ratelimit', charge.left())
    }
    try {
      await charge.take(request)
    } catch (error) {
      if (passes(error)) {
        publish('store_away', undefined, request, error)
        return next(request)
      }
      const { rejectedBy } = charge
      if (rejectedBy !== undefined) publish('refused', rejectedBy, request, undefined)
      return withHeaders(() => { throw error }, request, addLeft)
    }
    return withHeaders(next, withContext(request, { [CHARGE]: charge }), addLeft)
  }
  const byPrincipal = limits.some(({ by }) => by === 'principal')
  const place: PolicyPlace = {
    name: 'rateLimit', behind: { ...AFTER_ID, ...byPrincipal && { authenticate: NO_PRINCIPAL } },
  }
  const { 429: tooMany } = errorResponses('too_many_requests')
  const rejected = { ...tooMany, headers: { ...tooMany?.['headers'] as Fragment, ...FIELDS } }
  const describe = (operation: Operation) => (
    addResponseHeaders(addResponses(operation, { 429: rejected }), FIELDS)
  )
  return Object.assign(policy, { place, describe })
}

function append(headers: ResponseHeaders, name: string, added: string): void {
  const before = headers[name]
  if (added !== '') headers[name] = before === undefined ? added : `${String(before)}, ${added}`
}

/**
 * Charges a cost that only the handler knows, such as the number of records, before the work. It
 * charges all limits of `rateLimit` around this handler, or only the one named.
 * @example
 * await consume(request, users.length)
 * @throws {HttpError} 429 `too_many_requests`: do nothing more. Nothing was charged.
 */
export async function consume(
  request: HttpRequest<unknown>, amount: number, policy?: string,
): Promise<void> {
  if (!Number.isSafeInteger(amount) || amount < 0) {
    throw new TypeError('consume: the amount must be a whole number from 0')
  }
  await chargeOf(request)?.more(amount, policy)
}

/**
 * Creates a `cost` from Content-Length: 1 for each started `unit` bytes, at least 1.
 * @example
 * const policies = [{ name: 'kib', limit: 10_240, windowSeconds: 60, cost: bodyBytes() }]
 * rateLimit({ store, policies, onStoreError: 'deny' })
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

const CHARGE: unique symbol = Symbol('longhaul.charge')

function chargeOf(request: HttpRequest<unknown>): Charge<never> | undefined {
  return (request.context as { readonly [CHARGE]?: Charge<never> } | null | undefined)?.[CHARGE]
}

interface Limit<C> extends RateLimitPolicy<C> {
  readonly keyOf: (request: HttpRequest<C>) => string | undefined
}

/** A counter as read. `resetAt` is the end of its window, on `performance.now()`. */
interface Count {
  readonly value: number
  readonly resetAt: number
}

class Charge<C> {
  rejectedBy: string | undefined
  readonly #keys: (string | undefined)[] = []
  readonly #counts: (Count | undefined)[] = []

  constructor(
    private readonly store: Store, private readonly limits: readonly Limit<C>[],
    private readonly passes: (error: unknown) => boolean,
    private readonly outer: Charge<never> | undefined,
  ) {}

  left(): string {
    return this.limits.flatMap(({ name, limit }, at) => {
      const count = this.#counts[at]
      if (count === undefined) return []
      return `"${name}";r=${Math.max(0, limit - count.value)};t=${secondsTo(count)}`
    }).join(', ')
  }

  /** Charges the cost of the request. Rejects with 429, 413, or the error of the store. */
  async take(request: HttpRequest<C>): Promise<void> {
    for (const [at, { cost, keyOf }] of this.limits.entries()) {
      const key = this.#keys[at] = keyOf(request)
      if (key !== undefined) await this.#takeOne(at, key, cost === undefined ? 1 : cost(request))
    }
  }

  async more(amount: number, policy: string | undefined): Promise<void> {
    await this.outer?.more(amount, policy)
    try {
      for (const [at, key] of this.#keys.entries()) {
        const isMeant = policy === undefined || this.limits[at]?.name === policy
        if (key !== undefined && isMeant) await this.#takeOne(at, key, amount)
      }
    } catch (error) {
      if (!this.passes(error)) throw error
    }
  }

  async #takeOne(at: number, key: string, cost: number): Promise<void> {
    const { name, limit } = this.limits[at] as Limit<C>
    if (!Number.isSafeInteger(cost) || cost < 0) {
      throw new TypeError(`rateLimit: the cost of ${name} must be a whole number from 0`)
    }
    if (cost > limit) {
      const message = `This request costs ${cost}, and the limit is ${limit}.`
      throw httpError('body_too_large', { message })
    }
    // A cost that would not fit is not charged, so the rest is left for smaller requests. A cost of
    // 1 needs no check beforehand, because nothing smaller could use the rest.
    if (cost > 1) {
      const before = await this.#add(at, key, 0)
      if (before.value + cost > limit) this.#reject(name, before)
    }
    const count = await this.#add(at, key, cost)
    if (cost > 0 && count.value > limit) this.#reject(name, count)
  }

  async #add(at: number, key: string, by: number): Promise<Count> {
    const { windowSeconds } = this.limits[at] as Limit<C>
    const { value, resetMs } = await this.store.increment(key, by, { ttlMs: windowSeconds * 1000 })
    return this.#counts[at] = { value, resetAt: performance.now() + resetMs }
  }

  #reject(name: string, count: Count): never {
    this.rejectedBy = name
    throw httpError('too_many_requests', { headers: { 'retry-after': String(secondsTo(count)) } })
  }
}

/** Returns whole seconds, at least 1: with 0 a client would return before the window ends. */
function secondsTo({ resetAt }: Count): number {
  return Math.max(1, Math.ceil((resetAt - performance.now()) / 1000))
}

function publish(
  outcome: RateLimitEvent['outcome'], policy: string | undefined, { method, path }: HttpRequest,
  error: unknown,
): void {
  if (events.hasSubscribers) {
    events.publish({ outcome, policy, method, path, error } satisfies RateLimitEvent)
  }
}
