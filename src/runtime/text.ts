/** Codes of ASCII characters. */
export const TAB = 0x09
export const LF = 0x0a
export const CR = 0x0d
export const SPACE = 0x20
export const QUOTE = 0x22
export const COMMA = 0x2c
export const EQUALS = 0x3d
export const OPEN_BRACKET = 0x5b
export const BACKSLASH = 0x5c
export const CLOSE_BRACKET = 0x5d
export const OPEN_BRACE = 0x7b
export const CLOSE_BRACE = 0x7d

/** Cuts a string to `max` UTF-16 units, the last one being `…`. Never splits a surrogate pair. */
export function cutText(text: string, max: number): string {
  if (text.length <= max) return text
  const high = text.charCodeAt(max - 2)
  return `${text.slice(0, high >= 0xd800 && high <= 0xdbff ? max - 2 : max - 1)}…`
}

const NOTHING = new Uint8Array(0)

/**
 * Collects bytes in one buffer. A list of pieces would need much memory if each piece had one byte.
 */
export class Gathered {
  #buffer: Uint8Array = NOTHING
  size = 0

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

  /** Adds a piece that nobody changes afterwards. The first piece is not copied. */
  keep(piece: Uint8Array): void {
    if (this.size > 0) {
      this.add(piece)
      return
    }
    this.#buffer = piece
    this.size = piece.byteLength
  }

  /** Returns all bytes. Add none afterwards. */
  get bytes(): Uint8Array {
    const { size } = this
    return this.#buffer.byteLength === size ? this.#buffer : this.#buffer.subarray(0, size)
  }
}

/** Reads a source. Returns `undefined` if it has more than `limit` bytes. */
export async function gather(
  source: AsyncIterable<Uint8Array>, limit = Infinity,
): Promise<Uint8Array | undefined> {
  const gathered = new Gathered()
  for await (const piece of source) {
    if (gathered.size + piece.byteLength > limit) return undefined
    gathered.add(piece)
  }
  return gathered.bytes
}

/** Reads a source until it ends, or has more than `limit` bytes. */
export async function readStart(
  pieces: AsyncIterator<Uint8Array>, limit: number,
): Promise<{ readonly bytes: Uint8Array, readonly isWhole: boolean }> {
  const start = new Gathered()
  while (start.size <= limit) {
    const next = await pieces.next()
    if (next.done === true) return { bytes: start.bytes, isWhole: true }
    start.add(next.value)
  }
  return { bytes: start.bytes, isWhole: false }
}

/** Yields bytes that were read before, and the rest of their source. */
export async function* withRest(
  first: Uint8Array, rest: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  yield first
  yield* { [Symbol.asyncIterator]: () => rest }
}

/** Yields the bytes from `start` to `end` of a source, which is read from its beginning. */
export async function* bytesBetween(
  source: AsyncIterable<Uint8Array>, start: number, end = Infinity,
): AsyncGenerator<Uint8Array, void, undefined> {
  let at = 0
  for await (const piece of source) {
    const part = piece.subarray(Math.max(start - at, 0), end - at)
    at += piece.byteLength
    if (part.byteLength > 0) yield part
    if (at >= end) return
  }
}

export const BLOCK_BYTES = 65_536

/** Smaller pieces are copied into blocks. In bytes. */
const KEPT_BYTES = 16_384

/** Bytes in blocks of 64 KiB, and large pieces between them. */
export class Blocks {
  size = 0
  readonly #blocks: Uint8Array[] = []
  /** Number of free bytes in the last block. */
  #room = 0

  /** Adds a copy of a piece. */
  add(piece: Uint8Array): void {
    for (let at = 0; at < piece.byteLength;) {
      if (this.#room === 0) {
        this.#blocks.push(Buffer.allocUnsafeSlow(BLOCK_BYTES))
        this.#room = BLOCK_BYTES
      }
      const part = piece.subarray(at, at + this.#room)
      this.#blocks.at(-1)?.set(part, BLOCK_BYTES - this.#room)
      this.size += part.byteLength
      this.#room -= part.byteLength
      at += part.byteLength
    }
  }

  /**
   * Adds a piece that nobody changes afterwards. A large piece is not copied, because that costs 5 %
   * of a bulk request with 100,000 items.
   */
  keep(piece: Uint8Array): void {
    const copied = piece.subarray(0, this.#room)
    const rest = piece.subarray(this.#room)
    this.add(copied)
    if (rest.byteLength < Math.max(KEPT_BYTES, rest.buffer.byteLength / 2)) {
      this.add(rest)
      return
    }
    this.#blocks.push(rest)
    this.size += rest.byteLength
  }

  /** Yields the bytes from `start` to `end`, which must not be changed. */
  * pieces(start = 0, end = this.size): Generator<Uint8Array, void, undefined> {
    let at = 0
    for (let index = 0; at < end; index++) {
      const block = this.#blocks[index] as Uint8Array
      const piece = block.subarray(Math.max(start - at, 0), end - at)
      if (piece.byteLength > 0) yield piece
      at += block.byteLength
    }
  }

  /** Shortens the last block to its content. Add nothing afterwards. */
  shorten(): void {
    const last = this.#blocks.pop()
    if (last === undefined) return
    this.#blocks.push(Uint8Array.from(last.subarray(0, last.byteLength - this.#room)))
    this.#room = 0
  }

  clear(): void {
    this.size = 0
    this.#room = 0
    this.#blocks.length = 0
  }
}

const REMEMBERED = 256

/** Formats times, and caches recent seconds. */
export class SecondTexts {
  readonly #seconds = Array<number>(REMEMBERED).fill(-1)
  readonly #texts = Array<string>(REMEMBERED).fill('')

  /** @param format - formats a whole second, given in milliseconds since 1970 */
  constructor(private readonly format: (ms: number) => string) {}

  /** @param second - seconds since 1970 */
  of(second: number): string {
    const at = second % REMEMBERED
    if (this.#seconds[at] !== second) {
      this.#texts[at] = this.format(second * 1000)
      this.#seconds[at] = second
    }
    return this.#texts[at] as string
  }
}

export async function* oneOf(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes
}
