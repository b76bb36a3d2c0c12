import type { HttpRequest } from '../http/exchange.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { isDigest, type DigestAlgorithm, type Digests } from '../http/fields/digests.js'
import { isFieldValue } from '../http/fields/reader.js'

/**
 * One representation that may be larger than memory: what it is, and how to read any part of it. It
 * stands for one version: `open` gives bytes of the version that `size`, `etag` and `lastModified`
 * speak of, or fails.
 */
export interface ContentSource {
  /** Bytes, 0 to 2^53 - 1. */
  readonly size: number
  /** Media type. Default: `application/octet-stream`. */
  readonly type?: string
  /**
   * Entity tag with its quotes, such as `"a1"`: another one for other bytes. Without one, clients
   * can't tell whether what they go on with is still what they began with, unless there is
   * `lastModified`. A weak one (`W/"a1"`) is good for 304, not for resuming.
   */
  readonly etag?: string | undefined
  /** Time of the last change, in milliseconds since 1970. */
  readonly lastModified?: number | undefined
  /** The name to save it under; for `Content-Disposition`. */
  readonly name?: string | undefined
  /**
   * Digests of all the bytes in base64, if they are known, such as those that were stored with the
   * entity tag. Sent as `Repr-Digest` (RFC 9530) with 200, 206 and HEAD, unless the answer has a
   * content coding. A client chooses among them with `Want-Repr-Digest`.
   */
  readonly digests?: Digests | undefined
  /**
   * Computes a digest of all the bytes in base64, or returns `undefined` if that would cost too
   * much. Called if a client sends `Want-Repr-Digest` and `digests` has none that it wants. The
   * answer waits for it, so keep what was computed beside the entity tag.
   */
  digest?(algorithm: DigestAlgorithm): MaybePromise<string | undefined>
  /**
   * The bytes from `start` up to, not including, `end`, at least one. Asked for only when they are
   * sent, a chunk at a time and at the speed of the client, so nothing need be held open before the
   * first chunk. May be called several times for one answer. A failure before the first chunk is
   * answered as an error, a later one cuts the connection, and so do bytes that are too few or too
   * many.
   */
  open(start: number, end: number): MaybePromise<AsyncIterable<Uint8Array> | Iterable<Uint8Array>>
}

/**
 * Finds what a request is for; `undefined` when there is nothing, and the host goes on (mostly to a
 * 404).
 */
export type FindContent<C = unknown> = (
  request: HttpRequest<C>,
) => MaybePromise<ContentSource | undefined>

const ETAG = /^(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"$/

/** @throws {TypeError} that says which member of a source is of no use, and why */
export function checkSource(source: ContentSource): void {
  if (typeof source?.open !== 'function') {
    throw new TypeError('content: pass a source, or a function that finds one, such as folderSource(path) of longhaul/files')
  }
  const { size, type, etag, lastModified, digests } = source
  if (!Number.isSafeInteger(size) || size < 0) {
    throw new TypeError(`The size of a content source must be a whole number of bytes from 0 to 2^53 - 1, not ${String(size)}`)
  }
  if (etag !== undefined && !ETAG.test(etag)) {
    throw new TypeError(`An entity tag has quotes around it, as in "a1"; ${etag} is none`)
  }
  if (type !== undefined && !isFieldValue(type)) {
    throw new TypeError('The media type of a content source cannot be sent in a header')
  }
  if (lastModified !== undefined && !Number.isFinite(lastModified)) {
    throw new TypeError(
      `lastModified must be a time in milliseconds since 1970, not ${lastModified}`
    )
  }
  if (digests !== undefined) checkDigests(digests)
}

/**
 * The bytes of a part, exactly as many as were promised: a client must not take less, or another
 * version, for the whole.
 */
export async function* readPart(
  source: ContentSource, start: number, end: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  let left = end - start
  if (left === 0) return
  for await (const chunk of await source.open(start, end)) {
    left -= chunk.byteLength
    if (left < 0) {
      throw new RangeError(
        `The content source gave more than the ${end - start} bytes that it was asked for`
      )
    }
    yield chunk
  }
  if (left > 0) {
    throw new RangeError(
      `The content source ended ${left} bytes before the end of what it was asked for`
    )
  }
}

function checkDigests(digests: Digests): void {
  for (const [name, digest] of Object.entries(digests)) {
    if (name !== 'sha-256' && name !== 'sha-512') {
      throw new TypeError(`The digests of a content source are sha-256 and sha-512, not ${name}`)
    }
    if (digest !== undefined && !isDigest(name, digest)) throw notADigest(name)
  }
}

/** Returns the error of a source whose digest is not one of that algorithm. */
export function notADigest(algorithm: DigestAlgorithm): TypeError {
  return new TypeError(`The ${algorithm} of a content source must be the digest in base64`)
}
