import { withHeaders } from '../http/respond.js'
import { httpDate } from '../http/fields/dates.js'
import { linkValue, type Link } from '../http/fields/link.js'
import type { Policy, ResponseHeaders } from '../http/exchange.js'
import { checkNames } from '../runtime/option-names.js'
import { deprecate } from './describe.js'

/**
 * Options of the deprecation of a version, or of any handler. Dates are `Date`s or anything that
 * `new Date` reads.
 */
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
   * Format of `Deprecation`. `http-date` (default) is the date of SPEC 9.2, such as `Sun, 11 Nov
   * 2026 23:59:59 GMT`. Parsers of RFC 9745 ignore it. `rfc9745` is a structured date, which is an
   * at sign and the seconds since 1970.
   */
  readonly format?: 'http-date' | 'rfc9745'
}

/** The names of the options of a deprecation. */
export const DEPRECATION = {
  deprecated: 0, sunset: 0, link: 0, sunsetLink: 0, successor: 0, format: 0,
} satisfies Record<keyof DeprecationOptions, 0>

/** The fields of a deprecation, made once. */
export interface Deprecation {
  readonly headers: Readonly<Record<string, string>>
  readonly links: string | undefined
  /** Milliseconds since 1970; `Infinity` without a sunset. */
  readonly sunsetAt: number
}

/**
 * Computes the header fields of a deprecation.
 *
 * @throws {TypeError} A date is not valid, or the sunset is before the deprecation.
 */
export function toDeprecation(options: DeprecationOptions, where: string): Deprecation {
  const at = toTime(options.deprecated, `${where}: deprecated`)
  const sunsetAt = options.sunset === undefined
    ? Infinity
    : toTime(options.sunset, `${where}: sunset`)
  if (sunsetAt < at) throw new TypeError(`${where}: sunset must not be before deprecated`)
  const links: Link[] = []
  if (options.link !== undefined) {
    links.push({ target: options.link, rel: 'deprecation', type: 'text/html' })
  }
  if (options.sunsetLink !== undefined) {
    links.push({ target: options.sunsetLink, rel: 'sunset', type: 'text/html' })
  }
  if (options.successor !== undefined) {
    links.push({ target: options.successor, rel: 'successor-version' })
  }
  return {
    headers: {
      deprecation: options.format === 'rfc9745'
        ? `@${String(Math.floor(at / 1000))}`
        : httpDate(at),
      ...(sunsetAt === Infinity ? {} : { sunset: httpDate(sunsetAt) }),
    },
    links: links.length > 0 ? linkValue(links) : undefined,
    sunsetAt,
  }
}

/**
 * Adds the fields to an answer. A `Link` or `Sunset` of the answer itself, such as that of a task,
 * stays.
 */
export function addDeprecation(
  headers: ResponseHeaders, { headers: fields, links }: Deprecation,
): void {
  for (const name in fields) headers[name] ??= fields[name] as string
  if (links === undefined) return
  const there = headers['link']
  headers['link'] = there === undefined
    ? links
    : [...(typeof there === 'string' ? [there] : there), links]
}

/**
 * Adds `Deprecation`, `Sunset` and `Link` to the answers of any handler.
 *
 * @example
 * const old = deprecated({ deprecated: '2026-01-01', sunset: '2027-01-01' })
 * app.use('/v1', toMiddleware(old))
 *
 * @throws {TypeError} A date is not valid, the sunset is before the deprecation, or an option is
 * unknown.
 */
export function deprecated<C>(options: DeprecationOptions): Policy<C> {
  checkNames('deprecated', options, DEPRECATION)
  const deprecation = toDeprecation(options, 'deprecated')
  const policy: Policy<C> = (request, next) =>
    withHeaders(next, request, (headers) => { addDeprecation(headers, deprecation) })
  return Object.assign(policy, { describe: deprecate })
}

function toTime(date: Date | string, what: string): number {
  const time = new Date(date).getTime()
  if (Number.isNaN(time)) throw new TypeError(`${what} must be a date`)
  return time
}
