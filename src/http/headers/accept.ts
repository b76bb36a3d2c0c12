import { Memo } from '../../runtime/collections.js'
import { HeaderReader, headerText, readWeight } from './reader.js'

/** One range of an Accept header. Shared between requests: do not change it. */
export interface MediaRange {
  readonly type: string
  readonly subtype: string
  readonly params: ReadonlyMap<string, string>
  readonly q: number
}

type Header = string | readonly string[] | undefined

const NOTHING: readonly MediaRange[] = /* @__PURE__ */ Object.freeze([])
const ranges = new Memo(parseRanges)
const choices = new WeakMap<readonly string[], Memo<{ readonly best: string | undefined }>>()

/**
 * Reads an Accept header (RFC 9110 section 12.5.1), in the order sent. Skips malformed ranges. A
 * `q` may have more than three decimals. Never throws.
 */
export function parseAccept(header: Header): readonly MediaRange[] {
  return header === undefined ? NOTHING : ranges.get(headerText(header))
}

/**
 * Chooses the offer that the client prefers: by `q` of the most specific range that matches it,
 * then by the specificity of that range, then by the order of `offers`. Without a valid range,
 * returns the first offer. `charset=utf-8` in a range is no condition.
 *
 * Keep `offers` in a constant array that nobody changes: choices are cached for each array.
 * @example
 * const OFFERS = ['application/json', 'text/csv']
 * const type = negotiate(request.headers.accept, OFFERS)
 * @returns `undefined` if the client accepts no offer: respond with 406, or ignore the header
 * @throws {TypeError} An offer is not a media type.
 */
export function negotiate(header: Header, offers: readonly string[]): string | undefined {
  if (header === undefined || header === '*/*') return offers[0]
  let memo = choices.get(offers)
  if (memo === undefined) {
    memo = new Memo((text) => ({ best: choose(ranges.get(text), offers) }))
    choices.set(offers, memo)
  }
  return memo.get(headerText(header)).best
}

function choose(asked: readonly MediaRange[], offers: readonly string[]): string | undefined {
  if (asked.length === 0) return offers[0]
  let best: string | undefined
  let bestQ = 0
  let bestRank = 0
  for (const offer of offers) {
    const parsed = parseMediaType(offer)
    if (parsed === undefined) {
      throw new TypeError(`negotiate: ${JSON.stringify(offer)} is no media type`)
    }
    const range = closest(asked, parsed)
    if (range === undefined || range.q === 0 || range.q < bestQ) continue
    const rank = specificity(range, parsed)
    if (range.q > bestQ || rank > bestRank) {
      best = offer
      bestQ = range.q
      bestRank = rank
    }
  }
  return best
}

export function closest(asked: readonly MediaRange[], offer: MediaType): MediaRange | undefined {
  let found: MediaRange | undefined
  let most = 0
  for (const range of asked) {
    const rank = specificity(range, offer)
    if (rank > most) {
      found = range
      most = rank
    }
  }
  return found
}

/**
 * Returns how specific a matching range is, else 0: any type < any subtype < exact < parameters.
 */
function specificity(range: MediaRange, offer: MediaType): number {
  let rank = 1
  if (range.type !== '*') {
    const slash = range.type.length
    if (offer.type[slash] !== '/' || !offer.type.startsWith(range.type)) return 0
    rank = 2
    if (range.subtype !== '*') {
      const end = slash + 1 + range.subtype.length
      if (offer.type.length !== end || !offer.type.endsWith(range.subtype)) return 0
      rank = 3
    }
  }
  if (range.params.size === 0) return rank
  let matched = 0
  for (const [name, value] of range.params) {
    const offered = offer.params.get(name)
    if (name === 'charset') {
      const charset = value.toLowerCase()
      if (charset === 'utf-8') continue
      if (offered?.toLowerCase() !== charset) return 0
    } else if (offered !== value) return 0
    matched++
  }
  return rank + matched / (matched + 1)
}

function parseRanges(text: string): readonly MediaRange[] {
  const reader = new HeaderReader(text)
  const found = reader.items(() => readMediaType(reader)).flatMap(({ type: name, params }) => {
    const [type = '', subtype = ''] = name.split('/')
    const q = readWeight(params)
    params.delete('q')
    const isValid = q !== undefined && (type !== '*' || subtype === '*')
    return isValid ? [{ type, subtype, params, q }] : []
  })
  return Object.freeze(found)
}

const codingMemo = new Memo(parseCodings)

/**
 * Chooses the content coding of a response (RFC 9110 section 12.5.3): the one with the highest `q`,
 * then the first of `codings`; `identity` if the client wants none; `undefined` if it rejects
 * `identity` too. Codings are case-insensitive, and `x-gzip` is `gzip`. Never throws.
 */
export function negotiateCoding(
  header: string | readonly string[] | undefined, codings: readonly string[],
): string | undefined {
  if (header === undefined) return 'identity'
  const asked = codingMemo.get(headerText(header))
  const any = asked.get('*')
  let best: string | undefined
  let bestQ = 0
  for (const coding of codings) {
    const name = canonical(coding)
    const q = asked.get(name) ?? any ?? 0
    if (q > bestQ) {
      best = coding
      bestQ = q
    }
  }
  const identity = asked.get('identity') ?? any
  if (identity === undefined) return best ?? 'identity'
  return identity > bestQ ? 'identity' : best
}

function parseCodings(text: string): ReadonlyMap<string, number> {
  const asked = new Map<string, number>()
  const reader = new HeaderReader(text)
  const items = reader.items(() => {
    const name = canonical(reader.token())
    const params = name === '' ? undefined : reader.parameters()
    return params && { name, q: readWeight(params) }
  })
  for (const { name, q } of items) if (q !== undefined && !asked.has(name)) asked.set(name, q)
  return asked
}

function canonical(coding: string): string {
  const name = coding.toLowerCase()
  return name === 'x-gzip' || name === 'x-compress' ? name.slice(2) : name
}

/** A media type (RFC 9110 section 8.3.1). Shared between requests: do not change it. */
export interface MediaType {
  readonly type: string
  /** Parameters by lower-case name, with unquoted values as sent. The first one of a name wins. */
  readonly params: ReadonlyMap<string, string>
}

const SLASH = 0x2f
const mediaTypes = new Memo((text: string) => ({ parsed: toMediaType(text) }))

/** Reads a media type such as a Content-Type; `undefined` if it is malformed or a list. */
export function parseMediaType(text: string): MediaType | undefined {
  return mediaTypes.get(text).parsed
}

function toMediaType(text: string): MediaType | undefined {
  const reader = new HeaderReader(text)
  reader.space()
  const read = readMediaType(reader)
  return reader.done ? read : undefined
}

function readMediaType(
  reader: HeaderReader,
): { type: string, params: Map<string, string> } | undefined {
  const start = reader.at
  if (reader.token() === '' || !reader.eat(SLASH) || reader.token() === '') return undefined
  const type = reader.text.slice(start, reader.at).toLowerCase()
  const params = reader.parameters()
  return params && { type, params }
}
