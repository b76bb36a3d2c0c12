import { BACKSLASH, QUOTE } from '../runtime/text.js'

const OPEN = 1
const CLOSE = 2
const COMMA = 3
const STRING = 4
const KINDS = new Uint8Array(256)
for (const char of '{[') KINDS[char.charCodeAt(0)] = OPEN
for (const char of '}]') KINDS[char.charCodeAt(0)] = CLOSE
KINDS[0x2c] = COMMA
KINDS[QUOTE] = STRING

/**
 * Finds the ends of array elements or object members. It counts brackets outside of strings, and
 * knows nothing else of JSON. In valid JSON it finds the right ends; in other text it is right up
 * to the error. It continues where it stopped, so each byte is read once.
 */
export class ElementScanner {
  /** Index of the next byte to read. */
  at = 0
  private depth = 0
  private inString = false

  /** Restarts at the beginning of an element. */
  restart(at: number): void {
    this.at = at
    this.depth = 0
    this.inString = false
  }

  /**
   * Returns the index of the comma or closing bracket that ends the current element; -1 if it is
   * not before `to`.
   */
  next(bytes: Uint8Array, to: number): number {
    let { at, depth } = this
    let stop = -1
    if (this.inString) at = this.skipString(bytes, at, to)
    while (at < to) {
      const kind = KINDS[bytes[at++] as number] as number
      if (kind === 0) continue
      if (kind === STRING) at = this.skipString(bytes, at, to)
      else if (kind === OPEN) depth++
      else if (depth === 0) {
        stop = at - 1
        break
      } else if (kind === CLOSE) depth--
    }
    this.at = at
    this.depth = depth
    return stop
  }

  /**
   * Returns the index after the closing quote. It is one byte after `to` if the last byte escapes
   * the next one.
   */
  private skipString(bytes: Uint8Array, from: number, to: number): number {
    let at = from
    while (at < to) {
      const byte = bytes[at++] as number
      if (byte === QUOTE) {
        this.inString = false
        return at
      }
      if (byte === BACKSLASH) at++
    }
    this.inString = true
    return at
  }
}
