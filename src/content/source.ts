import { httpError } from '../http/errors.js'
import type { HttpRequest } from '../http/exchange.js'
import { isDigest, type DigestAlgorithm, type Digests } from '../http/headers/digests.js'
import { isHeaderValue } from '../http/headers/reader.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { checkNames } from '../runtime/option-names.js'
import type { Blobs, LinkHeaders } from '../stores/blobs.js'

/**
 * One version of content that may be larger than memory. `open` returns bytes of the version that
 * `size`, `etag` and `lastModified` describe, or throws.
 */
export interface ContentSource {
  /** Bytes, 0 to 2^53 - 1. */
  readonly size: number
  /** Media type. Default: `application/octet-stream`. */
  readonly type?: string
  /**
   * Entity tag with its quotes, such as `"a1"`, of these bytes only. Without a tag and
   * `lastModified`, clients cannot resume. A weak tag serves for 304 only.
   */
  readonly etag?: string | undefined
  /** Time of the last change, in milliseconds since 1970. */
  readonly lastModified?: number | undefined
  /** File name, for `Content-Disposition`. */
  readonly name?: string | undefined
  /**
   * Known digests of all bytes in base64. Sent as `Repr-Digest` (RFC 9530), unless the response is
   * compressed. A client chooses among them with `Want-Repr-Digest`.
   */
  readonly digests?: Digests | undefined
  /**
   * Computes a digest of all bytes in base64; `undefined` if that costs too much. Called if a
   * client wants a digest that `digests` does not have. The response waits for it.
   */
  digest?(algorithm: DigestAlgorithm): MaybePromise<string | undefined>
  /**
   * Returns the bytes from `start` up to, not including, `end`, at least one. They are read at the
   * speed of the client, so open nothing before the first chunk. May be called several times for
   * one response. If it fails after the first chunk, the connection is cut.
   */
  open(start: number, end: number): MaybePromise<AsyncIterable<Uint8Array> | Iterable<Uint8Array>>
  /**
   * Returns a URL at which the same bytes are, such as a signed one. A GET of all bytes or of one
   * range is redirected there (307) instead of calling `open`. Responses at the URL must have the
   * entity tag of the source, and these headers.
   */
  link?(headers: LinkHeaders): MaybePromise<string>
}

/** Finds the content for a request. `undefined` declines the request. */
export type FindContent<C = unknown> = (
  request: HttpRequest<C>,
) => MaybePromise<ContentSource | undefined>

const ETAG = /^(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"$/

/**
 * @throws {TypeError} A property of the source is invalid. The message names the property and the
 * reason.
 */
export function checkSource(source: ContentSource): void {
  if (typeof source?.open !== 'function') {
    throw new TypeError('content: pass a source, or a function that finds one, such as folderSource(path) of longhaul/files')
  }
  const { size, type, etag, lastModified, digests } = source
  if (!Number.isSafeInteger(size) || size < 0) {
    throw new TypeError(`The size of a content source must be a whole number of bytes from 0 to 2^53 - 1, not ${String(size)}`)
  }
  if (etag !== undefined && !ETAG.test(etag)) {
    throw new TypeError(`An entity tag has quotes around it, as in "a1"; ${etag} is not one`)
  }
  if (type !== undefined && !isHeaderValue(type)) {
    throw new TypeError('The media type of a content source cannot be sent in a header')
  }
  if (lastModified !== undefined && !Number.isFinite(lastModified)) {
    throw new TypeError(`lastModified must be a time in milliseconds since 1970, not ${lastModified}`)
  }
  if (digests !== undefined) checkDigests(digests)
}

/**
 * Yields the bytes of a part. Throws if they are not as many as were promised. Passes chunks that
 * the consumer returns to `next` on to the source.
 */
export async function* readPart(
  source: ContentSource, start: number, end: number,
): AsyncGenerator<Uint8Array, void, Uint8Array | undefined> {
  let left = end - start
  if (left === 0) return
  const content = await source.open(start, end)
  const chunks = Symbol.asyncIterator in content
    ? content[Symbol.asyncIterator]() : content[Symbol.iterator]()
  let returned: Uint8Array | undefined
  let isOpen = false
  try {
    for (let step = await chunks.next(); step.done !== true; step = await chunks.next(returned)) {
      isOpen = true
      left -= step.value.byteLength
      if (left < 0) {
        throw new RangeError(`The content source returned more than the ${end - start} bytes that were requested`)
      }
      returned = yield step.value
      isOpen = false
    }
  } finally {
    if (isOpen) await chunks.return?.()
  }
  if (left > 0) {
    throw new RangeError(`The content source ended ${left} bytes before the end of the requested part`)
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

export function notADigest(algorithm: DigestAlgorithm): TypeError {
  return new TypeError(`The ${algorithm} of a content source must be the digest in base64`)
}

/**
 * Opens a blob as a source that clients can resume; `undefined` if there is none. If the blob is
 * replaced before it is read, the client gets 503 and may retry at once.
 * @example
 * content(() => blobSource(blobs, 'report'))
 */
export async function blobSource(
  blobs: Blobs, key: string, options: {
    /** Media type. Default: `application/octet-stream`. */
    readonly type?: string,
    /** File name, for `Content-Disposition`. Default: none. */
    readonly name?: string,
    /** Digests of the content in base64, for `Repr-Digest`. Default: none are known. */
    readonly digests?: Digests,
  } = {},
): Promise<ContentSource | undefined> {
  checkNames('blobSource', options, { type: 0, name: 0, digests: 0 })
  const info = await blobs.stat(key)
  if (info === undefined) return undefined
  const { size, etag } = info
  return {
    ...options, size, etag,
    open: async (start, end) => unlessReplaced(await blobs.open(key, { start, end, etag })),
    ...blobs.link && {
      link: async (headers) => unlessReplaced(await blobs.link?.(key, { ...headers, etag })),
    },
  }
}

function unlessReplaced<T>(found: T | undefined): T {
  if (found !== undefined) return found
  throw httpError('service_unavailable', { headers: { 'retry-after': '1' } })
}
