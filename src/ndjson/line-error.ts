import { jsonFault } from '../http/body/json-fault.js'

/** Reason why a line is not a record. */
export type LineErrorCode = 'line_malformed' | 'line_not_object' | 'line_not_utf8'
  | 'line_too_deep' | 'line_too_long' | 'line_unsafe_key'

/** One bad line. */
export interface LineError {
  /** Line number, from 1; blank lines count. */
  readonly line: number
  readonly code: LineErrorCode
  /** One sentence. It does not quote the line. */
  readonly message: string
  /** The first 80 UTF-16 units of the line. */
  readonly excerpt: string
}

const MESSAGES: Readonly<Record<LineErrorCode, string>> = {
  line_malformed: 'The line is not valid JSON.',
  line_not_object: 'The line is not a JSON object.',
  line_not_utf8: 'The line is not valid UTF-8.',
  line_too_deep: 'The line is nested too deeply.',
  line_too_long: 'The line is too long.',
  line_unsafe_key: 'The line has a key that is not allowed.',
}

const EXCERPT_UNITS = 80
/** Maximum number of bytes that 80 UTF-16 units take in UTF-8. */
export const EXCERPT_BYTES = 240
/** In longer lines the position of a syntax error is not searched: it would cost too much. */
const MAX_SCANNED = 4096

/**
 * Describes a bad line. The reader does not parse a line that does not begin with `{`, so this
 * function checks if it is JSON at all. Only described lines need that check.
 *
 * @param text - the line, or its beginning, without white space around it
 */
export function lineError(line: number, found: LineErrorCode, text: string): LineError {
  const code = found === 'line_not_object' && !isJson(text) ? 'line_malformed' : found
  return { line, code, message: messageOf(code, text), excerpt: excerptOf(text) }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Returns the beginning of a line as a copy, because a slice would retain the whole block. */
export function excerptOf(text: string): string {
  const high = text.charCodeAt(EXCERPT_UNITS - 1)
  // Does not split a surrogate pair.
  const end = high >= 0xd800 && high <= 0xdbff ? EXCERPT_UNITS - 1 : EXCERPT_UNITS
  return Buffer.from(text.slice(0, end)).toString()
}

function messageOf(code: LineErrorCode, text: string): string {
  if (code !== 'line_malformed' || text.length > MAX_SCANNED) return MESSAGES[code]
  const fault = jsonFault(text)
  if (fault === undefined) return MESSAGES[code]
  const { offset, expected } = fault
  return `The line is not valid JSON: at character ${offset + 1}, ${expected} was expected.`
}
