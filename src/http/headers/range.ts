import { headerText } from './reader.js'

/** A part of a representation: from `start` up to, not including, `end`. */
export interface Range {
  readonly start: number
  readonly end: number
}

/**
 * `whole`: respond as if there were no Range. `unsatisfiable`: respond with 416. Otherwise one
 * range or more, in the order requested, without overlaps.
 */
export type Ranges = 'whole' | 'unsatisfiable' | readonly Range[]

/** Positions from 0, both included. `last` alone is the length of a suffix. */
interface Spec {
  readonly first: number | undefined
  readonly last: number | undefined
}

/**
 * Reads a Range header (RFC 9110 section 14.2) for a representation of `size`. Cuts positions after
 * the end, and drops ranges that begin there. Ignores the header, as the RFC allows, for another
 * unit, a malformed or backward range, too many ranges, or more than two that overlap.
 */
export function selectRanges(
  header: string | readonly string[] | undefined, size: number,
  { unit = 'bytes', maxRanges = 16 }: { readonly unit?: string, readonly maxRanges?: number } = {},
): Ranges {
  if (header === undefined) return 'whole'
  const specs = readSpecs(headerText(header), unit, maxRanges)
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

const SPEC = /^[ \t]*(?:(\d+)-(\d*)|-(\d+))[ \t]*$/

function readSpecs(text: string, unit: string, max: number): Spec[] | undefined {
  const equals = text.indexOf('=')
  const name = text.slice(0, Math.max(0, equals)).replace(/^[ \t]+/, '')
  if (name.toLowerCase() !== unit) return undefined
  const specs: Spec[] = []
  for (const part of text.slice(equals + 1).split(',')) {
    // RFC 9110 section 5.6.1.2: empty elements of a list are ignored.
    if (/^[ \t]*$/.test(part)) continue
    const [all, from = '', to = '', suffix = ''] = SPEC.exec(part) ?? []
    if (all === undefined || specs.length >= max) return undefined
    if (from !== '' && to !== '' && isLess(to, from)) return undefined
    specs.push({ first: position(from), last: position(to || suffix) })
  }
  return specs.length === 0 ? undefined : specs
}

/** Compares digits, because `position` makes large numbers equal. `BigInt` takes quadratic time. */
function isLess(a: string, b: string): boolean {
  const [x = '', y = ''] = [a, b].map((digits) => digits.replace(/^0+/, ''))
  return x.length === y.length ? x < y : x.length < y.length
}

function position(digits: string): number | undefined {
  return digits === '' ? undefined : Math.min(Number(digits), Number.MAX_SAFE_INTEGER - 1)
}
