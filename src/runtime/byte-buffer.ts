/**
 * Collects bytes that arrive in pieces in one buffer, which doubles when it is full. A list of
 * pieces would need some 100 bytes for each, and a client may send one byte at a time.
 */
export class Gathered {
  #buffer: Uint8Array = new Uint8Array(0)
  /** Number of bytes added so far. */
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

  /** Returns all bytes. Add none afterwards. */
  get bytes(): Uint8Array {
    return this.#buffer.subarray(0, this.size)
  }
}
