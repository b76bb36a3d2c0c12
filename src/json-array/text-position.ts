import { CR, LF } from '../runtime/text.js'
import type { ArrayPosition } from './array-position.js'
import type { ByteWindow } from './byte-window.js'

/** Position in a text, counted as editors do. Lines end with LF, CR or CRLF. */
export class TextPosition {
  /** From 0, in UTF-16 units. */
  offset = 0
  /** From 1. */
  line = 1
  /** From 1, in UTF-16 units. */
  column = 1
  /** The last character was a CR. */
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
