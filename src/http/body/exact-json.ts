import {
  BACKSLASH, CLOSE_BRACE, CLOSE_BRACKET, COMMA, OPEN_BRACE, OPEN_BRACKET, QUOTE,
} from '../../runtime/text.js'
import type { ErrorDetail } from '../../wire/errors.js'
import { httpError } from '../errors.js'

/** Number of digits, with the point, from which a number may have more of them than a double keeps. */
const LONG = 16
const LARGE_EXPONENT = /\d[eE][+-]?\d{3}/
/** An escape that may be half of a surrogate pair. */
const HALF_ESCAPE = /\\u[dD][89a-fA-F]/
const MAX_DETAILS = 5
/** Message for a number that is infinite once it is parsed. */
export const TOO_LARGE = 'is too large for a number'
/** Maximum number of digits that `toPrecision` writes. */
const MAX_PRECISION = 100

/** Returns false if JSON text certainly has no value that changes when it is parsed. */
export function mayBeInexact(text: string): boolean {
  return hasInexactLongNumber(text) || LARGE_EXPONENT.test(text)
    || (text.includes('\\u') && HALF_ESCAPE.test(text))
}

/**
 * Returns true if a number with 16 digits or more changes when it is parsed, or text of a string looks like one.
 * One of 16 characters that follow each other has an index that is a multiple of 16, so only these are looked
 * at: a regular expression takes a third of the time of `readRecords`.
 */
function hasInexactLongNumber(text: string): boolean {
  for (let at = 0; at < text.length; at += LONG) {
    let [start, end] = [at, at]
    while (isDigitOrPoint(text.charCodeAt(end))) end++
    while (end > at && isDigitOrPoint(text.charCodeAt(start - 1))) start--
    if (end - start < LONG) continue
    while (isNumberPart(text.charCodeAt(start - 1))) start--
    while (isNumberPart(text.charCodeAt(end))) end++
    if (inexactNumber(text.slice(start, end)) !== undefined) return true
    at = end - end % LONG
  }
  return false
}

/** @param code - `NaN` outside of the text */
function isDigitOrPoint(code: number): boolean {
  return (code >= 0x30 && code <= 0x39) || code === 0x2e
}

/** @throws {HttpError} `inexact_value`, with a pointer to each of the first five values. */
export function checkExact(details: readonly ErrorDetail[]): void {
  if (details.length > 0) throw httpError('inexact_value', { details })
}

/**
 * Returns the values of JSON text that change when they are parsed: integers beyond 2^53 - 1,
 * numbers too large or too small for a double, numbers with more digits than a double keeps, and
 * strings with half of a surrogate pair. Returns the first five. The text must be JSON.
 */
export function inexactValues(text: string): ErrorDetail[] {
  const details: ErrorDetail[] = []
  /** The key or index in each open container. */
  const path: (string | number)[] = []
  let isKey = false
  for (let at = 0; at < text.length && details.length < MAX_DETAILS; at++) {
    const code = text.charCodeAt(at)
    const last = path.length - 1
    if (code === OPEN_BRACE || code === OPEN_BRACKET) {
      path.push(code === OPEN_BRACE ? '' : 0)
      isKey = code === OPEN_BRACE
    } else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
      path.pop()
      isKey = false
    } else if (code === COMMA) {
      const key = path[last]
      if (typeof key === 'number') path[last] = key + 1
      isKey = typeof key === 'string'
    } else if (code === QUOTE) {
      const end = endOfString(text, at)
      const string = stringAt(text, at, end, isKey)
      if (string?.isWellFormed() === false) {
        const pointer = pointerOf(isKey ? path.slice(0, -1) : path)
        const message = isKey ? 'has a name with half of a surrogate pair' : 'has half of a surrogate pair'
        details.push({ pointer, message })
      }
      if (isKey) path[last] = string ?? ''
      isKey = false
      at = end
    } else if (isNumberStart(code)) {
      let end = at + 1
      while (end < text.length && isNumberPart(text.charCodeAt(end))) end++
      const message = inexactNumber(text.slice(at, end))
      if (message !== undefined) details.push({ pointer: pointerOf(path), message })
      at = end - 1
    }
  }
  return details
}

/** Returns a string that is a key or may have half of a surrogate pair. */
function stringAt(text: string, start: number, end: number, isKey: boolean): string | undefined {
  const json = text.slice(start, end + 1)
  const mayBeHalf = json.includes('\\u') && HALF_ESCAPE.test(json)
  return isKey || mayBeHalf ? JSON.parse(json) as string : undefined
}

/** Returns the index of the closing quote. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); ; end = text.indexOf('"', end + 1)) {
    let from = end
    while (text.charCodeAt(from - 1) === BACKSLASH) from--
    if ((end - from) % 2 === 0) return end
  }
}

function isNumberStart(code: number): boolean {
  return code === 0x2d || (code >= 0x30 && code <= 0x39)
}

function isNumberPart(code: number): boolean {
  return isNumberStart(code) || code === 0x2e || code === 0x2b || code === 0x65 || code === 0x45
}

function inexactNumber(text: string): string | undefined {
  const value = Number(text)
  if (!Number.isFinite(value)) return TOO_LARGE
  if (Number.isInteger(value) && /^-?\d+$/.test(text)) return inexactInteger(value)
  // Most numbers with many digits are doubles that another program has written.
  const shortest = String(value)
  if (shortest === text) return undefined
  const digits = digitsOf(text)
  if (digits === '') return undefined
  if (value === 0) return 'is too small for a number'
  // A number in the middle between two decimals is written as the even one. `toPrecision` rounds up.
  const isKept = digitsOf(shortest) === digits || (digits.length <= MAX_PRECISION
    && digitsOf(value.toPrecision(digits.length)) === digits)
  return isKept ? undefined : 'has more digits than a number keeps; send it as text'
}

function inexactInteger(value: number): string | undefined {
  return Number.isSafeInteger(value) ? undefined : 'is an integer beyond 2^53 - 1; send it as text'
}

/** Returns the digits of a number between its first and its last that is not 0. */
function digitsOf(text: string): string {
  const exponent = text.search(/[eE]/)
  const digits = (exponent === -1 ? text : text.slice(0, exponent)).replace(/[-.]/g, '')
  let start = 0
  let end = digits.length
  while (digits.charCodeAt(start) === 0x30) start++
  while (end > start && digits.charCodeAt(end - 1) === 0x30) end--
  return digits.slice(start, end)
}

function pointerOf(path: readonly (string | number)[]): string {
  return path.map((key) => `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}

/**
 * Returns the values of a parsed value that may have changed when it was parsed, as
 * `inexactValues` does. It cannot see lost digits of a fraction. Does not recurse.
 */
export function inexactParsed(parsed: unknown): ErrorDetail[] {
  const details: ErrorDetail[] = []
  const open: [path: readonly (string | number)[], value: unknown][] = [[[], parsed]]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (details.length >= MAX_DETAILS) break
    const [path, value] = next
    const message = inexactReason(value)
    if (message !== undefined) details.push({ pointer: pointerOf(path), message })
    if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) continue
    for (const [key, child] of Object.entries(value).reverse()) {
      if (!key.isWellFormed()) {
        details.push({ pointer: pointerOf(path), message: 'has a name with half of a surrogate pair' })
      } else if (typeof child !== 'boolean' && child !== null) open.push([[...path, key], child])
    }
  }
  return details
}

/** Returns true if `inexactParsed` finds nothing. The value must not be too deep. */
export function isExact(value: unknown): boolean {
  if (typeof value !== 'object') return inexactReason(value) === undefined
  if (value === null || ArrayBuffer.isView(value)) return true
  if (Array.isArray(value)) {
    for (const item of value as unknown[]) if (!isExact(item)) return false
    return true
  }
  for (const key in value) {
    if (!key.isWellFormed() || !isExact((value as Record<string, unknown>)[key])) return false
  }
  return true
}

export function inexactReason(value: unknown): string | undefined {
  if (typeof value === 'string' && !value.isWellFormed()) return 'has half of a surrogate pair'
  if (typeof value !== 'number') return undefined
  if (!Number.isFinite(value)) return TOO_LARGE
  return Number.isInteger(value) ? inexactInteger(value) : undefined
}
