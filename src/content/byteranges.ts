import { randomBytes } from 'node:crypto'
import { contentRange, type Range } from '../http/fields/range.js'
import { readPart, type ContentSource } from './source.js'

/**
 * Several parts of a source as multipart/byteranges (RFC 9110 section 14.6), one after the other.
 */
export class ByteRanges {
  /** The value of Content-Type. */
  readonly type: string
  /** The length of the whole body, in bytes. */
  readonly length: number
  readonly #source: ContentSource
  readonly #ranges: readonly Range[]
  readonly #heads: readonly string[]
  readonly #end: string

  constructor(source: ContentSource, type: string, ranges: readonly Range[]) {
    // 128 random bits: that the content has just these by chance is not to be feared.
    const boundary = randomBytes(16).toString('hex')
    this.type = `multipart/byteranges; boundary=${boundary}`
    this.#source = source
    this.#ranges = ranges
    this.#heads = ranges.map((range, index) => (
      `${index === 0 ? '' : '\r\n'}--${boundary}\r\nContent-Type: ${type}\r\nContent-Range: ${contentRange(range, source.size)}\r\n\r\n`
    ))
    this.#end = `\r\n--${boundary}--\r\n`
    this.length = ranges.reduce((sum, { start, end }) => sum + end - start, 0)
      + this.#heads.reduce((sum, head) => sum + Buffer.byteLength(head, 'latin1'), this.#end.length)
  }

  async* read(): AsyncGenerator<Uint8Array, void, undefined> {
    for (const [index, { start, end }] of this.#ranges.entries()) {
      const content = readPart(this.#source, start, end)
      // The head of a part waits for its first bytes, so that a source that fails at once is
      // answered with an error.
      let head: Uint8Array | undefined = Buffer.from(this.#heads[index] as string, 'latin1')
      for await (const chunk of content) {
        if (head !== undefined) yield head
        head = undefined
        yield chunk
      }
    }
    yield Buffer.from(this.#end, 'latin1')
  }
}
