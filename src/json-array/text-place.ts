import type { ByteWindow } from './byte-window.js'

const CR = 0x0d
const LF = 0x0a

/** How far a text has been read, as an editor counts. Lines end with LF, CR or CRLF. */
export class TextPlace {
  /** From 0, in UTF-16 units. */
  offset = 0
  /** From 1. */
  line = 1
  /** From 1, in UTF-16 units. */
  column = 1
  private afterReturn = false

  /** Goes on over `text` from one index to another. */
  advance(text: string, from: number, to: number): void {
    const length = to - from
    if (length === 0) return
    this.offset += length
    if (this.afterReturn || text.includes('\r')) this.overReturns(text, from, to)
    else if (text.includes('\n')) this.overLines(text, from, to)
    else this.column += length
  }

  /** Line feeds only, which is what nearly all texts have. */
  private overLines(text: string, from: number, to: number): void {
    let start = from
    for (let at = text.indexOf('\n', from); at !== -1 && at < to; at = text.indexOf('\n', start)) {
      this.line++
      this.column = 1
      start = at + 1
    }
    this.column += to - start
  }

  private overReturns(text: string, from: number, to: number): void {
    for (let at = from; at < to; at++) {
      const code = text.charCodeAt(at)
      if (code === LF && this.afterReturn) {
        // The second half of a line's end, which was counted at the first.
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

/** Goes over white space (RFC 8259 section 2). */
export function skipBlank(window: ByteWindow, place: TextPlace): void {
  const { bytes, start, end } = window
  let at = start
  while (at < end && isBlank(bytes[at] as number)) at++
  if (at === start) return
  place.advance(bytes.toString('latin1', start, at), 0, at - start)
  window.start = at
}

function isBlank(byte: number): boolean {
  return byte === 0x20 || byte === LF || byte === CR || byte === 0x09
}
