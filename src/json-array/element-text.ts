import { hasUnsafeKey } from '../http/body/json-text.js'

/**
 * Each key that `parseJson` refuses has `proto` in it as it is, or with one of its letters as an
 * escape.
 */
const ESCAPED_LETTER = /\\u00[567]/
/**
 * An integer past 2^53 has 16 digits or an exponent, and so has what is too large for any. Written
 * out, since a count is ten times as slow.
 */
const WIDE_NUMBER = /\d\d\d\d\d\d\d\d\d\d\d\d\d\d\d\d|\d[eE][+\d]/
const HALF_CHARACTER = /\\u[dD][89a-fA-F]/

/** What a text says; `undefined` when it is not JSON. */
export function parsedJson(text: string): unknown {
  const { stackTraceLimit } = Error
  // A parse that throws is several times as quick without a stack, which nobody would see.
  Error.stackTraceLimit = 0
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

/** Whether a key that `parseJson` refuses is in what was parsed from `text`. */
export function hasUnsafeText(text: string, value: unknown): boolean {
  const suspect = text.includes('proto') || (text.includes('\\u00') && ESCAPED_LETTER.test(text))
  return suspect && hasUnsafeKey(value)
}

/** Whether the values of a text can't be other than what is written there. */
export function isPlain(text: string): boolean {
  return !WIDE_NUMBER.test(text) && !(text.includes('\\u') && HALF_CHARACTER.test(text))
}
