import { isPending } from '../runtime/maybe-promise.js'
import { httpError } from '../http/errors.js'
import type { Handler, Policy, PolicyPlace } from '../http/exchange.js'
import { KeyCounts } from '../runtime/collections.js'
import { checkNames } from '../runtime/option-names.js'
import { clientAddress } from '../http/client-address.js'
import { failing } from './describe.js'
import { limitKeys, type LimitBy } from './limit-key.js'

/** Options of `limitConcurrency`. */
export interface LimitConcurrencyOptions<C = unknown> {
  /** Maximum number of requests that run at once in this process. */
  readonly maxConcurrent: number
  /**
   * Maximum number of waiting requests, first in, first out.
   * @default 0
   */
  readonly maxQueued?: number
  /**
   * Maximum time that a request waits, in milliseconds.
   * @default 1000
   */
  readonly maxWaitMs?: number
  /**
   * Maximum number of requests of one caller that run or wait at once; more are 429
   * `too_many_requests`. Default: no limit, so one caller can take all places.
   */
  readonly maxPerCaller?: number
  /**
   * The caller that `maxPerCaller` counts. `principal` (default): the subject of the principal,
   * else the network of the connection. `address`: always that network. A function returns a text,
   * or `undefined` for no limit.
   */
  readonly by?: LimitBy<C>
  /**
   * `Retry-After` of the 503 and the 429, in seconds.
   * @default 1
   */
  readonly retryAfterSeconds?: number
}

const KNOWN = {
  maxConcurrent: 0, maxQueued: 0, maxWaitMs: 0, maxPerCaller: 0, by: 0, retryAfterSeconds: 0,
} satisfies Record<keyof LimitConcurrencyOptions, 0>
const AFTER = 'requests that it refuses would hold a slot'
const PLACE: PolicyPlace = {
  name: 'limitConcurrency', wholeRun: 'waits',
  behind: {
    requestId: 'what is refused here would have no id',
    authenticate: AFTER,
    authorize: AFTER,
    rateLimit: AFTER,
  },
}

/**
 * Limits how many requests run at once in this process, and how many wait. Any other request gets
 * 503 `overloaded` with `Retry-After` at once. A request counts until the head of its answer, so a
 * slow reader blocks nobody. A client that disconnects loses its place.
 *
 * @example
 * compose(limitConcurrency({ maxConcurrent: 20, maxQueued: 100, maxPerCaller: 5 }), handler)
 *
 * @throws {TypeError} A limit is not a whole number, or an option is unknown.
 */
export function limitConcurrency<C = unknown>(options: LimitConcurrencyOptions<C>): Policy<C> {
  checkNames('limitConcurrency', options, KNOWN)
  const {
    maxConcurrent, maxQueued = 0, maxWaitMs = 1000, maxPerCaller, by = 'principal',
    retryAfterSeconds = 1,
  } = options
  if (!(Number.isSafeInteger(maxConcurrent) && maxConcurrent > 0)) {
    throw new TypeError('limitConcurrency: maxConcurrent must be a whole number above 0')
  }
  if (!(Number.isSafeInteger(maxQueued) && maxQueued >= 0)) {
    throw new TypeError('limitConcurrency: maxQueued must be a whole number from 0 on')
  }
  if (!(Number.isSafeInteger(maxWaitMs) && maxWaitMs > 0)) {
    throw new TypeError('limitConcurrency: maxWaitMs must be whole milliseconds above 0')
  }
  if (!(maxPerCaller === undefined || (Number.isSafeInteger(maxPerCaller) && maxPerCaller > 0))) {
    throw new TypeError('limitConcurrency: maxPerCaller must be a whole number above 0')
  }
  let running = 0
  // A set keeps the order, and lets one in the middle go without a search.
  const queue = new Set<() => void>()
  const refused = () =>
    httpError('overloaded', { headers: { 'retry-after': String(retryAfterSeconds) } })

  const leave = (): void => {
    running--
    const [first] = queue
    if (first !== undefined) {
      queue.delete(first)
      first()
    }
  }
  const turn = (signal: AbortSignal): Promise<void> => new Promise((resolve, reject) => {
    const start = (): void => {
      settle()
      running++
      resolve()
    }
    const giveUp = (): void => {
      settle()
      queue.delete(start)
      reject(refused())
    }
    const timer = setTimeout(giveUp, maxWaitMs)
    timer.unref()
    const settle = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', giveUp)
    }
    if (signal.aborted) return giveUp()
    signal.addEventListener('abort', giveUp)
    queue.add(start)
  })
  const run: Policy<C> = (request, next) => answeredThen(() => next(request), leave)
  const admit: Policy<C> = (request, next) => {
    if (running < maxConcurrent && queue.size === 0) {
      running++
      return run(request, next)
    }
    if (queue.size >= maxQueued) throw refused()
    return turn(request.signal).then(() => run(request, next))
  }
  const policy = maxPerCaller === undefined
    ? admit
    : perCaller(admit, maxPerCaller, by, retryAfterSeconds)
  return Object.assign(policy, { place: PLACE, describe: maxPerCaller === undefined ? failing('overloaded') : failing('overloaded', 'too_many_requests') })
}

/** Refuses a caller that has `max` requests in `inner`. */
function perCaller<C>(
  inner: Policy<C>, max: number, by: LimitBy<C>, retryAfterSeconds: number,
): Policy<C> {
  const keyOf = limitKeys('', by, clientAddress())
  const counts = new KeyCounts()
  return (request, next) => {
    const key = keyOf(request)
    if (key === undefined) return inner(request, next)
    if (counts.get(key) >= max) {
      throw httpError('too_many_requests', {
        headers: { 'retry-after': String(retryAfterSeconds) },
      })
    }
    counts.add(key)
    return answeredThen(() => inner(request, next), () => { counts.remove(key) })
  }
}

/** Calls `leave` once `answer` has returned or failed, at once or later. */
function answeredThen(answer: () => ReturnType<Handler>, leave: () => void): ReturnType<Handler> {
  try {
    const given = answer()
    if (isPending(given)) return given.finally(leave)
    leave()
    return given
  } catch (error) {
    leave()
    throw error
  }
}
