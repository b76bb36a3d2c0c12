import { createHash, type Hash } from 'node:crypto'
import { httpError } from '../http/errors.js'

/** Bytes of an upload that one request has brought: from the end of the segment before to `end`. */
export interface Segment {
  /** Byte after the last one, counted from the start of the decoded upload. */
  readonly end: number
  /** SHA-256 of the bytes, in hex. */
  readonly sha256: string
}

/** Digest of a stream whose first bytes are committed while later ones have arrived. */
export class SegmentDigest {
  private readonly hash: Hash = createHash('sha256')
  /** Copies of the bytes that are not committed, because a source may reuse its chunks. */
  private pending: Uint8Array[] = []
  private committed: number

  /** @param start - byte of the upload at which the stream begins */
  constructor(private readonly start: number) {
    this.committed = start
  }

  /** Yields the chunks of a source, and notes them. */
  async* of(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const chunk of source) {
      this.pending.push(Uint8Array.prototype.slice.call(chunk))
      yield chunk
    }
  }

  /** Returns the segment until `end`; `undefined` if it is empty. `end` must not decrease. */
  until(end: number): Segment | undefined {
    while (this.committed < end) {
      const [chunk] = this.pending
      if (chunk === undefined) break
      const size = Math.min(chunk.byteLength, end - this.committed)
      this.hash.update(chunk.subarray(0, size))
      this.committed += size
      if (size === chunk.byteLength) this.pending.shift()
      else this.pending[0] = chunk.subarray(size)
    }
    return this.segment()
  }

  /** Returns the segment with all bytes; `undefined` if there are none. */
  untilLast(): Segment | undefined {
    return this.until(Infinity)
  }

  private segment(): Segment | undefined {
    const { committed: end, start, hash } = this
    return end > start ? { end, sha256: hash.copy().digest('hex') } : undefined
  }
}

/**
 * Reads the bytes of the given segments from a source, and checks that they are those of the
 * earlier requests. Returns the bytes that follow.
 *
 * @param from - byte at which the source begins, the start of a segment
 * @throws {HttpError} 422 `idempotency_key_reused`: the bytes are others, or fewer
 */
export async function afterSegments(
  source: AsyncIterable<Uint8Array>, segments: readonly Segment[], from: number,
): Promise<AsyncIterable<Uint8Array>> {
  const left = segments.filter(({ end }) => end > from)
  if (left.length === 0) return source
  const chunks = source[Symbol.asyncIterator]()
  let at = from
  let hash = createHash('sha256')
  for (;;) {
    const next = await chunks.next()
    if (next.done === true) throw httpError('idempotency_key_reused')
    let chunk = next.value
    while (left[0] !== undefined) {
      const size = Math.min(chunk.byteLength, left[0].end - at)
      hash.update(chunk.subarray(0, size))
      at += size
      chunk = chunk.subarray(size)
      if (at < left[0].end) break
      if (hash.digest('hex') !== left[0].sha256) throw httpError('idempotency_key_reused')
      hash = createHash('sha256')
      left.shift()
    }
    if (left.length === 0) return withFirst(chunk, chunks)
  }
}

/** Returns a chunk that was read, and the chunks after it. */
export async function* withFirst(
  first: Uint8Array, rest: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    if (first.byteLength > 0) yield first
    for (;;) {
      const next = await rest.next()
      if (next.done === true) return
      yield next.value
    }
  } finally {
    await rest.return?.()
  }
}
