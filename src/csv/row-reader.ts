import { isAscii, isUtf8 } from 'node:buffer'
import { CR, LF, QUOTE } from '../runtime/text.js'

/** Reason why a row is not valid. */
export interface RowFault {
  readonly code: 'row_malformed' | 'row_not_utf8' | 'row_too_large'
  readonly message: string
}

/** One row of a CSV file. */
export interface Row {
  /** The row as it was sent, without its line end. A row that is too large is cut. */
  readonly text: string
  /** Absent if the row cannot be divided into cells. */
  readonly cells?: readonly string[]
  readonly fault?: RowFault
}

const NOT_UTF8: RowFault = {
  code: 'row_not_utf8', message: 'The row is not UTF-8. Save the file as "CSV UTF-8".',
}
const QUOTE_IN_TEXT: RowFault = {
  code: 'row_malformed',
  message: 'A cell has a quote, but does not begin with one. Put the cell in quotes, and write "" for a quote.',
}
const TEXT_AFTER_QUOTE: RowFault = {
  code: 'row_malformed', message: 'A cell has text after its closing quote. Write "" for a quote.',
}
const NOT_CLOSED: RowFault = { code: 'row_malformed', message: 'The quote that begins a cell is not closed.' }

/** Position in a row. */
const CELL_START = 0
const PLAIN = 1
const QUOTED = 2
/** After a quote in a quoted cell: its end, or the first half of an escaped quote. */
const AFTER_QUOTE = 3
/** In a row with a fault, up to the end of its first line. */
const SKIPPED = 4

/** Kinds of bytes. */
const OTHER = 0
const DELIMITER = 1
const QUOTES = 2
const LINE_END = 3

/**
 * Divides bytes into rows, and rows into cells (RFC 4180). The division of the bytes into chunks does
 * not change the result. A row with a quoting fault ends at its first line end, so that the rows after
 * it are read. Holds at most one row of `maxRowBytes` and one chunk.
 */
export class RowReader {
  private bytes = Buffer.allocUnsafeSlow(4096)
  /** Number of bytes in `bytes`. */
  private end = 0
  /** Index of the first byte of the row. */
  private row = 0
  /** Index of the next byte to read. */
  private at = 0
  private state = CELL_START
  /** Ends of the cells of the row. */
  private ends: number[] = []
  private fault: RowFault | undefined
  /** The beginning of a row that is too large. */
  private cut: Buffer | undefined
  /** The row before has ended with a carriage return. */
  private afterReturn = false
  private readonly kinds = new Uint8Array(256)
  private readonly tooLarge: RowFault

  constructor(delimiter: string, private readonly maxRowBytes: number) {
    this.kinds[delimiter.charCodeAt(0)] = DELIMITER
    this.kinds[QUOTE] = QUOTES
    this.kinds[CR] = this.kinds[LF] = LINE_END
    this.tooLarge = { code: 'row_too_large', message: `The row has more than ${maxRowBytes} bytes.` }
  }

  /** Yields the rows that end in this chunk. The caller may reuse the chunk. */
  * read(chunk: Uint8Array): Generator<Row, void, undefined> {
    this.append(chunk)
    yield* this.rows(false)
  }

  /** Yields the rest, after the last chunk. */
  * finish(): Generator<Row, void, undefined> {
    yield* this.rows(true)
  }

  private append(chunk: Uint8Array): void {
    const { bytes, row, end } = this
    const size = end - row + chunk.byteLength
    if (size > bytes.length) this.bytes = Buffer.allocUnsafeSlow(Math.max(size, bytes.length * 2))
    if (row > 0 || this.bytes !== bytes) bytes.copy(this.bytes, 0, row, end)
    this.bytes.set(chunk, end - row)
    this.end = size
    if (row === 0) return
    this.ends = this.ends.map((cell) => cell - row)
    this.at -= row
    this.row = 0
  }

  private* rows(isEnd: boolean): Generator<Row, void, undefined> {
    for (let row = this.next(isEnd); row !== undefined; row = this.next(isEnd)) yield row
  }

  private next(isEnd: boolean): Row | undefined {
    if (this.afterReturn && this.at < this.end) {
      if (this.bytes[this.at] === LF) this.row = ++this.at
      this.afterReturn = false
    }
    if (this.state === SKIPPED) return this.skip(isEnd)
    const limit = Math.min(this.end, this.row + this.maxRowBytes + 1)
    this.scan(limit)
    if (this.fault === undefined) {
      if (this.at < limit) return this.endRow(this.at)
      const isLong = this.at - this.row > this.maxRowBytes
      if (!isLong && !(isEnd && this.state === QUOTED)) return isEnd ? this.lastRow() : undefined
      this.fault = this.state === QUOTED ? NOT_CLOSED : this.tooLarge
    }
    this.state = SKIPPED
    this.at = this.row
    return this.skip(isEnd)
  }

  /** Reads up to the end of the row, a fault or `limit`. */
  private scan(limit: number): void {
    const { bytes, kinds, ends } = this
    let { at, state } = this
    for (; at < limit; at++) {
      const kind = kinds[bytes[at] as number] as number
      if (kind === QUOTES) {
        if (state === QUOTED) state = AFTER_QUOTE
        else if (state !== PLAIN) state = QUOTED
        else {
          this.fault = QUOTE_IN_TEXT
          break
        }
      } else if (kind === OTHER) {
        if (state === CELL_START) state = PLAIN
        else if (state === AFTER_QUOTE) {
          this.fault = TEXT_AFTER_QUOTE
          break
        }
      } else if (state !== QUOTED) {
        ends.push(at)
        state = CELL_START
        if (kind === LINE_END) break
      }
    }
    this.at = at
    this.state = state
  }

  /** Ends a row with a fault at its first line end. */
  private skip(isEnd: boolean): Row | undefined {
    const { bytes, kinds, end } = this
    let { at } = this
    while (at < end && kinds[bytes[at] as number] !== LINE_END) at++
    this.at = at
    if (this.cut === undefined && at - this.row > this.maxRowBytes) {
      this.cut = Buffer.from(bytes.subarray(this.row, this.row + this.maxRowBytes))
      if (this.fault === NOT_CLOSED) this.fault = this.tooLarge
    }
    if (at < end || isEnd) return this.endRow(at)
    // The rest of a row that is cut is not kept.
    if (this.cut !== undefined) this.row = at
    return undefined
  }

  private lastRow(): Row | undefined {
    if (this.row === this.end) return undefined
    this.ends.push(this.end)
    return this.endRow(this.end)
  }

  /** Returns the row that ends at `end`, and begins the next one. */
  private endRow(end: number): Row {
    const { bytes, row, ends, cut } = this
    const whole = cut ?? bytes.subarray(row, end)
    const fault = this.fault ?? (isUtf8(whole) ? undefined : NOT_UTF8)
    const decode = decoderOf(whole)
    const text = decode(whole)
    const found = { text, ...fault && { fault } }
    const result = this.fault ? found : { ...found, cells: cellsOf(text, whole, { ends, row, decode }) }
    this.afterReturn = bytes[end] === CR && end < this.end
    this.row = this.at = Math.min(end + 1, this.end)
    this.state = CELL_START
    this.ends = []
    this.fault = this.cut = undefined
    return result
  }
}

type Decode = (bytes: Buffer) => string

const WINDOWS_1252 = new TextDecoder('windows-1252')

/** Reads bytes that are not UTF-8 as Windows-1252, which spreadsheets write then. */
function decoderOf(bytes: Buffer): Decode {
  if (isAscii(bytes)) return (piece) => piece.toString('latin1')
  return isUtf8(bytes) ? (piece) => piece.toString() : (piece) => WINDOWS_1252.decode(piece)
}

function cellsOf(
  text: string, bytes: Buffer,
  { ends, row, decode }: { readonly ends: readonly number[], readonly row: number, readonly decode: Decode },
): string[] {
  const isSame = text.length === bytes.length
  let start = 0
  return ends.map((end) => {
    const [from, to] = [start, end - row]
    start = to + 1
    const cell = isSame ? text.slice(from, to) : decode(bytes.subarray(from, to))
    return cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell
  })
}
