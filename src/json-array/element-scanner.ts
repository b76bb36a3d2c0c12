const QUOTE = 0x22
const BACKSLASH = 0x5c

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
 * Finds where elements of an array, or members of an object, end: it counts brackets outside of
 * strings, and knows nothing else of JSON. In what is JSON it finds just the right places; in what
 * is not, it is right up to the fault. It goes on where it stopped, so each byte is looked at once.
 */
export class ElementScanner {
  /** The next byte to look at. */
  at = 0
  private depth = 0
  private inString = false

  /** Begins anew, at the beginning of an element. */
  restart(at: number): void {
    this.at = at
    this.depth = 0
    this.inString = false
  }

  /**
   * Where the comma or the closing bracket stands that ends the present element, or -1 when it is
   * not among the bytes before `to`.
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

  /** Behind the closing quote. It may be one byte behind `to`, when that is an escaped one. */
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
