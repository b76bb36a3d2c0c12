/**
 * Gathers bytes that come in pieces in one buffer, which doubles when it is full. A list would need
 * some 100 bytes for each piece, and a client may send a byte at a time.
 */
export class Gathered {
  #buffer: Uint8Array = new Uint8Array(0)
  /** Bytes that were added. */
  size = 0

  /** Adds a copy of `piece`. */
  add(piece: Uint8Array): void {
    const size = this.size + piece.byteLength
    if (size > this.#buffer.byteLength) {
      const grown = new Uint8Array(Math.max(size, this.#buffer.byteLength * 2, 4096))
      grown.set(this.#buffer.subarray(0, this.size))
      this.#buffer = grown
    }
    this.#buffer.set(piece, this.size)
    this.size = size
  }

  /** All of them. Add none afterwards. */
  get bytes(): Uint8Array {
    return this.#buffer.subarray(0, this.size)
  }
}
