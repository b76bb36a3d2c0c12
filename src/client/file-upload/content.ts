import { toIterable } from '../chunks.js'
import { ClientError } from '../errors.js'
import type { UploadContent } from './types.js'

/** A piece of the content. */
export interface Piece {
  readonly body: Blob
  /** True if nothing follows. */
  readonly last: boolean
}

/** Content that is read in pieces. */
export interface Content {
  /** Size in bytes; `undefined` if it is not known yet. */
  readonly total: number | undefined
  readonly type: string
  /** Returns at most `size` bytes from `start`. The same piece can be read again. */
  piece(start: number, size: number): Promise<Piece>
}

/** Returns the content in pieces. A stream is held in memory as far as it may be sent again. */
export function toContent(content: UploadContent): Content {
  if (content instanceof Blob) return ofBlob(content)
  if (content instanceof Uint8Array) return ofBlob(new Blob([toPart(content)]))
  if (!isSource(content)) {
    throw new TypeError(
      'uploadFile: the content must be a Blob, a Uint8Array, a ReadableStream or an async iterable',
    )
  }
  return new StreamContent(toIterable(content))
}

function isSource(content: unknown): boolean {
  return typeof content === 'object' && content !== null
    && (Symbol.asyncIterator in content || 'getReader' in content)
}

function ofBlob(blob: Blob): Content {
  const { size: total, type } = blob
  const piece = async (start: number, size: number): Promise<Piece> => (
    { body: blob.slice(start, start + size), last: start + size >= total }
  )
  return { total, type, piece }
}

class StreamContent implements Content {
  readonly type = ''
  total: number | undefined
  /** Bytes from `start` that were read. */
  private held = new Blob([])
  private start = 0

  constructor(private readonly source: AsyncGenerator<Uint8Array, void, undefined>) {}

  async piece(start: number, size: number): Promise<Piece> {
    if (start < this.start) {
      throw new ClientError('content_lost', 'The server needs bytes that the stream has passed.')
    }
    // One byte more, to know whether it ends here.
    while (this.total === undefined && this.start + this.held.size <= start + size) {
      const { done, value } = await this.source.next()
      if (done === true) this.total = this.start + this.held.size
      else this.add(value, start)
    }
    this.drop(start)
    return { body: this.held.slice(0, size), last: this.held.size <= size }
  }

  private add(chunk: Uint8Array, start: number): void {
    this.held = new Blob([this.held, toPart(chunk)])
    this.drop(start)
  }

  /** Drops the bytes before `start`, which the server has. */
  private drop(start: number): void {
    const passed = Math.min(start - this.start, this.held.size)
    this.start += passed
    this.held = this.held.slice(passed)
  }
}

/** Node and browsers have different types for a part of a `Blob`. Both copy its bytes. */
function toPart(bytes: unknown): Uint8Array<ArrayBuffer> {
  return bytes as Uint8Array<ArrayBuffer>
}
