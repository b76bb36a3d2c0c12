import { COMMA, DASH, EQUALS, SPACE, TAB, ZERO } from '../../runtime/text.js'
import { fieldText } from './reader.js'

/**
 * A part of a representation, in bytes or another unit: from `start` up to, not including, `end`.
 */
export interface Range {
  readonly start: number
  readonly end: number
}

/**
 * The result of a Range field. `whole`: there is no Range, or it must be ignored. `unsatisfiable`:
 * respond with 416 and `contentRange(undefined, size)`. Otherwise one range or more, in the order
 * requested, without overlaps.
 */
export type Ranges = 'whole' | 'unsatisfiable' | readonly Range[]

export interface RangeOptions {
  /** The supported range unit, lower-case. Default: `bytes`. */
  readonly unit?: string
  /** Maximum number of ranges. A field with more is ignored. Default: 16. */
  readonly maxRanges?: number
}

/**
 * A range as the client wrote it. Positions start at 0, and both are included. `last` alone is a
 * suffix length.
 */
interface Spec {
  readonly first: number | undefined
  readonly last: number | undefined
}

/**
 * Reads a Range field (RFC 9110 section 14.2) for a representation of `size`. Cuts positions after
 * the end, and drops ranges that begin there. Two ranges that overlap become one.
 *
 * Ignores the field, as the RFC allows, for another unit, a malformed or backward range, more than
 * `maxRanges`, or more than two ranges that overlap. Never throws. Takes linear time, and stops at
 * the first fault.
 */
export function selectRanges(
  field: string | readonly string[] | undefined, size: number, options: RangeOptions = {},
): Ranges {
  if (field === undefined) return 'whole'
  const { unit = 'bytes', maxRanges = 16 } = options
  const specs = new RangeReader(fieldText(field)).read(unit, maxRanges)
  if (specs === undefined) return 'whole'
  const ranges: Range[] = []
  let wholeOfNothing = false
  for (const { first, last } of specs) {
    if (first === undefined) {
      if (last === 0) continue
      // A suffix of an empty representation is satisfiable, but Content-Range cannot express it.
      if (size === 0) wholeOfNothing = true
      else ranges.push({ start: Math.max(0, size - (last as number)), end: size })
    } else if (first < size) {
      ranges.push({ start: first, end: last === undefined ? size : Math.min(last + 1, size) })
    }
  }
  if (ranges.length === 0) return wholeOfNothing ? 'whole' : 'unsatisfiable'
  return ranges.length === 1 ? ranges : merged(ranges)
}

/** Returns the value of Content-Range (RFC 9110 section 14.4); without a range, that of a 416. */
export function contentRange(range: Range | undefined, size: number, unit = 'bytes'): string {
  if (range === undefined) return `${unit} */${size}`
  return `${unit} ${range.start}-${range.end - 1}/${size}`
}

/**
 * Joins two ranges that overlap, at the place of the earlier one. Returns `whole` if there are more
 * overlaps.
 */
function merged(ranges: readonly Range[]): Ranges {
  const sorted = ranges.map((range, index) => ({ range, index }))
    .sort((a, b) => a.range.start - b.range.start)
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

class RangeReader {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  /** Returns the ranges as written; `undefined` if the field must be ignored. */
  read(unit: string, max: number): Spec[] | undefined {
    this.#blank()
    const start = this.#at
    while (this.#at < this.#text.length && this.#code() !== EQUALS) this.#at++
    const name = this.#text.slice(start, this.#at)
    this.#at++
    if (name.length !== unit.length || name.toLowerCase() !== unit) return undefined
    const specs: Spec[] = []
    for (;;) {
      this.#blank()
      if (this.#at >= this.#text.length) return specs.length === 0 ? undefined : specs
      // RFC 9110 section 5.6.1.2: empty properties of a list are ignored.
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
    // Numbers that are too large are cut to the same value, so their digits are compared.
    if (first !== last) return undefined
    const isBackward = isLess(this.#text.slice(dash + 1, this.#at), this.#text.slice(from, dash))
    return isBackward ? undefined : { first, last }
  }

  /**
   * Reads digits as a number, at most `Number.MAX_SAFE_INTEGER - 1`; `undefined` if there are none.
   */
  #number(): number | undefined {
    const start = this.#at
    let value = 0
    for (;;) {
      const digit = this.#code() - ZERO
      if (!(digit >= 0 && digit <= 9)) {
        return this.#at === start ? undefined : Math.min(value, Number.MAX_SAFE_INTEGER - 1)
      }
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

/** Compares two numbers by their digits. Returns true if `a` is less than `b`. */
function isLess(a: string, b: string): boolean {
  const x = a.replace(/^0+/, '')
  const y = b.replace(/^0+/, '')
  return x.length === y.length ? x < y : x.length < y.length
}
