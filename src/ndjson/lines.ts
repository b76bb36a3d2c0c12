import { isAscii, isUtf8, transcode } from 'node:buffer'
import { StringDecoder } from 'node:string_decoder'
import { isTooDeep, SHALLOW_UNITS, shallowUnits } from '../http/body/json-value.js'
import { hasUnsafeKey, mayHoldUnsafeKey } from '../http/body/json-text.js'
import { checkNames } from '../runtime/option-names.js'
import { EXCERPT_BYTES, lineError, type LineError, type LineErrorCode } from './line-error.js'
import { PartialLine } from './partial-line.js'

/** What one stretch of bytes held: its good records, and its bad lines. Both are in order. */
export interface RecordBatch {
  readonly records: object[]
  /** The line of each record, from 1. */
  readonly lines: number[]
  /** The bad lines, as long as the reader has described fewer than `maxErrors` of them. */
  readonly errors: LineError[]
  /** All bad lines of this stretch, described or not. */
  readonly failed: number
}

/** The bounds of a reader. */
export interface LineReaderOptions {
  /**
   * A longer line is dropped without being held, and reported. In bytes, without its line feed;
   * from 1 to 256 MiB, default 1 MiB.
   */
  readonly maxLineBytes?: number
  /**
   * So many bad lines of the whole stream are described; all are counted. Default 100; `Infinity`
   * for all.
   */
  readonly maxErrors?: number
}

const KNOWN = { maxLineBytes: 0, maxErrors: 0 } satisfies Record<keyof LineReaderOptions, 0>

type MutableBatch = { -readonly [K in keyof RecordBatch]: RecordBatch[K] }

const LF = 0x0a
const CR = 0x0d
const OPEN = 0x7b
const CLOSE = 0x7d
const BOM = 0xfeff

/**
 * Cuts bytes into lines and lines into records (SPEC 4.9), the same ones however the bytes are cut
 * into chunks.
 *
 * Lines end at the byte 0x0A, before anything is decoded. CRLF, spaces and tabs around a record,
 * blank lines, a byte order mark in front and a last line without its end are fine. A line that is
 * not one JSON object in UTF-8, is too long, is nested more than 512 levels deep, or has a key such
 * as `__proto__` (at any depth) is reported and skipped.
 *
 * All lines that end in a chunk are parsed in one go: give chunks of some 64 KiB, or leave that to
 * `readRecords`.
 */
export class LineReader {
  private readonly maxLineBytes: number
  private readonly maxErrors: number
  private readonly partial: PartialLine
  private line = 0
  private bytes = 0
  private described = 0

  /** @throws {TypeError} when an option makes no sense */
  constructor(options: LineReaderOptions = {}) {
    checkNames('LineReader', options, KNOWN)
    const { maxLineBytes = 1_048_576, maxErrors = 100 } = options
    if (!(Number.isInteger(maxLineBytes) && maxLineBytes >= 1 && maxLineBytes <= 268_435_456)) {
      throw new TypeError('LineReader: maxLineBytes must be a whole number from 1 to 268435456')
    }
    if (!(maxErrors >= 0)) throw new TypeError('LineReader: maxErrors must be 0 or more')
    this.maxLineBytes = maxLineBytes
    this.maxErrors = maxErrors
    this.partial = new PartialLine(maxLineBytes)
  }

  /** Lines that have ended so far, blank ones too. */
  get lineCount(): number {
    return this.line
  }

  /** Bytes that were given to it so far. */
  get byteCount(): number {
    return this.bytes
  }

  /** The records of all lines that end in this chunk. The chunk may be used again afterwards. */
  read(chunk: Uint8Array): RecordBatch {
    const batch = emptyBatch()
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    this.bytes += bytes.length
    const last = bytes.lastIndexOf(LF)
    if (last === -1) {
      this.keep(bytes, batch)
      return batch
    }
    let start = 0
    if (this.partial.begun) {
      const end = bytes.indexOf(LF)
      this.keep(bytes.subarray(0, end), batch)
      this.endPartial(batch)
      start = end + 1
    }
    if (start <= last) this.readBlock(bytes.subarray(start, last), batch)
    if (last + 1 < bytes.length) this.keep(bytes.subarray(last + 1), batch)
    return batch
  }

  /**
   * The record of a last line that has no end of its own. Call it once, when the bytes have ended.
   */
  end(): RecordBatch {
    const batch = emptyBatch()
    if (this.partial.begun) this.endPartial(batch)
    return batch
  }

  private keep(piece: Buffer, batch: MutableBatch): void {
    const tooLong = this.partial.add(piece)
    if (tooLong) this.fail('line_too_long', this.beginning(tooLong), batch, this.line + 1)
  }

  private endPartial(batch: MutableBatch): void {
    const whole = this.partial.end()
    if (whole) this.readBlock(whole, batch)
    // Reported when it became too long.
    else this.line++
  }

  /**
   * Whole lines, without the end of the last one. Decoded in one go, since they are nearly always
   * UTF-8.
   */
  private readBlock(bytes: Buffer, batch: MutableBatch): void {
    const text = textOf(bytes)
    if (text === undefined) {
      this.readDoubtful(bytes, batch)
      return
    }
    const long = bytes.length > this.maxLineBytes
    const suspect = mayHoldUnsafeKey(text)
    const plain = !long && !suspect
    const shallow = shallowUnits(text)
    const { records, lines } = batch
    const { length } = text
    let line = this.line
    const { stackTraceLimit } = Error
    // A parse that throws is several times as quick without a stack, which nobody would see.
    Error.stackTraceLimit = 0
    try {
      for (let start = 0, next = 0; start <= length; start = next + 1) {
        next = text.indexOf('\n', start)
        if (next === -1) next = length
        const end = text.charCodeAt(next - 1) === CR ? next - 1 : next
        line++
        // The usual line, in place: a call for each one costs a tenth of all.
        if (plain && end - start <= shallow && text.charCodeAt(start) === OPEN && text.charCodeAt(end - 1) === CLOSE) {
          try {
            records.push(JSON.parse(text.slice(start, end)) as object)
            lines.push(line)
          } catch {
            this.line = line
            this.fail('line_malformed', text.slice(start, end), batch)
          }
        } else {
          this.line = line
          this.readLine(text, start, next, long, suspect, batch)
        }
      }
    } finally {
      this.line = line
      Error.stackTraceLimit = stackTraceLimit
    }
  }

  private readLine(text: string, from: number, to: number, long: boolean, suspect: boolean, batch: MutableBatch): void {
    if (long && this.isTooLong(text, from, to)) {
      this.fail('line_too_long', this.beginning(Buffer.from(text.slice(from, from + EXCERPT_BYTES))), batch)
      return
    }
    let start = from
    let end = to
    if (this.line === 1 && text.charCodeAt(start) === BOM) start++
    while (start < end && isSpace(text.charCodeAt(start))) start++
    while (start < end && isSpace(text.charCodeAt(end - 1))) end--
    if (start === end) return
    // Looked at before it is parsed: a parse that throws costs as much as a hundred of these.
    if (text.charCodeAt(start) !== OPEN) {
      this.fail('line_not_object', text.slice(start, end), batch)
      return
    }
    const line = text.slice(start, end)
    const record = text.charCodeAt(end - 1) === CLOSE ? parsed(line) : undefined
    if (record === undefined) this.fail('line_malformed', line, batch)
    else if (line.length > SHALLOW_UNITS && isTooDeep(record)) this.fail('line_too_deep', line, batch)
    else if (suspect && mayHoldUnsafeKey(line) && hasUnsafeKey(record)) this.fail('line_unsafe_key', line, batch)
    else {
      batch.records.push(record)
      batch.lines.push(this.line)
    }
  }

  /**
   * Somewhere in these lines is a byte that is not UTF-8: it costs its own line, and those between
   * such lines are blocks.
   */
  private readDoubtful(bytes: Buffer, batch: MutableBatch): void {
    let good = 0
    for (let start = 0, end = 0; start <= bytes.length; start = end + 1) {
      end = bytes.indexOf(LF, start)
      if (end === -1) end = bytes.length
      const line = bytes.subarray(start, end)
      if (isUtf8(line)) continue
      if (good < start) this.readBlock(bytes.subarray(good, start - 1), batch)
      good = end + 1
      this.line++
      this.fail(line.length > this.maxLineBytes ? 'line_too_long' : 'line_not_utf8', this.beginning(line), batch)
    }
    if (good <= bytes.length) this.readBlock(bytes.subarray(good), batch)
  }

  /** A UTF-16 unit is at most three bytes long, so most lines need not be measured. */
  private isTooLong(text: string, start: number, end: number): boolean {
    return (end - start) * 3 > this.maxLineBytes && Buffer.byteLength(text.slice(start, end)) > this.maxLineBytes
  }

  /**
   * From the bytes that are there in any case when a line turns out to be too long; half of a
   * character is left out.
   */
  private beginning(bytes: Buffer): string {
    return new StringDecoder().write(bytes.subarray(0, Math.min(this.maxLineBytes, EXCERPT_BYTES)))
  }

  private fail(code: LineErrorCode, text: string, batch: MutableBatch, line = this.line): void {
    batch.failed++
    if (this.described >= this.maxErrors) return
    this.described++
    batch.errors.push(lineError(line, code, text))
  }
}

/** `undefined` when it is not UTF-8. */
function textOf(bytes: Buffer): string | undefined {
  if (isAscii(bytes)) return bytes.toString('latin1')
  if (!isUtf8(bytes)) return undefined
  // Three times as quick as `toString` for much text, and slower for little.
  return bytes.length < 1024 ? bytes.toString() : transcode(bytes, 'utf8', 'utf16le').toString('utf16le')
}

/** `undefined` when it is not JSON. */
function parsed(text: string): object | undefined {
  try {
    return JSON.parse(text) as object
  } catch {
    return undefined
  }
}

/** White space of JSON (RFC 8259 section 2) less the line feed, which ends a line. */
function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0d || code === 0x09
}

function emptyBatch(): MutableBatch {
  return { records: [], lines: [], errors: [], failed: 0 }
}
