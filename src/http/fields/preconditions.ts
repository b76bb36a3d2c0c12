import { etagMatches } from './entity-tag.js'
import type { RequestHeaders } from '../exchange.js'
import { parseHttpDate } from './dates.js'
import { fieldText } from './reader.js'

/** What a conditional request is held against. */
export interface PreconditionFacts {
  /** Upper-case. */
  readonly method: string
  readonly headers: RequestHeaders
  /**
   * Whether the target has a current representation. For GET and HEAD that is the one that would be
   * answered.
   */
  readonly exists: boolean
  /** Its entity tag with its quotes, such as `"a1"` or `W/"a1"`, if it has one. */
  readonly etag?: string | undefined
  /** When it last changed, in milliseconds since 1970, if that is known. */
  readonly lastModified?: number | undefined
}

/**
 * `proceed`: do what was asked. `not-modified`: answer 304, with the `ETag` and whatever else a 200
 * would say of caches. `failed`: answer 412 (`precondition_failed`), and change nothing.
 */
export type PreconditionOutcome = 'proceed' | 'not-modified' | 'failed'

/**
 * Evaluates If-Match, If-Unmodified-Since, If-None-Match and If-Modified-Since in the order of RFC
 * 9110 section 13.2.2; If-Range comes after it, see `ifRangeHolds`. Call it when the request would
 * otherwise succeed (section 13.2.1): credentials, 404 and validation come first. Dates that are
 * not valid are ignored, so are dates where there is no `lastModified`, and If-Modified-Since for
 * methods other than GET and HEAD. A malformed If-Match names nothing, and so fails. Never throws.
 * Linear.
 */
export function evaluatePreconditions(facts: PreconditionFacts): PreconditionOutcome {
  const { method, headers } = facts
  // RFC 9110 section 13.2.1: conditions mean nothing for these.
  if (method === 'OPTIONS' || method === 'TRACE' || method === 'CONNECT') return 'proceed'
  const ifMatch = headers['if-match']
  if (ifMatch !== undefined) {
    if (!matches(ifMatch, facts, 'strong')) return 'failed'
  } else if (changedSince(headers['if-unmodified-since'], facts) === true) return 'failed'

  const reads = method === 'GET' || method === 'HEAD'
  const ifNoneMatch = headers['if-none-match']
  if (ifNoneMatch !== undefined) {
    if (!matches(ifNoneMatch, facts, 'weak')) return 'proceed'
    return reads ? 'not-modified' : 'failed'
  }
  return reads && changedSince(headers['if-modified-since'], facts) === false ? 'not-modified' : 'proceed'
}

/**
 * Whether a Range request may be answered with a part (RFC 9110 section 13.1.5): there is no
 * If-Range, or what it names is still the current representation. An entity tag is compared
 * strongly. A date has to be the very `lastModified`, to the second, and that second has to be over
 * at `now`, because a change within it would leave the date as it is. When it does not hold, ignore
 * Range and answer the whole. Never throws.
 */
export function ifRangeHolds(facts: Pick<PreconditionFacts, 'headers' | 'etag' | 'lastModified'>, now: number): boolean {
  const field = facts.headers['if-range']
  if (field === undefined) return true
  const text = fieldText(field).trim()
  const { etag, lastModified } = facts
  // One tag, not a list: `*` and `"a", "b"` are no If-Range.
  if (text.endsWith('"')) return text === etag && text.startsWith('"')
  if (lastModified === undefined) return false
  const changed = wholeSecond(lastModified)
  return parseHttpDate(text) === changed && now >= changed + 1000
}

function matches(field: string | readonly string[], { exists, etag }: PreconditionFacts, comparison: 'strong' | 'weak'): boolean {
  if (!exists) return false
  return fieldText(field).trim() === '*' || etagMatches(field, etag, comparison)
}

/** `undefined`: nothing to compare. */
function changedSince(field: string | readonly string[] | undefined, { exists, lastModified }: PreconditionFacts): boolean | undefined {
  if (field === undefined || !exists || lastModified === undefined) return undefined
  const date = parseHttpDate(fieldText(field).trim())
  return date === undefined ? undefined : wholeSecond(lastModified) > date
}

function wholeSecond(ms: number): number {
  return Math.floor(ms / 1000) * 1000
}
