import { isAscii, isUtf8, transcode } from 'node:buffer'
import { excerptOf } from '../records/report.js'
import type { ErrorDetail } from '../wire/errors.js'
import { inexactValues } from '../http/body/exact-json.js'
import { jsonFault } from '../http/body/json-fault.js'

/** Reason why a line fails. */
export type LineErrorCode = 'inexact_value' | 'line_malformed' | 'line_not_object' | 'line_not_utf8'
  | 'line_too_deep' | 'line_too_long' | 'line_unsafe_key'

/** One failed line. */
export interface LineError {
  /** Line number, from 1; blank lines count. */
  readonly line: number
  readonly code: LineErrorCode
  /** One sentence. It does not quote the line. */
  readonly message: string
  /** The first 80 UTF-16 units of the line. */
  readonly excerpt: string
  /** Values of an `inexact_value`, with pointers that begin at the record. */
  readonly details?: readonly ErrorDetail[]
}

const MESSAGES: Readonly<Record<LineErrorCode, string>> = {
  inexact_value: 'A value cannot be stored exactly as it was sent.',
  line_malformed: 'The line is not valid JSON.',
  line_not_object: 'The line is not a JSON object.',
  line_not_utf8: 'The line is not valid UTF-8.',
  line_too_deep: 'The line is nested too deeply.',
  line_too_long: 'The line is too long.',
  line_unsafe_key: 'The line has a key that is not allowed.',
}

/** Maximum number of bytes that 80 UTF-16 units take in UTF-8. */
export const EXCERPT_BYTES = 240
/**
 * Maximum length of a line in which the position of a syntax error is searched. Longer lines would
 * cost too much.
 */
const MAX_SCANNED = 4096

export function lineError(line: number, found: LineErrorCode, text: string): LineError {
  if (found === 'inexact_value') {
    const details = inexactValues(text)
    return { line, code: found, message: MESSAGES[found], excerpt: excerptOf(text), details }
  }
  const code = found === 'line_not_object' && parsed(text) === undefined ? 'line_malformed' : found
  return { line, code, message: messageOf(code, text), excerpt: excerptOf(text) }
}

function messageOf(code: LineErrorCode, text: string): string {
  if (code !== 'line_malformed' || text.length > MAX_SCANNED) return MESSAGES[code]
  const fault = jsonFault(text)
  if (fault === undefined) return MESSAGES[code]
  const { offset, expected } = fault
  return `The line is not valid JSON: at character ${offset + 1}, ${expected} was expected.`
}

/** Decodes bytes. Returns `undefined` if they are not UTF-8. */
export function textOf(bytes: Buffer): string | undefined {
  if (isAscii(bytes)) return bytes.toString('latin1')
  if (!isUtf8(bytes)) return undefined
  // Three times as fast as `toString` for long strings, and slower for short ones.
  if (bytes.length < 1024) return bytes.toString()
  return transcode(bytes, 'utf8', 'utf16le').toString('utf16le')
}

export function parsed(text: string): object | undefined {
  try {
    return JSON.parse(text) as object
  } catch {
    return undefined
  }
}

/** White space of JSON (RFC 8259 section 2), without the line feed, which ends a line. */
export function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0d || code === 0x09
}

const EMPTY = Buffer.alloc(0)
/** A larger buffer is released after its line. */
const KEPT_BYTES = 65_536

/** Buffers the beginning of a line, in one buffer because a client may send single bytes. */
export class PartialLine {
  private buffer = EMPTY
  private length = 0
  private skipping = false

  constructor(private readonly maxBytes: number) {}

  /** True if a line has begun and not ended. */
  get begun(): boolean {
    return this.length > 0 || this.skipping
  }

  add(piece: Buffer): Buffer | undefined {
    if (this.skipping) return undefined
    const length = this.length + piece.length
    if (length > this.maxBytes) {
      const rest = piece.subarray(0, this.maxBytes - this.length)
      const beginning = Buffer.concat([this.buffer.subarray(0, this.length), rest])
      this.buffer = EMPTY
      this.length = 0
      this.skipping = true
      return beginning
    }
    if (length > this.buffer.length) this.grow(length)
    piece.copy(this.buffer, this.length)
    this.length = length
    return undefined
  }

  /** Ends the line. Returns its bytes until the next `add`; `undefined` if it was too long. */
  end(): Buffer | undefined {
    if (this.skipping) {
      this.skipping = false
      return undefined
    }
    const line = this.buffer.subarray(0, this.length)
    if (this.buffer.length > KEPT_BYTES) this.buffer = EMPTY
    this.length = 0
    return line
  }

  private grow(length: number): void {
    const size = Math.min(this.maxBytes, Math.max(length, this.buffer.length * 2, 1024))
    const grown = Buffer.allocUnsafeSlow(size)
    this.buffer.copy(grown, 0, 0, this.length)
    this.buffer = grown
  }
}
