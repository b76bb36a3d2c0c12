const NOTHING = Buffer.alloc(0)
/** A buffer that grew beyond this for one long line is not kept for the next. */
const KEPT_BYTES = 65_536

/**
 * The beginning of a line whose end has not come yet. It is one buffer that doubles, and not a list
 * of pieces: a client may send a byte at a time.
 */
export class PartialLine {
  private buffer = NOTHING
  private length = 0
  private dropping = false

  constructor(private readonly maxBytes: number) {}

  /** Whether a line has begun. */
  get begun(): boolean {
    return this.length > 0 || this.dropping
  }

  /**
   * Adds a copy of `piece`. Gives the beginning of the line when it gets too long by it: from then
   * on nothing is held.
   */
  add(piece: Buffer): Buffer | undefined {
    if (this.dropping) return undefined
    const length = this.length + piece.length
    if (length > this.maxBytes) {
      const beginning = Buffer.concat([this.buffer.subarray(0, this.length), piece.subarray(0, this.maxBytes - this.length)])
      this.buffer = NOTHING
      this.length = 0
      this.dropping = true
      return beginning
    }
    if (length > this.buffer.length) {
      const grown = Buffer.allocUnsafeSlow(Math.min(this.maxBytes, Math.max(length, this.buffer.length * 2, 1024)))
      this.buffer.copy(grown, 0, 0, this.length)
      this.buffer = grown
    }
    piece.copy(this.buffer, this.length)
    this.length = length
    return undefined
  }

  /**
   * Ends the line: its bytes, to be used before the next line begins, or `undefined` when it was
   * too long.
   */
  end(): Buffer | undefined {
    if (this.dropping) {
      this.dropping = false
      return undefined
    }
    const whole = this.buffer.subarray(0, this.length)
    if (this.buffer.length > KEPT_BYTES) this.buffer = NOTHING
    this.length = 0
    return whole
  }
}
