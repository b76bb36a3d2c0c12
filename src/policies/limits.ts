import { createHash } from 'node:crypto'
import { isParsedLarger } from '../http/body/body.js'
import { isTooDeep } from '../http/body/json.js'
import { bodyTooLarge, httpError } from '../http/errors.js'
import type { BodySource, HttpRequest, Policy, PolicyPlace } from '../http/exchange.js'
import { principalOrNobody } from '../http/principal.js'
import { checkTenantId } from '../http/requester.js'
import { clientAddress } from '../http/client-address.js'
import { addFailures } from '../openapi/responses.js'
import { KeyCounts } from '../runtime/collections.js'
import { readOptions, timer, value, whole, type OptionTable } from '../runtime/options.js'
import { AFTER_ID } from './request-id.js'
import { setGlobalTimeout } from '../runtime/timers.js'

/** Options of `limitBody`. */
export interface LimitBodyOptions {
  /** Maximum size of the body, in bytes as sent. */
  readonly maxBodyBytes: number
}

const BODY = { maxBodyBytes: whole({ required: true }) } satisfies OptionTable<LimitBodyOptions>
const BODY_PLACE: PolicyPlace = { name: 'limitBody', wholeRun: 'cuts', behind: AFTER_ID }

/**
 * Limits the bodies of all handlers behind it: 413 `body_too_large` (RFC 9110 section 15.5.14).
 * Checks `Content-Length` first, and then counts what arrives. Without `Content-Length`, a body
 * that your framework has parsed counts as JSON.
 * @example
 * compose(limitBody({ maxBodyBytes: 1_048_576 }), handler)
 * @throws {TypeError} `maxBodyBytes` is not a whole number from 0, or an option is unknown.
 */
export function limitBody<C = unknown>(options: LimitBodyOptions): Policy<C> {
  const { maxBodyBytes } = readOptions('limitBody', options, BODY)
  const policy: Policy<C> = (request, next) => {
    const { headers, body } = request
    if (Number(headers['content-length'] ?? 0) > maxBodyBytes) throw bodyTooLarge(maxBodyBytes)
    if (body.parsed !== undefined) {
      const { value: parsed } = body.parsed
      if (isTooDeep(parsed)) throw httpError('nested_too_deep')
      if (isParsedLarger(parsed, headers, maxBodyBytes)) throw bodyTooLarge(maxBodyBytes)
    }
    return next(request.with({ body: new LimitedBody(body, maxBodyBytes) }))
  }
  return Object.assign(policy, { place: BODY_PLACE, describe: addFailures('body_too_large') })
}

class LimitedBody implements BodySource {
  constructor(private readonly body: BodySource, private readonly max: number) {}

  get parsed(): BodySource['parsed'] { return this.body.parsed }

  async bytes(limit: number): Promise<Uint8Array | undefined> {
    const bytes = await this.body.bytes(Math.min(limit, this.max))
    if (bytes === undefined && limit > this.max) throw bodyTooLarge(this.max)
    return bytes
  }

  async * stream(isWhole?: boolean): AsyncIterable<Uint8Array> {
    let left = this.max
    for await (const piece of this.body.stream(isWhole)) {
      left -= piece.byteLength
      if (left < 0) throw bodyTooLarge(this.max)
      yield piece
    }
  }
}

/** Options of `limitHeaders`. */
export interface LimitHeadersOptions {
  /** Names and values of all headers, in bytes. Node's own limit is 16 KiB. Default: no limit. */
  readonly maxHeaderBytes?: number
  /** Number of headers. Node joins some repeated headers into one. Default: no limit. */
  readonly maxHeaders?: number
}

const HEADERS = {
  maxHeaderBytes: whole({ min: 1 }), maxHeaders: whole({ min: 1 }),
} satisfies OptionTable<LimitHeadersOptions>
const HEADERS_PLACE: PolicyPlace = { name: 'limitHeaders', behind: AFTER_ID }

/**
 * Rejects requests with more headers than an API needs: 431 `header_fields_too_large` (RFC 6585
 * section 5). Node has its own limit for the server, for which `attach` sends the same code.
 * @example
 * compose(limitHeaders({ maxHeaderBytes: 4096, maxHeaders: 50 }), handler)
 * @throws {TypeError} No limit is set, one is not a whole number above 0, or an option is unknown.
 */
export function limitHeaders<C = unknown>(options: LimitHeadersOptions): Policy<C> {
  const { maxHeaderBytes, maxHeaders } = readOptions('limitHeaders', options, HEADERS)
  if (maxHeaderBytes === undefined && maxHeaders === undefined) {
    throw new TypeError('limitHeaders: set maxHeaderBytes, maxHeaders or both')
  }
  const policy: Policy<C> = (request, next) => {
    let bytes = 0
    let count = 0
    for (const [name, values = []] of Object.entries(request.headers)) {
      for (const each of [values].flat()) {
        count++
        // Node gives values as Latin-1, so characters are bytes.
        bytes += name.length + each.length
      }
    }
    if (bytes > (maxHeaderBytes ?? Infinity) || count > (maxHeaders ?? Infinity)) {
      throw httpError('header_fields_too_large')
    }
    return next(request)
  }
  return Object.assign(policy, {
    place: HEADERS_PLACE, describe: addFailures('header_fields_too_large'),
  })
}

/** Options of `limitConcurrency`. */
export interface LimitConcurrencyOptions<C = unknown> {
  /** Maximum number of requests that run at once in this process. */
  readonly maxConcurrent: number
  /** Maximum number of waiting requests, first in, first out. Default: 0. */
  readonly maxQueued?: number
  /** Maximum time that a request waits, in milliseconds. Default: 1000. */
  readonly maxWaitMs?: number
  /**
   * Maximum number of requests of one caller that run or wait. Default: no limit, so one caller can
   * take all places.
   *
   * One more gets a 429 `too_many_requests`.
   */
  readonly maxPerCaller?: number
  /**
   * The caller that `maxPerCaller` counts. `principal` (default): the tenant of the principal, else
   * its subject, else the network of the connection. `address`: always the network. A function returns a string,
   * or `undefined` for no limit.
   */
  readonly by?: LimitBy<C>
}

export type LimitBy<C> = 'principal' | 'address' | ((request: HttpRequest<C>) => string | undefined)

export const BY = value("'principal', 'address' or a function", (by) => (
  by === 'principal' || by === 'address' || typeof by === 'function'
), { default: 'principal' as const })

const CONCURRENCY = {
  maxConcurrent: whole({ min: 1, required: true }),
  maxQueued: whole({ default: 0 }),
  maxWaitMs: timer({ default: 1000 }),
  maxPerCaller: whole({ min: 1 }),
  by: BY,
} satisfies OptionTable<LimitConcurrencyOptions>

const PLACES_TAKEN = 'requests that it rejects would take a place'
const CONCURRENCY_PLACE: PolicyPlace = {
  name: 'limitConcurrency', wholeRun: 'waits',
  behind: {
    ...AFTER_ID, authenticate: PLACES_TAKEN, authorize: PLACES_TAKEN, rateLimit: PLACES_TAKEN,
  },
}

/**
 * Limits how many requests run in this process, and how many wait. Any other request gets 503
 * `overloaded` with `Retry-After: 1`. A request counts until its response begins, or until the
 * client disconnects while it waits.
 * @example
 * compose(limitConcurrency({ maxConcurrent: 20, maxQueued: 100, maxPerCaller: 5 }), handler)
 * @throws {TypeError} A limit is not a whole number, or an option is unknown.
 */
export function limitConcurrency<C = unknown>(options: LimitConcurrencyOptions<C>): Policy<C> {
  const { maxConcurrent, maxQueued, maxWaitMs, maxPerCaller = Infinity, by } =
    readOptions('limitConcurrency', options, CONCURRENCY)
  const keyOf = limitKeys<C>('', by, clientAddress())
  const counts = new KeyCounts()
  let running = 0
  // A set keeps the order, and removes any element without a search.
  const queue = new Set<() => void>()
  const headers = { 'retry-after': '1' }

  const turn = (signal: AbortSignal): Promise<void> => new Promise((resolve, reject) => {
    const settle = (): void => {
      clearTimeout(timeout)
      signal.removeEventListener('abort', giveUp)
      queue.delete(start)
    }
    const start = (): void => {
      settle()
      running++
      resolve()
    }
    const giveUp = (): void => {
      settle()
      reject(httpError('overloaded', { headers }))
    }
    const timeout = setGlobalTimeout(giveUp, maxWaitMs).unref()
    if (signal.aborted) return giveUp()
    signal.addEventListener('abort', giveUp)
    queue.add(start)
  })
  const admitted: Policy<C> = async (request, next) => {
    if (running < maxConcurrent && queue.size === 0) running++
    else if (queue.size < maxQueued) await turn(request.signal)
    else throw httpError('overloaded', { headers })
    try {
      return await next(request)
    } finally {
      running--
      const [first] = queue
      first?.()
    }
  }
  const policy: Policy<C> = async (request, next) => {
    const key = maxPerCaller === Infinity ? undefined : keyOf(request)
    if (key === undefined) return admitted(request, next)
    if (counts.get(key) >= maxPerCaller) throw httpError('too_many_requests', { headers })
    counts.add(key)
    try {
      return await admitted(request, next)
    } finally {
      counts.remove(key)
    }
  }
  const describe = maxPerCaller === Infinity
    ? addFailures('overloaded')
    : addFailures('overloaded', 'too_many_requests')
  return Object.assign(policy, { place: CONCURRENCY_PLACE, describe })
}

const PLAIN = /^[A-Za-z0-9._~@:/-]{1,128}$/

/**
 * Returns the function that makes the key of a caller's counter; `undefined` for no limit. No name
 * of a principal makes the key of an address.
 */
export function limitKeys<C>(
  start: string, by: LimitBy<C>, addressOf: (request: HttpRequest) => string | undefined,
): (request: HttpRequest<C>) => string | undefined {
  return (request) => {
    if (typeof by === 'function') {
      const caller = by(request)
      return caller === undefined ? undefined : `${start}:k:${plain(caller)}`
    }
    const principal = by === 'address'
      ? undefined
      : principalOrNobody(request, "rateLimit: by: 'principal'")
    if (principal?.subject === undefined) return `${start}:a:${addressOf(request) ?? 'unknown'}`
    const tenant = checkTenantId('the tenant of the principal', principal.tenant)
    return tenant === undefined ? `${start}:p:${plain(principal.subject)}` : `${start}:t:${plain(tenant)}`
  }
}

/** Keys of the store are short and well-formed. Other names become a digest. */
function plain(name: string): string {
  if (PLAIN.test(name)) return name
  return `#${createHash('sha256').update(Buffer.from(name, 'utf16le')).digest('base64url')}`
}
