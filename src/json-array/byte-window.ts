import { isAscii, isUtf8 } from 'node:buffer'

/**
 * The bytes that were not used up yet, in one buffer. In front of them and behind them is a byte to
 * spare, so that they can be put in brackets where they lie.
 */
export class ByteWindow {
  bytes = Buffer.allocUnsafeSlow(4096)
  /** The first byte that is not used up. */
  start = 1
  /** Behind the last. */
  end = 1

  get length(): number {
    return this.end - this.start
  }

  /** @param most - it is never made larger than this needs */
  constructor(private readonly most: number) {}

  /** Adds a copy of `chunk`. Gives by how much what was there before has moved. */
  append(chunk: Uint8Array): number {
    const { bytes, start, end, length } = this
    const needed = length + chunk.byteLength + 2
    const moved = 1 - start
    if (needed > bytes.length) this.bytes = Buffer.allocUnsafeSlow(Math.max(needed, Math.min(bytes.length * 2, this.most)))
    if (moved !== 0 || this.bytes !== bytes) bytes.copy(this.bytes, 1, start, end)
    this.bytes.set(chunk, length + 1)
    this.start = 1
    this.end = length + 1 + chunk.byteLength
    return moved
  }

  /** The text of some bytes, or `undefined` when they are not UTF-8. */
  text(from: number, to: number): string | undefined {
    const piece = this.bytes.subarray(from, to)
    if (isAscii(piece)) return piece.toString('latin1')
    return isUtf8(piece) ? piece.toString('utf8') : undefined
  }

  /** The same between two bytes that are put in their places meanwhile: brackets. */
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
