const EMPTY = Buffer.alloc(0)
/** A larger buffer is released after its line. */
const KEPT_BYTES = 65_536

/**
 * Buffers the beginning of a line until its end arrives. It is one buffer that doubles, not a list
 * of pieces, because a client may send one byte at a time.
 */
export class PartialLine {
  private buffer = EMPTY
  private length = 0
  /** The line is too long; the rest of it is skipped. */
  private skipping = false

  constructor(private readonly maxBytes: number) {}

  /** A line has begun and not ended. */
  get begun(): boolean {
    return this.length > 0 || this.skipping
  }

  /**
   * Adds a copy of `piece`. If the line becomes too long, returns its beginning and releases the
   * buffer.
   */
  add(piece: Buffer): Buffer | undefined {
    if (this.skipping) return undefined
    const length = this.length + piece.length
    if (length > this.maxBytes) {
      const rest = piece.subarray(0, this.maxBytes - this.length)
      const beginning = Buffer.concat([this.buffer.subarray(0, this.length), rest])
      this.buffer = EMPTY
      this.length = 0
      this.skipping = true
      return beginning
    }
    if (length > this.buffer.length) this.grow(length)
    piece.copy(this.buffer, this.length)
    this.length = length
    return undefined
  }

  /**
   * Ends the line. Returns its bytes, which are valid until the next `add`; `undefined` if the line
   * was too long.
   */
  end(): Buffer | undefined {
    if (this.skipping) {
      this.skipping = false
      return undefined
    }
    const line = this.buffer.subarray(0, this.length)
    if (this.buffer.length > KEPT_BYTES) this.buffer = EMPTY
    this.length = 0
    return line
  }

  private grow(length: number): void {
    const size = Math.min(this.maxBytes, Math.max(length, this.buffer.length * 2, 1024))
    const grown = Buffer.allocUnsafeSlow(size)
    this.buffer.copy(grown, 0, 0, this.length)
    this.buffer = grown
  }
}
