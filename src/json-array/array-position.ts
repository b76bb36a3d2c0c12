import { isAscii, isUtf8 } from 'node:buffer'
import { jsonFault } from '../http/body/json-fault.js'
import { isJsonObject, isWholeNumber } from '../http/body/json.js'
import { httpError, type ErrorCode, type HttpError } from '../http/errors.js'
import { CR, LF } from '../runtime/text.js'

/** Place in a body at which an element of the array begins. A later reader continues there. */
export interface ArrayPosition {
  /** Number of bytes of the body before the element. */
  readonly byte: number
  /** Index of the element. */
  readonly item: number
  /** State of `TextPosition`: offset, line and column, and 1 after a CR. */
  readonly text: readonly [offset: number, line: number, column: number, afterReturn: 0 | 1]
  /** State of each open container: 1 for an object, and the number of commas. Outermost first. */
  readonly opened: readonly (readonly [isObject: 0 | 1, commas: number])[]
}

export function isArrayPosition(value: unknown): value is ArrayPosition {
  if (!isJsonObject(value)) return false
  const { byte, item, text, opened } = value
  return isNumbers([byte, item]) && isNumbers(text, 4)
    && Array.isArray(opened) && opened.every((each) => isNumbers(each, 2))
}

function isNumbers(values: unknown, length = 2): boolean {
  return Array.isArray(values) && values.length === length && values.every(isWholeNumber)
}

/** Position in a text, counted as editors do. Lines end with LF, CR or CRLF. */
export class TextPosition {
  /** Offset in the text from 0, in UTF-16 units. */
  offset = 0
  /** Line number from 1. */
  line = 1
  /** Column from 1, in UTF-16 units. */
  column = 1
  private afterReturn = false

  get state(): ArrayPosition['text'] {
    return [this.offset, this.line, this.column, this.afterReturn ? 1 : 0]
  }

  /** Continues at the state of an earlier reader. */
  continueAt([offset, line, column, afterReturn]: ArrayPosition['text']): void {
    this.offset = offset
    this.line = line
    this.column = column
    this.afterReturn = afterReturn === 1
  }

  /** Advances over `text` from one index to another. */
  advance(text: string, from: number, to: number): void {
    const length = to - from
    if (length === 0) return
    this.offset += length
    if (this.afterReturn || text.includes('\r')) this.advanceReturns(text, from, to)
    else if (text.includes('\n')) this.advanceLines(text, from, to)
    else this.column += length
  }

  /** Advances over text without CR, which is the usual case. */
  private advanceLines(text: string, from: number, to: number): void {
    let start = from
    for (let at = text.indexOf('\n', from); at !== -1 && at < to; at = text.indexOf('\n', start)) {
      this.line++
      this.column = 1
      start = at + 1
    }
    this.column += to - start
  }

  private advanceReturns(text: string, from: number, to: number): void {
    for (let at = from; at < to; at++) {
      const code = text.charCodeAt(at)
      if (code === LF && this.afterReturn) {
        // The second half of CRLF; the line was counted at the CR.
        this.afterReturn = false
        continue
      }
      this.afterReturn = code === CR
      if (code === LF || code === CR) {
        this.line++
        this.column = 1
      } else this.column++
    }
  }
}

/** Skips white space (RFC 8259 section 2). */
export function skipWhiteSpace(window: ByteWindow, position: TextPosition): void {
  const { bytes, start, end } = window
  let at = start
  while (at < end && isWhiteSpace(bytes[at] as number)) at++
  if (at === start) return
  position.advance(bytes.toString('latin1', start, at), 0, at - start)
  window.start = at
}

function isWhiteSpace(byte: number): boolean {
  return byte === 0x20 || byte === LF || byte === CR || byte === 0x09
}

/** Buffers the bytes that are not consumed yet. */
export class ByteWindow {
  bytes = Buffer.allocUnsafeSlow(4096)
  /** Index of the first byte that is not consumed. */
  start = 1
  /** Index after the last byte. */
  end = 1
  private appendedBytes = 0

  get length(): number {
    return this.end - this.start
  }

  /** Number of bytes that were consumed. */
  get consumedBytes(): number {
    return this.appendedBytes - this.length
  }

  /** @param maxBytes - the buffer does not double beyond this size */
  constructor(private readonly maxBytes: number) {}

  /** Appends a copy of `chunk`. Returns by how much the existing bytes have moved. */
  append(chunk: Uint8Array): number {
    const { bytes, start, end, length } = this
    const needed = length + chunk.byteLength + 2
    const moved = 1 - start
    if (needed > bytes.length) {
      const doubled = Math.min(bytes.length * 2, this.maxBytes)
      this.bytes = Buffer.allocUnsafeSlow(Math.max(needed, doubled))
    }
    if (moved !== 0 || this.bytes !== bytes) bytes.copy(this.bytes, 1, start, end)
    this.bytes.set(chunk, length + 1)
    this.start = 1
    this.end = length + 1 + chunk.byteLength
    this.appendedBytes += chunk.byteLength
    return moved
  }

  /** Decodes bytes. Returns `undefined` if they are not UTF-8. */
  text(from: number, to: number): string | undefined {
    const piece = this.bytes.subarray(from, to)
    if (isAscii(piece)) return piece.toString('latin1')
    return isUtf8(piece) ? piece.toString('utf8') : undefined
  }

  /** Decodes bytes with a bracket before and one after them. */
  textBetween(open: number, from: number, to: number, close: number): string | undefined {
    const { bytes } = this
    const [before, after] = [bytes[from - 1] as number, bytes[to] as number]
    bytes[from - 1] = open
    bytes[to] = close
    const text = this.text(from - 1, to + 1)
    bytes[from - 1] = before
    bytes[to] = after
    return text
  }
}

/** Reason why a property of the body beside the array is rejected. */
export const UNKNOWN_MEMBER = 'is not a known property'

/** Position of the error that ended the reading: its property `position`. */
export interface ErrorPosition {
  /** Number of elements before the error, which is the index of a bad element. */
  readonly item: number
  /** Line number from 1. */
  readonly line: number
  /** Column from 1, in UTF-16 units. */
  readonly column: number
  /** Offset in the text from 0, in UTF-16 units. */
  readonly offset: number
}

export interface ErrorPlace {
  readonly item: number
  /** JSON pointer to the bad element, or to another part of the body. */
  readonly pointer: string
  readonly position: TextPosition
}

/** Returns the syntax error of a text that begins at `place`; `undefined` if there is none. */
export function syntaxError(
  place: ErrorPlace, before: string, text: string, complete: boolean,
): HttpError | undefined {
  const fault = jsonFault(before + text)
  if (fault === undefined) return undefined
  if (!complete && fault.offset === before.length + text.length) return undefined
  const distance = fault.offset - before.length
  const { item, pointer, position: { offset, line, column } } = place
  const position = {
    item,
    line: line + fault.line - 1,
    column: fault.line === 1 ? column + distance : fault.column,
    offset: offset + distance,
  }
  const reason = `${fault.expected} was expected`
  return arrayError('malformed_json', { pointer, position }, 'The body is not valid JSON', reason)
}

export function errorAt(
  code: ErrorCode, { item, pointer, position }: ErrorPlace, message: string, reason: string,
): HttpError {
  const { line, column, offset } = position
  return arrayError(code, { pointer, position: { item, line, column, offset } }, message, reason)
}

function arrayError(
  code: ErrorCode, { pointer, position }: { readonly pointer: string, readonly position: ErrorPosition },
  message: string, reason: string,
): HttpError {
  const place = `line ${position.line}, column ${position.column} (offset ${position.offset})`
  return httpError(code, {
    message: `${message}: at ${place}, ${reason}.`,
    details: [{ pointer, message: `${place}: ${reason}.` }],
    members: { position },
  })
}
