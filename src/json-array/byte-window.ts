import { isAscii, isUtf8 } from 'node:buffer'

/**
 * Buffers the bytes that are not consumed yet. One spare byte before and one after them allow the
 * bytes to be put in brackets without a copy.
 */
export class ByteWindow {
  bytes = Buffer.allocUnsafeSlow(4096)
  /** Index of the first byte that is not consumed. */
  start = 1
  /** Index after the last byte. */
  end = 1
  private appendedBytes = 0

  get length(): number {
    return this.end - this.start
  }

  /** Number of bytes that were consumed. */
  get consumedBytes(): number {
    return this.appendedBytes - this.length
  }

  /** @param maxBytes - the buffer does not double beyond this size */
  constructor(private readonly maxBytes: number) {}

  /** Appends a copy of `chunk`. Returns by how much the existing bytes have moved. */
  append(chunk: Uint8Array): number {
    const { bytes, start, end, length } = this
    const needed = length + chunk.byteLength + 2
    const moved = 1 - start
    if (needed > bytes.length) {
      const doubled = Math.min(bytes.length * 2, this.maxBytes)
      this.bytes = Buffer.allocUnsafeSlow(Math.max(needed, doubled))
    }
    if (moved !== 0 || this.bytes !== bytes) bytes.copy(this.bytes, 1, start, end)
    this.bytes.set(chunk, length + 1)
    this.start = 1
    this.end = length + 1 + chunk.byteLength
    this.appendedBytes += chunk.byteLength
    return moved
  }

  /** Decodes bytes. Returns `undefined` if they are not UTF-8. */
  text(from: number, to: number): string | undefined {
    const piece = this.bytes.subarray(from, to)
    if (isAscii(piece)) return piece.toString('latin1')
    return isUtf8(piece) ? piece.toString('utf8') : undefined
  }

  /** Decodes bytes with a bracket before and one after them. */
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
