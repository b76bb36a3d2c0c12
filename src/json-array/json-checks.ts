import { hasUnsafeKey } from '../http/body/json.js'

/** Parses JSON. Returns `undefined` if the text is not JSON. */
export function tryParse(text: string): unknown {
  const { stackTraceLimit } = Error
  // A parse that throws is several times as fast without a stack trace, which is not used.
  Error.stackTraceLimit = 0
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

/** A letter as an escape. A key that `parseJson` refuses contains `proto`, or such a letter. */
const ESCAPED_LETTER = /\\u00[567]/

/** Returns true if the value that was parsed from `text` has a key that `parseJson` refuses. */
export function hasUnsafeKeys(text: string, value: unknown): boolean {
  const isSuspect = text.includes('proto') || (text.includes('\\u00') && ESCAPED_LETTER.test(text))
  return isSuspect && hasUnsafeKey(value)
}

/**
 * An integer beyond 2^53 has 16 digits or an exponent, and so has a number that is too large for a
 * double. The digits are written out, because a quantifier is ten times as slow.
 */
const WIDE_NUMBER = /\d\d\d\d\d\d\d\d\d\d\d\d\d\d\d\d|\d[eE][+\d]/
const HALF_PAIR = /\\u[dD][89a-fA-F]/

/**
 * Returns true if all values of a JSON text are certainly represented exactly: no number can have
 * been rounded, and no text has half of a surrogate pair. It costs less to check the text than each
 * value.
 */
export function isExact(text: string): boolean {
  return !WIDE_NUMBER.test(text) && !(text.includes('\\u') && HALF_PAIR.test(text))
}
