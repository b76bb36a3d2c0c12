import { isUtf8 } from 'node:buffer'
import { StringDecoder } from 'node:string_decoder'
import {
  isTooDeep, SHALLOW_UNITS, shallowUnits, hasUnsafeKey, mayHoldUnsafeKey,
} from '../http/body/json.js'
import { inexactValues, mayBeInexact } from '../http/body/exact-json.js'
import { checkNames } from '../runtime/option-names.js'
import { CLOSE_BRACE, CR, LF, OPEN_BRACE } from '../runtime/text.js'
import { Turns } from '../runtime/timers.js'
import {
  EXCERPT_BYTES, isSpace, lineError, parsed, PartialLine, textOf, type LineError,
  type LineErrorCode,
} from './line-text.js'

/** Records and failed lines of one chunk of bytes, each ordered by line. */
export interface RecordBatch {
  readonly records: object[]
  /** Line number of each record, from 1. */
  readonly lines: number[]
  /** Failed lines. The reader describes the first `maxErrors` of the stream. */
  readonly errors: LineError[]
  /** Number of failed lines in this chunk, described or not. */
  readonly failed: number
}

/** Limits of a reader. */
export interface LineReaderOptions {
  /** Maximum length of a line in bytes. A longer line fails. Default: 1_048_576 (1 MiB). */
  readonly maxLineBytes?: number
  /** Maximum number of failed lines that are described; `Infinity` for all. Default: 100. */
  readonly maxErrors?: number
}

const KNOWN = { maxLineBytes: 0, maxErrors: 0 } satisfies Record<keyof LineReaderOptions, 0>

interface LineSpan {
  readonly start: number
  readonly end: number
  readonly long: boolean
  /** True if the block may contain a key that is not allowed. */
  readonly suspect: boolean
  /** True if the block may contain a value that changes when it is parsed. */
  readonly inexact: boolean
}

type MutableBatch = { -readonly [K in keyof RecordBatch]: RecordBatch[K] }

const MAX_LINE_BYTES = 268_435_456
const BOM = 0xfeff

/**
 * Splits bytes into lines and parses each line as a record. The division of the bytes into chunks
 * does not change the result.
 *
 * Lines end at the byte 0x0A, before anything is decoded. CRLF, white space around a record, blank
 * lines, a byte order mark at the start and a last line without a line feed are allowed. A line
 * fails if it is not one JSON object in UTF-8, is too long, is nested more than 512 levels deep, or
 * has a key such as `__proto__` at any depth, or a value that a JavaScript value cannot keep exactly.
 *
 * All lines that end in a chunk are parsed at once. Pass chunks of about 64 KiB, or use
 * `readRecords`, which divides its source.
 * @example
 * import { LineReader } from 'longhaul/ndjson'
 *
 * const reader = new LineReader()
 * const first = reader.read(Buffer.from('{"id":1}\n{"id"'))
 * const second = reader.read(Buffer.from(':2}'))
 * const last = reader.end()
 * console.log([first, second, last].flatMap(({ records }) => records))
 */
export class LineReader {
  private readonly maxLineBytes: number
  private readonly maxErrors: number
  private readonly partial: PartialLine
  private line = 0
  private bytes = 0
  private lineByte = 0
  private described = 0

  /** @throws {TypeError} An option is unknown or not valid. */
  constructor(options: LineReaderOptions = {}) {
    checkNames('LineReader', options, KNOWN)
    const { maxLineBytes = 1_048_576, maxErrors = 100 } = options
    if (!(Number.isInteger(maxLineBytes) && maxLineBytes >= 1 && maxLineBytes <= MAX_LINE_BYTES)) {
      throw new TypeError(
        `LineReader: maxLineBytes must be a whole number from 1 to ${MAX_LINE_BYTES}`,
      )
    }
    if (!(maxErrors >= 0)) throw new TypeError('LineReader: maxErrors must be 0 or more')
    this.maxLineBytes = maxLineBytes
    this.maxErrors = maxErrors
    this.partial = new PartialLine(maxLineBytes)
  }

  /** Number of lines that have ended so far, including blank lines. */
  get lineCount(): number {
    return this.line
  }

  /** Number of bytes that were passed to `read` so far. */
  get byteCount(): number {
    return this.bytes
  }

  /**
   * Position of the first byte of the unfinished line, or of the next line if there is none.
   * @internal
   */
  get lineStart(): number {
    return this.lineByte
  }

  /**
   * Continues a stream that was read before, at the byte at which a line begins.
   * @internal
   */
  continueAt(byte: number, lines: number): void {
    this.bytes = this.lineByte = byte
    this.line = lines
  }

  /** Returns the records of all lines that end in this chunk. You may reuse the chunk. */
  read(chunk: Uint8Array): RecordBatch {
    const batch = emptyBatch()
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    this.bytes += bytes.length
    const last = bytes.lastIndexOf(LF)
    if (last === -1) {
      this.addPartial(bytes, batch)
      return batch
    }
    this.lineByte = this.bytes - bytes.length + last + 1
    let start = 0
    if (this.partial.begun) {
      const end = bytes.indexOf(LF)
      this.addPartial(bytes.subarray(0, end), batch)
      this.endPartial(batch)
      start = end + 1
    }
    if (start <= last) this.readBlock(bytes.subarray(start, last), batch)
    if (last + 1 < bytes.length) this.addPartial(bytes.subarray(last + 1), batch)
    return batch
  }

  /** Returns the record of a last line without a line feed. Call it once, after the last chunk. */
  end(): RecordBatch {
    const batch = emptyBatch()
    if (this.partial.begun) this.endPartial(batch)
    this.lineByte = this.bytes
    return batch
  }

  private addPartial(piece: Buffer, batch: MutableBatch): void {
    const tooLong = this.partial.add(piece)
    if (tooLong) this.fail('line_too_long', this.beginning(tooLong), batch, this.line + 1)
  }

  private endPartial(batch: MutableBatch): void {
    const whole = this.partial.end()
    if (whole) this.readBlock(whole, batch)
    // The line was too long, and was reported when it became so.
    else this.line++
  }

  private readBlock(bytes: Buffer, batch: MutableBatch): void {
    const text = textOf(bytes)
    if (text === undefined) {
      this.readInvalidUtf8(bytes, batch)
      return
    }
    const long = bytes.length > this.maxLineBytes
    const suspect = mayHoldUnsafeKey(text)
    const inexact = mayBeInexact(text)
    const plain = !long && !suspect && !inexact
    const shallow = shallowUnits(text)
    const { records, lines } = batch
    const { length } = text
    let line = this.line
    const { stackTraceLimit } = Error
    // A parse that throws is several times as fast without a stack trace, which is not used.
    Error.stackTraceLimit = 0
    try {
      for (let start = 0, next = 0; start <= length; start = next + 1) {
        next = text.indexOf('\n', start)
        if (next === -1) next = length
        const end = text.charCodeAt(next - 1) === CR ? next - 1 : next
        line++
        const isObject = text.charCodeAt(start) === OPEN_BRACE
          && text.charCodeAt(end - 1) === CLOSE_BRACE
        // The usual line is parsed here, because a call for each line costs 10 % of the reading.
        if (isObject && plain && end - start <= shallow) {
          try {
            records.push(JSON.parse(text.slice(start, end)) as object)
            lines.push(line)
          } catch {
            this.line = line
            this.fail('line_malformed', text.slice(start, end), batch)
          }
        } else {
          this.line = line
          this.readLine(text, { start, end: next, long, suspect, inexact }, batch)
        }
      }
    } finally {
      this.line = line
      Error.stackTraceLimit = stackTraceLimit
    }
  }

  private readLine(text: string, place: LineSpan, batch: MutableBatch): void {
    let { start, end } = place
    if (place.long && this.isTooLong(text, start, end)) {
      const beginning = Buffer.from(text.slice(start, start + EXCERPT_BYTES))
      this.fail('line_too_long', this.beginning(beginning), batch)
      return
    }
    if (this.line === 1 && text.charCodeAt(start) === BOM) start++
    while (start < end && isSpace(text.charCodeAt(start))) start++
    while (start < end && isSpace(text.charCodeAt(end - 1))) end--
    if (start === end) return
    // Checked before the line is parsed, because a parse that throws costs a hundred times as much.
    if (text.charCodeAt(start) !== OPEN_BRACE) {
      this.fail('line_not_object', text.slice(start, end), batch)
      return
    }
    const line = text.slice(start, end)
    const record = text.charCodeAt(end - 1) === CLOSE_BRACE ? parsed(line) : undefined
    if (record === undefined) this.fail('line_malformed', line, batch)
    else if (line.length > SHALLOW_UNITS && isTooDeep(record)) {
      this.fail('line_too_deep', line, batch)
    } else if (place.suspect && mayHoldUnsafeKey(line) && hasUnsafeKey(record)) {
      this.fail('line_unsafe_key', line, batch)
    } else if (place.inexact && mayBeInexact(line) && inexactValues(line).length > 0) {
      this.fail('inexact_value', line, batch)
    } else {
      batch.records.push(record)
      batch.lines.push(this.line)
    }
  }

  /** Reads lines of which at least one is not UTF-8. */
  private readInvalidUtf8(bytes: Buffer, batch: MutableBatch): void {
    let good = 0
    for (let start = 0, end = 0; start <= bytes.length; start = end + 1) {
      end = bytes.indexOf(LF, start)
      if (end === -1) end = bytes.length
      const line = bytes.subarray(start, end)
      if (isUtf8(line)) continue
      if (good < start) this.readBlock(bytes.subarray(good, start - 1), batch)
      good = end + 1
      this.line++
      const code = line.length > this.maxLineBytes ? 'line_too_long' : 'line_not_utf8'
      this.fail(code, this.beginning(line), batch)
    }
    if (good <= bytes.length) this.readBlock(bytes.subarray(good), batch)
  }

  /** Measures a line only if needed: a UTF-16 unit takes at most three bytes. */
  private isTooLong(text: string, start: number, end: number): boolean {
    const { maxLineBytes } = this
    if ((end - start) * 3 <= maxLineBytes) return false
    return Buffer.byteLength(text.slice(start, end)) > maxLineBytes
  }

  /** Returns the beginning of a line as text, without half a character at its end. */
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

function emptyBatch(): MutableBatch {
  return { records: [], lines: [], errors: [], failed: 0 }
}

const BLOCK_BYTES = 65_536
const MANY_FAILED = 256
/** Size of the block after one with many bad lines, so that the event loop is not blocked. */
const SMALL_BLOCK_BYTES = 8192

/**
 * Reads NDJSON from any source of bytes, such as a request body or a file stream. Yields a batch
 * for each 64 KiB or less that contains a record or a failed line. Yields to the event loop about
 * every 10 ms. Closes the source if the reader stops early. Rejects with the error of the source.
 * @example
 * import { createReadStream } from 'node:fs'
 *
 * for await (const { records, errors } of readRecords(createReadStream('users.ndjson'))) {
 *   console.log(records.length, errors)
 * }
 * @throws {TypeError} An option is unknown or not valid.
 */
export function readRecords(
  source: AsyncIterable<Uint8Array>, options: LineReaderOptions = {},
): AsyncGenerator<RecordBatch, void, undefined> {
  return readBatches(source, new LineReader(options))
}

export interface BatchSettings {
  /**
   * Yields an empty batch after this many bytes of blank lines, so that the reader can save the
   * position. Default: never.
   */
  readonly maxQuietBytes?: number
  /** Number of the last line that is read. Default: unlimited. */
  readonly maxLines?: number
}

export interface ReadBatch extends RecordBatch {
  /** `true` if bytes follow the line `maxLines`. This batch is the last one. */
  readonly isOver?: true
}

export async function* readBatches(
  source: AsyncIterable<Uint8Array>, reader: LineReader,
  { maxQuietBytes = Infinity, maxLines = Infinity }: BatchSettings = {},
): AsyncGenerator<ReadBatch, void, undefined> {
  const turns = new Turns()
  let size = BLOCK_BYTES
  let quietBytes = 0
  for await (const chunk of source) {
    for (let at = 0; at < chunk.byteLength;) {
      const block = chunk.subarray(at, at + size)
      // A block has at most as many lines as bytes.
      if (reader.lineCount + block.byteLength > maxLines) {
        const end = endOfLines(block, maxLines - reader.lineCount)
        if (end < block.byteLength) {
          yield { ...reader.read(block.subarray(0, end)), isOver: true }
          return
        }
      }
      const batch = reader.read(block)
      at += size
      size = batch.failed > MANY_FAILED ? SMALL_BLOCK_BYTES : BLOCK_BYTES
      quietBytes += block.byteLength
      if (batch.records.length > 0 || batch.failed > 0 || quietBytes >= maxQuietBytes) {
        quietBytes = 0
        yield batch
      }
      if (turns.due) await turns.next()
    }
  }
  const rest = reader.end()
  if (rest.records.length > 0 || rest.failed > 0) yield rest
}

/** Returns the byte after the first `count` lines of a block, or its length if it has fewer. */
function endOfLines(block: Uint8Array, count: number): number {
  let end = 0
  for (let left = count; left > 0; left--) {
    const next = block.indexOf(LF, end)
    if (next === -1) return block.byteLength
    end = next + 1
  }
  return end
}
