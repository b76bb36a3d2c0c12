import type { RequestHeaders } from '../exchange.js'
import { parseHttpDate } from './dates.js'
import { headerText } from './reader.js'
import { createHash } from 'node:crypto'

export interface PreconditionFacts {
  readonly method: string
  readonly headers: RequestHeaders
  /**
   * True if the target has a representation. For GET and HEAD, it is the representation that would
   * be sent.
   */
  readonly exists: boolean
  readonly etag?: string | undefined
  readonly lastModified?: number | undefined
}

/** `not-modified`: respond with 304. `failed`: respond with 412, and change nothing. */
export type PreconditionOutcome = 'proceed' | 'not-modified' | 'failed'

/**
 * Evaluates If-Match, If-Unmodified-Since, If-None-Match and If-Modified-Since in the order of RFC
 * 9110 section 13.2.2. Call it when the request would otherwise succeed (section 13.2.1). Ignores
 * invalid dates. A malformed If-Match fails. Never throws.
 */
export function evaluatePreconditions(facts: PreconditionFacts): PreconditionOutcome {
  const { method, headers } = facts
  // RFC 9110 section 13.2.1: conditions have no meaning for these methods.
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
  const isFresh = reads && changedSince(headers['if-modified-since'], facts) === false
  return isFresh ? 'not-modified' : 'proceed'
}

/**
 * Returns true if a Range request may get a part (RFC 9110 section 13.1.5). Tags are compared
 * strongly. A date must equal `lastModified`, whose second must be over at `now`: a further change
 * within that second would not change the date.
 */
export function ifRangeHolds(
  facts: Pick<PreconditionFacts, 'headers' | 'etag' | 'lastModified'>, now: number,
): boolean {
  const header = facts.headers['if-range']
  if (header === undefined) return true
  const text = headerText(header).trim()
  const { etag, lastModified } = facts
  // One tag, not a list: `*` and `"a", "b"` are not valid here.
  if (text.endsWith('"')) return text === etag && text.startsWith('"')
  if (lastModified === undefined) return false
  const changed = wholeSecond(lastModified)
  return parseHttpDate(text) === changed && now >= changed + 1000
}

function matches(
  header: string | readonly string[], { exists, etag }: PreconditionFacts,
  comparison: 'strong' | 'weak',
): boolean {
  if (!exists) return false
  return headerText(header).trim() === '*' || etagMatches(header, etag, comparison)
}

function changedSince(
  header: string | readonly string[] | undefined, { exists, lastModified }: PreconditionFacts,
): boolean | undefined {
  if (header === undefined || !exists || lastModified === undefined) return undefined
  const date = parseHttpDate(headerText(header).trim())
  return date === undefined ? undefined : wholeSecond(lastModified) > date
}

function wholeSecond(ms: number): number {
  return Math.floor(ms / 1000) * 1000
}

/**
 * Returns true if a list of entity tags (If-Match, If-None-Match) has `etag`, or is `*` (RFC 9110
 * sections 8.8.3 and 13.1). `strong`: both must be strong. Malformed elements match nothing.
 */
export function etagMatches(
  header: string | readonly string[] | undefined, etag: string | undefined,
  comparison: 'strong' | 'weak',
): boolean {
  if (header === undefined || etag === undefined) return false
  if (header === etag) return comparison === 'weak' || !isWeak(etag)
  const text = headerText(header)
  if (text.trim() === '*') return true
  if (comparison === 'strong' && isWeak(etag)) return false
  return names(text, isWeak(etag) ? etag.slice(2) : etag, comparison === 'weak')
}

function isWeak(etag: string): boolean {
  return etag.startsWith('W/')
}

const ELEMENT = /[ \t]*(?:(W\/)?("[\x21\x23-\x7e\x80-\uffff]*")[ \t]*|(?:[^",]|"[^"]*(?:"|$))*)(?:,|$)/gy

function names(text: string, opaque: string, weakToo: boolean): boolean {
  return [...text.matchAll(ELEMENT)]
    .some(([, weak, tag]) => tag === opaque && (weakToo || weak === undefined))
}

/** Returns a strong entity tag of a text (RFC 9110 section 8.8.3). */
export function contentTag(text: string): string {
  return `"${createHash('sha256').update(text).digest('base64url').slice(0, 22)}"`
}
