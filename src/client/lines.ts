import { isObject } from './json-object.js'

/** Reason why a line is not a record. */
export type LineFaultCode = 'line_malformed' | 'line_not_object' | 'line_not_utf8' | 'line_too_long'

/** One bad line. */
export interface LineFault {
  /** Number of the line, from 1. Blank lines count. */
  readonly line: number
  readonly code: LineFaultCode
}

/** A line that is not blank. */
export type Line = { readonly record: object } | LineFault

const LF = 10
const MESSAGES: Readonly<Record<LineFaultCode, string>> = {
  line_malformed: 'is not valid JSON',
  line_not_object: 'is not a JSON object',
  line_not_utf8: 'is not valid UTF-8',
  line_too_long: 'is too long',
}

/** Describes a bad line in one sentence. */
export function describeFault({ line, code }: LineFault): string {
  return `Line ${line} ${MESSAGES[code]}.`
}

/** Parses NDJSON (SPEC 4.9) from chunks of bytes. Chunks may end anywhere. */
export class RecordReader {
  private readonly decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  /** Pieces of a line whose end has not arrived. */
  private pieces: Uint8Array[] = []
  /** Length of the current line so far, in bytes. */
  private length = 0
  /** The current line is too long. Its bytes are discarded. */
  private dropping = false
  private line = 0

  constructor(private readonly maxLineBytes: number) {}

  /** Yields a record or a fault for each line that ends in this chunk. */
  * read(chunk: Uint8Array): Generator<Line, void, undefined> {
    let start = 0
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, start)) {
      const fault = this.add(chunk.subarray(start, end))
      start = end + 1
      if (fault) yield fault
      const found = this.endLine()
      if (found) yield found
    }
    const fault = start < chunk.length ? this.add(chunk.slice(start)) : undefined
    if (fault) yield fault
  }

  /** Returns the last line, if no line feed ended it. */
  end(): Line | undefined {
    return this.length > 0 || this.dropping ? this.endLine() : undefined
  }

  /** Adds a piece to the current line. */
  private add(piece: Uint8Array): LineFault | undefined {
    if (this.dropping) return undefined
    this.length += piece.length
    if (this.length <= this.maxLineBytes) {
      if (piece.length > 0) this.pieces.push(piece)
      // Joining bounds the overhead of many small pieces.
      if (this.pieces.length >= 1024) this.pieces = [joined(this.pieces, this.length)]
      return undefined
    }
    this.dropping = true
    this.pieces = []
    return { line: this.line + 1, code: 'line_too_long' }
  }

  /** Returns the current line, or `undefined` if it is blank or its fault was reported. */
  private endLine(): Line | undefined {
    const { pieces, length, dropping } = this
    this.pieces = []
    this.length = 0
    this.dropping = false
    const line = ++this.line
    if (dropping) return undefined
    let text: string
    try {
      text = this.decoder.decode(joined(pieces, length))
    } catch {
      return { line, code: 'line_not_utf8' }
    }
    if (line === 1 && text.charCodeAt(0) === 0xfeff) text = text.slice(1)
    if (!/[^ \t\r]/.test(text)) return undefined
    try {
      const record: unknown = JSON.parse(text)
      if (isObject(record) && !Array.isArray(record)) return { record }
      return { line, code: 'line_not_object' }
    } catch {
      return { line, code: 'line_malformed' }
    }
  }
}

function joined(pieces: readonly Uint8Array[], length: number): Uint8Array {
  if (pieces.length === 1) return pieces[0] ?? new Uint8Array()
  const whole = new Uint8Array(length)
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}
