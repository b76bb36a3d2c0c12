import { jsonFault } from '../http/body/json-fault.js'

/** Why a line is no record. */
export type LineErrorCode = 'line_malformed' | 'line_not_object' | 'line_not_utf8' | 'line_too_deep' | 'line_too_long' | 'line_unsafe_key'

/** One bad line. */
export interface LineError {
  /** From 1; blank lines count. */
  readonly line: number
  readonly code: LineErrorCode
  /** One sentence, which quotes nothing of the line. */
  readonly message: string
  /** How the line begins: up to 80 UTF-16 units. */
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
/** As many bytes as 80 units may take. */
export const EXCERPT_BYTES = 240
/**
 * In longer lines the place of a fault is not looked for: that would cost more than the parse did.
 */
const MAX_SCANNED = 4096

/**
 * Describes a bad line by its text, without white space around it, or by how it begins. A line that
 * does not begin as an object may still be no JSON at all: that is found out here, because only the
 * described lines need it.
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

/** How a line begins, as a text of its own: a slice would keep all of the block alive. */
export function excerptOf(text: string): string {
  const high = text.charCodeAt(EXCERPT_UNITS - 1)
  // Not half of a surrogate pair.
  const end = high >= 0xd800 && high <= 0xdbff ? EXCERPT_UNITS - 1 : EXCERPT_UNITS
  return Buffer.from(text.slice(0, end)).toString()
}

function messageOf(code: LineErrorCode, text: string): string {
  if (code !== 'line_malformed' || text.length > MAX_SCANNED) return MESSAGES[code]
  const fault = jsonFault(text)
  return fault === undefined ? MESSAGES[code] : `The line is not valid JSON: at character ${fault.offset + 1}, ${fault.expected} was expected.`
}
