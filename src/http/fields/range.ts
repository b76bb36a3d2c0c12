import { fieldText } from './reader.js'

/**
 * A part of something counted in bytes, or in whatever the unit is: from `start` up to, not
 * including, `end`.
 */
export interface Range {
  readonly start: number
  readonly end: number
}

/**
 * What a Range field comes to. `whole`: there is none, or it is to be ignored: answer as if it was
 * not there. `unsatisfiable`: answer 416 with what `contentRange(undefined, size)` gives. Else one
 * range or more, none overlapping another, in the order asked for.
 */
export type Ranges = 'whole' | 'unsatisfiable' | readonly Range[]

export interface RangeOptions {
  /** The range unit that is understood, lower case. Default: `bytes`. */
  readonly unit?: string
  /** More ranges than this in one field make it ignored. Default: 16. */
  readonly maxRanges?: number
}

/**
 * What the client wrote. Positions count from 0 and both ends belong to it; `last` alone is a
 * suffix length.
 */
interface Spec {
  readonly first: number | undefined
  readonly last: number | undefined
}

const ZERO = 0x30
const DASH = 0x2d
const EQUALS = 0x3d
const COMMA = 0x2c
const SPACE = 0x20
const TAB = 0x09

/**
 * Reads a Range field (RFC 9110 section 14.2) for something of `size`. Positions past the end are
 * cut to it, ranges that begin there are left out. Ignored, as the RFC allows: another unit, a
 * field with any malformed or backward range, more than `maxRanges`, more than two ranges that
 * overlap. Two that overlap become one. Never throws. Linear, and stops at the first thing that is
 * wrong.
 */
export function selectRanges(field: string | readonly string[] | undefined, size: number, options: RangeOptions = {}): Ranges {
  if (field === undefined) return 'whole'
  const { unit = 'bytes', maxRanges = 16 } = options
  const specs = new RangeReader(fieldText(field)).read(unit, maxRanges)
  if (specs === undefined) return 'whole'
  const ranges: Range[] = []
  let wholeOfNothing = false
  for (const { first, last } of specs) {
    if (first === undefined) {
      if (last === 0) continue
      // The last so many of nothing are satisfiable, and no Content-Range can say so.
      if (size === 0) wholeOfNothing = true
      else ranges.push({ start: Math.max(0, size - (last as number)), end: size })
    } else if (first < size) ranges.push({ start: first, end: last === undefined ? size : Math.min(last + 1, size) })
  }
  if (ranges.length === 0) return wholeOfNothing ? 'whole' : 'unsatisfiable'
  return ranges.length === 1 ? ranges : merged(ranges)
}

/** The value of Content-Range (RFC 9110 section 14.4); without a range that of a 416. */
export function contentRange(range: Range | undefined, size: number, unit = 'bytes'): string {
  return range === undefined ? `${unit} */${size}` : `${unit} ${range.start}-${range.end - 1}/${size}`
}

/**
 * Two ranges that overlap as one, in the place of the earlier; `whole` when there are more of the
 * kind.
 */
function merged(ranges: readonly Range[]): Ranges {
  const sorted = ranges.map((range, index) => ({ range, index })).sort((a, b) => a.range.start - b.range.start)
  let pair: { readonly a: number, readonly b: number } | undefined
  let before = sorted[0] as (typeof sorted)[number]
  for (const one of sorted.slice(1)) {
    if (one.range.start < before.range.end) {
      if (pair !== undefined) return 'whole'
      pair = { a: Math.min(before.index, one.index), b: Math.max(before.index, one.index) }
    }
    if (one.range.end > before.range.end) before = one
  }
  if (pair === undefined) return ranges
  const { a, b } = pair
  const first = ranges[a] as Range
  const second = ranges[b] as Range
  const union = { start: Math.min(first.start, second.start), end: Math.max(first.end, second.end) }
  return ranges.flatMap((range, index) => (index === a ? [union] : index === b ? [] : [range]))
}

/** Walks through a field once. */
class RangeReader {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  /** The ranges as written; `undefined` for a field that is to be ignored. */
  read(unit: string, max: number): Spec[] | undefined {
    this.#blank()
    const start = this.#at
    while (this.#at < this.#text.length && this.#code() !== EQUALS) this.#at++
    if (this.#at - start !== unit.length || this.#text.slice(start, this.#at++).toLowerCase() !== unit) return undefined
    const specs: Spec[] = []
    for (;;) {
      this.#blank()
      if (this.#at >= this.#text.length) return specs.length === 0 ? undefined : specs
      // RFC 9110 section 5.6.1.2: empty members of a list count for nothing.
      if (this.#code() === COMMA) {
        this.#at++
        continue
      }
      const spec = this.#spec()
      if (spec === undefined || specs.length >= max) return undefined
      specs.push(spec)
      this.#blank()
      if (this.#at < this.#text.length && this.#code() !== COMMA) return undefined
    }
  }

  #spec(): Spec | undefined {
    const from = this.#at
    const first = this.#number()
    const dash = this.#at
    if (this.#code() !== DASH) return undefined
    this.#at++
    const last = this.#number()
    if (first === undefined) return last === undefined ? undefined : { first, last }
    if (last === undefined || first < last) return { first, last }
    // Numbers that are too large for us are equal to us; their digits are not.
    return first === last && !isLess(this.#text.slice(dash + 1, this.#at), this.#text.slice(from, dash)) ? { first, last } : undefined
  }

  /** Digits as a number, at most `Number.MAX_SAFE_INTEGER - 1`; `undefined` when there are none. */
  #number(): number | undefined {
    const start = this.#at
    let value = 0
    for (;;) {
      const digit = this.#code() - ZERO
      if (!(digit >= 0 && digit <= 9)) return this.#at === start ? undefined : Math.min(value, Number.MAX_SAFE_INTEGER - 1)
      if (value < Number.MAX_SAFE_INTEGER) value = value * 10 + digit
      this.#at++
    }
  }

  #blank(): void {
    while (this.#code() === SPACE || this.#code() === TAB) this.#at++
  }

  #code(): number {
    return this.#text.charCodeAt(this.#at)
  }
}

/** Whether one number in digits is less than another. */
function isLess(a: string, b: string): boolean {
  const x = a.replace(/^0+/, '')
  const y = b.replace(/^0+/, '')
  return x.length === y.length ? x < y : x.length < y.length
}
