import { withHeaders } from '../http/respond.js'
import { httpDate, parseHttpDate } from '../http/headers/dates.js'
import { linkValue, type Link } from '../http/headers/link.js'
import type { Operation, Policy, ResponseHeaders } from '../http/exchange.js'
import { addResponseHeaders, changed } from '../openapi/operation.js'
import { responseHeaders } from '../openapi/responses.js'
import { oneOf, readOptions, text, value, type OptionTable } from '../runtime/options.js'

/** Options of the deprecation of a version, or of any handler. Dates are read by `new Date`. */
export interface DeprecationOptions {
  /** The time at which the version became, or will become, deprecated. */
  readonly deprecated: Date | string
  /** The end of service; never before `deprecated` (RFC 8594). */
  readonly sunset?: Date | string
  /** A page that explains the deprecation; sent as `Link: rel="deprecation"` (RFC 9745). */
  readonly link?: string
  /** A page on the sunset policy; sent as `Link: rel="sunset"` (RFC 8594). */
  readonly sunsetLink?: string
  /** The replacement; sent as `Link: rel="successor-version"` (RFC 5829). */
  readonly successor?: string
  /**
   * Format of `Deprecation`. `rfc9745` is an at sign and the seconds since 1970. `http-date` is the
   * form of earlier drafts, which parsers of RFC 9745 ignore. Default: 'rfc9745'.
   */
  readonly format?: 'rfc9745' | 'http-date'
}

const isDate = (given: unknown): boolean => (
  (given instanceof Date || typeof given === 'string') && !Number.isNaN(new Date(given).getTime())
)
const DATE = 'a Date, or the string of one, such as 2026-07-01'

export const DEPRECATION = {
  deprecated: value(DATE, isDate, { required: true }),
  sunset: value(DATE, isDate),
  link: text(), sunsetLink: text(), successor: text(),
  format: oneOf(['rfc9745', 'http-date'], { default: 'rfc9745' }),
} satisfies OptionTable<DeprecationOptions>

export interface Deprecation {
  /** The value of `Deprecation`. */
  readonly deprecation: string
  /** Milliseconds since 1970, without fractions of a second. */
  readonly deprecatedAt: number
  /** The value of `Sunset`. */
  readonly sunset: string | undefined
  /** Milliseconds since 1970; `Infinity` without a sunset. */
  readonly sunsetAt: number
  readonly links: string | undefined
}

export function toDeprecation(
  { deprecated: since, sunset, link, sunsetLink, successor, format }: DeprecationOptions,
  where: string,
): Deprecation {
  const at = new Date(since).getTime()
  const sunsetAt = sunset === undefined ? Infinity : new Date(sunset).getTime()
  if (sunsetAt < at) throw new TypeError(`${where}: sunset must not be before deprecated`)
  const links: Link[] = []
  if (link !== undefined) links.push({ target: link, rel: 'deprecation', type: 'text/html' })
  if (sunsetLink !== undefined) links.push({ target: sunsetLink, rel: 'sunset', type: 'text/html' })
  if (successor !== undefined) links.push({ target: successor, rel: 'successor-version' })
  const seconds = Math.floor(at / 1000)
  return {
    deprecation: format === 'http-date' ? httpDate(at) : `@${String(seconds)}`,
    deprecatedAt: seconds * 1000,
    sunset: sunsetAt < Infinity ? httpDate(sunsetAt) : undefined,
    sunsetAt,
    links: links.length > 0 ? linkValue(links) : undefined,
  }
}

/**
 * Adds deprecation headers to a response. If the response has a sunset, such as that of a task, the
 * earlier sunset is sent.
 */
export function addDeprecation(
  headers: ResponseHeaders, { deprecation, deprecatedAt, sunset, sunsetAt, links }: Deprecation,
): void {
  const { sunset: own } = headers
  const endsAt = typeof own === 'string' ? parseHttpDate(own) ?? Infinity : Infinity
  if (sunset !== undefined && sunsetAt < endsAt) headers['sunset'] = sunset
  // RFC 9745 section 4: Sunset is never before Deprecation. What ends before is never deprecated.
  if (endsAt >= deprecatedAt) headers['deprecation'] ??= deprecation
  if (links === undefined) return
  const there = headers['link']
  headers['link'] = there === undefined
    ? links
    : [...(typeof there === 'string' ? [there] : there), links]
}

/**
 * Adds `Deprecation`, `Sunset` and `Link` to the responses of any handler. If a response has a
 * `Sunset`, as a task has, the earlier one is sent.
 * @example
 * const old = deprecated({ deprecated: '2026-01-01', sunset: '2027-01-01' })
 * app.use('/v1', toMiddleware(old))
 * @throws {TypeError} A date is not valid, `sunset` is before `deprecated`, or an option is
 * unknown.
 */
export function deprecated<C>(options: DeprecationOptions): Policy<C> {
  const deprecation = toDeprecation(readOptions('deprecated', options, DEPRECATION), 'deprecated')
  const policy: Policy<C> = (request, next) =>
    withHeaders(next, request, (headers) => { addDeprecation(headers, deprecation) })
  return Object.assign(policy, {
    describe: (operation: Operation) => deprecate(operation, deprecation),
  })
}

export function deprecate(operation: Operation, { sunset, links }: Deprecation): Operation {
  const described = addResponseHeaders(operation, {
    ...responseHeaders('Deprecation'),
    ...sunset !== undefined && responseHeaders('Sunset'),
    ...links !== undefined && responseHeaders('Link'),
  })
  return changed(described, { deprecated: true })
}
